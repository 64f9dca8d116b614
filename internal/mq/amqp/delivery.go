package amqp

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/logkey"
	"rideshare/internal/mq"
)

// errSettled is returned for the second Ack or Reject of one delivery. The broker would close the channel, which loses
// all its other deliveries.
var errSettled = errors.New("delivery was settled before")

// delivery implements mq.Delivery. It settles only on the channel that it arrived on; a closed channel is never
// reopened.
type delivery struct {
	from    *consumer
	raw     amqp091.Delivery
	settled atomic.Bool
}

// Message implements mq.Delivery.
func (d *delivery) Message() mq.Message { return message(&d.raw) }

func message(d *amqp091.Delivery) mq.Message {
	return mq.Message{
		Body: d.Body, ID: d.CorrelationId, ReplyTo: d.ReplyTo,
		TTL: ttl(d.Expiration), Persistent: d.DeliveryMode == amqp091.Persistent, Headers: headers(d.Headers),
	}
}

// headers returns the headers that are texts, without those of the broker, such as x-first-death-reason.
func headers(t amqp091.Table) map[string]string {
	var h map[string]string
	for name, value := range t {
		if text, ok := value.(string); ok && !strings.HasPrefix(name, "x-") {
			if h == nil {
				h = make(map[string]string, len(t))
			}
			h[name] = text
		}
	}
	return h
}

// table returns headers as the broker takes them.
func table(headers map[string]string) amqp091.Table {
	if len(headers) == 0 {
		return nil
	}
	t := make(amqp091.Table, len(headers))
	for name, value := range headers {
		t[name] = value
	}
	return t
}

// Forget implements mq.Delivery. It keeps the body if Reject would publish it.
func (d *delivery) Forget() {
	if d.from.single {
		d.raw.Body = nil
	}
}

// Redelivered implements mq.Delivery.
func (d *delivery) Redelivered() bool { return d.raw.Redelivered }

// Ack implements mq.Delivery.
func (d *delivery) Ack() error {
	return d.settle(func() error { return d.raw.Ack(false) })
}

// Reject implements mq.Delivery. For a write, the broker itself moves the message to the dead letters, and keeps it
// until that is done. readQ has no dead letters at the broker, because expired reads would end up there too. So
// Reject publishes a copy, which may get lost.
func (d *delivery) Reject() error {
	return d.settle(func() error {
		if !d.from.single && !d.from.ch.IsClosed() {
			if err := d.from.conn.deadLetter(d.Message()); err != nil {
				d.from.conn.config.Log.Warn("rejected message lost", logkey.Queue, string(d.from.queue), logkey.Error, err)
			}
		}
		return d.raw.Reject(false)
	})
}

// settle calls how once. Any error of how means that the channel is lost.
func (d *delivery) settle(how func() error) error {
	if d.settled.Swap(true) {
		if d.from.ch.IsClosed() {
			return mq.ErrStale
		}
		return errSettled
	}
	defer d.from.release()
	if err := how(); err != nil {
		return fmt.Errorf("%w: %w", mq.ErrStale, opaque{err})
	}
	return nil
}
