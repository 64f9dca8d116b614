package mqtest

import "rideshare/internal/mq"

// StuckDelivery does not show its message before Until is closed.
type StuckDelivery struct {
	mq.Delivery
	Until <-chan struct{}
}

// Message implements mq.Delivery.
func (d StuckDelivery) Message() mq.Message {
	<-d.Until
	return d.Delivery.Message()
}

// SlowToReject is a delivery that cannot be decoded. Its rejection takes until Until is closed, as if the broker had to confirm it.
type SlowToReject struct {
	mq.Delivery
	Until <-chan struct{}
}

// Message implements mq.Delivery.
func (SlowToReject) Message() mq.Message { return mq.Message{Body: []byte("x")} }

// Reject implements mq.Delivery.
func (d SlowToReject) Reject() error {
	<-d.Until
	return nil
}
