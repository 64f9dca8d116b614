package amqp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
)

// If writeQ is deleted under its consumer, the unsettled delivery is void, and the consumer recreates the queue and
// continues.
func testWriteQDeleted(t *testing.T, b *bus) {
	t.Helper()
	c := b.connected(t, "one")
	h := consume(t, c, mq.WriteQ, 1)
	publish(t, c, mq.WriteQ, 1)
	old := h.next(t, 1)[0]
	b.service.Ctl(t, "delete_queue", b.queue(mq.WriteQ))
	testenv.Eventually(t, patience, func() error {
		return c.Publish(t.Context(), mq.WriteQ, mq.Message{Body: []byte("after")})
	})
	d := h.next(t, 1)[0]
	if got := string(d.Message().Body); got != "after" {
		t.Errorf("got %s, want after", got)
	}
	if err := old.Ack(); !errors.Is(err, mq.ErrStale) {
		t.Errorf("ack of a delivery of the deleted queue: got %v, want ErrStale", err)
	}
	ack(t, d)
}

// If a reply queue is deleted while its connection is up, it is reported as lost, and recreated.
func testReplyQueueDeleted(t *testing.T, b *bus) {
	t.Helper()
	c := b.connected(t, "one")
	replies := make(chan string, 10)
	running(t, func(ctx context.Context) error {
		return c.Replies(ctx, func(name string) { replies <- name }, func(mq.Message) {})
	})
	first := receive(t, replies)
	b.service.Ctl(t, "delete_queue", first)
	if got := receive(t, replies); got != "" {
		t.Errorf("after the deletion: got name %q, want the empty one", got)
	}
	if name := receive(t, replies); name == "" || name == first {
		t.Errorf("after the deletion: got name %q, want another than %q", name, first)
	}
}

// If syncQ is deleted and declared again, a subscriber whose queue lived on gets broadcasts again.
func testSyncQDeleted(t *testing.T, b *bus) {
	t.Helper()
	c := b.connected(t, "one")
	entered, gap := make(chan []byte, 1), make(chan bool, 10)
	running(t, func(ctx context.Context) error {
		return c.Subscribe(ctx, mq.Subscriber{
			Entry: func(body []byte) {
				select {
				case entered <- body:
				default:
				}
			},
			Gap: func() { gap <- true },
		})
	})
	receive(t, gap)
	b.admin(t, func(ch *amqp091.Channel) error { return ch.ExchangeDelete(b.exchange(), false, false) })
	testenv.Eventually(t, patience, func() error {
		if err := c.Broadcast(t.Context(), []byte("after"), nil); err != nil {
			return err
		}
		if len(entered) == 0 {
			return errors.New("the subscriber got no broadcast")
		}
		return nil
	})
}

// A queue that exists with other arguments is an operator's mistake: the bus reports it, without flooding the broker
// with reconnects, and works as soon as the queue is gone.
func testOtherArguments(t *testing.T, b *bus) {
	t.Helper()
	b.connected(t, "first")
	config, n := b.config("second")
	config.MaxReady = 7
	c := b.open(t, config, n)
	t.Cleanup(func() { _ = c.Close() })
	testenv.Eventually(t, patience, func() error {
		err := c.Ready()
		if err == nil || !strings.Contains(err.Error(), "x-max-length") {
			return fmt.Errorf("ready: got %w, want it to name the argument", err)
		}
		return is(err, mq.ErrUnavailable)
	})
	b.remove(t)
	testenv.Eventually(t, patience, c.Ready)
}

// writeQ disappears without notice to its consumer, as a quorum queue was seen to do under load. Another connection
// may or may not have recreated the queue by then: the consumer notices and continues.
func testWriteQForgetsConsumer(t *testing.T, b *bus) {
	t.Helper()
	for name, madeAnew := range map[string]bool{"Gone": false, "MadeAnew": true} {
		t.Run(name, func(t *testing.T) {
			c := b.connected(t, "one")
			h := consume(t, c, mq.WriteQ, 1)
			publish(t, c, mq.WriteQ, 1)
			ack(t, h.next(t, 1)[0])
			b.forgetQueue(t, mq.WriteQ)
			if madeAnew {
				b.connected(t, "another")
			}
			testenv.Eventually(t, patience, func() error {
				return c.Publish(t.Context(), mq.WriteQ, mq.Message{Body: []byte("after")})
			})
			d := h.next(t, 1)[0]
			if got := string(d.Message().Body); got != "after" {
				t.Errorf("got %s, want after", got)
			}
			ack(t, d)
			_ = h.end() // its context's error
		})
	}
}
