package amqp

import (
	"errors"
	"fmt"
	"sync/atomic"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/logkey"
	"rideshare/internal/mq"
)

// errSettled is returned for the second Ack or Reject of one delivery, which at
// the broker would close the channel under every other delivery.
var errSettled = errors.New("delivery was settled before")

// delivery implements mq.Delivery. It settles on the very channel that brought it, which never comes
// back once it is closed.
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
		TTL: ttl(d.Expiration), Persistent: d.DeliveryMode == amqp091.Persistent,
	}
}

// Redelivered implements mq.Delivery.
func (d *delivery) Redelivered() bool { return d.raw.Redelivered }

// Ack implements mq.Delivery.
func (d *delivery) Ack() error {
	return d.settle(func() error { return d.raw.Ack(false) })
}

// Reject implements mq.Delivery. The broker moves a write to the dead letters
// by itself, and until it has, keeps it. readQ has no dead letters at the broker, where
// expired reads would be among them, so that a copy is made here; that copy can get lost.
func (d *delivery) Reject() error {
	return d.settle(func() error {
		if !d.from.single && !d.from.ch.IsClosed() {
			if err := d.from.conn.bury(d.Message()); err != nil {
				d.from.conn.config.Log.Warn("rejected message lost", logkey.Queue, string(d.from.queue), logkey.Error, err)
			}
		}
		return d.raw.Reject(false)
	})
}

// settle calls how once. Whatever goes wrong there means that the channel is gone.
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
