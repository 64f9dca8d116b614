package amqp_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
	"rideshare/internal/mq/amqp"
	"rideshare/internal/testkit/mqtest"
)

// removed reports whether the broker has no queue and no exchange of the bus.
func (b *bus) removed(t *testing.T) bool {
	t.Helper()
	gone := func(look func(ch *amqp091.Channel) error) bool {
		none := false
		b.admin(t, func(ch *amqp091.Channel) error {
			err := look(ch)
			refusal, ok := errors.AsType[*amqp091.Error](err)
			if none = ok && refusal.Code == amqp091.NotFound; none {
				return nil
			}
			return err
		})
		return none
	}
	all := []bool{gone(func(ch *amqp091.Channel) error {
		return ch.ExchangeDeclarePassive(b.exchange(), amqp091.ExchangeFanout, true, false, false, false, nil)
	})}
	for _, name := range []string{b.queue(mq.ReadQ), b.queue(mq.LinearQ), b.queue(mq.WriteQ), b.dead()} {
		all = append(all, gone(func(ch *amqp091.Channel) error {
			_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			return err
		}))
	}
	return !slices.Contains(all, false)
}

// Everything of a prefix goes, and nothing of another one.
func TestRemove_QueuesAndExchange(t *testing.T) {
	t.Parallel()
	b, other := sharedBus(t, mqtest.Limits{}), sharedBus(t, mqtest.Limits{})
	for _, bus := range []*bus{b, other} {
		c := bus.connected(t, "user")
		if err := errors.Join(c.Publish(t.Context(), mq.WriteQ, mq.Message{Body: []byte("left"), Persistent: true}), c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time there is nothing
		if err := amqp.Remove(t.Context(), amqp.Config{URL: b.url, Prefix: b.prefix, Name: "test"}); err != nil {
			t.Fatalf("got %v, want nil", err)
		}
		if !b.removed(t) {
			t.Error("something of the bus is still there")
		}
	}
	if other.waiting(t, other.queue(mq.WriteQ)) != 1 {
		t.Error("the message of another bus is gone")
	}
}

// A consumer would declare a deleted queue again, so the removal waits until the last one has ended.
func TestRemove_ConsumerEnds_IsWaitedFor(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	c := b.connected(t, "consumer")
	h := consume(t, c, mq.WriteQ, 1)
	if err := c.Publish(t.Context(), mq.WriteQ, mq.Message{Body: []byte("held"), Persistent: true}); err != nil {
		t.Fatal(err)
	}
	h.next(t, 1) // it consumes
	const ends = 500 * time.Millisecond
	began := time.Now()
	time.AfterFunc(ends, func() {
		_ = h.end() // its context's error
		_ = c.Close()
	})
	err := amqp.Remove(t.Context(), amqp.Config{URL: b.url, Prefix: b.prefix, Name: "test"})
	if took := time.Since(began); err != nil || took < ends {
		t.Errorf("got %v after %v, want nil after the consumer's end", err, took)
	}
	if !b.removed(t) {
		t.Error("something of the bus is still there")
	}
}

// The names without a prefix belong to a system that does not share its broker.
func TestRemove_NoPrefix_IsRefused(t *testing.T) {
	t.Parallel()
	if err := amqp.Remove(t.Context(), amqp.Config{URL: "amqp://guest:guest@127.0.0.1:1/"}); err == nil || err.Error() != "bus settings: no prefix" {
		t.Errorf("got %v, want the missing prefix", err)
	}
}
