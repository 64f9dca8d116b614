package amqp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"rideshare/internal/mq"
)

// closeBound is the bound that Close promises in any state of the broker, 5 s, and 15 s in which a busy machine may stand
// still.
const closeBound = 20 * time.Second

// held is a Consume that keeps its deliveries for the test to settle.
type held struct {
	deliveries chan mq.Delivery
	end        func() error
}

func consume(t *testing.T, c mq.Conn, q mq.Queue, prefetch int) *held {
	t.Helper()
	h := &held{deliveries: make(chan mq.Delivery, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { // ends with the test
		ended <- c.Consume(ctx, mq.ConsumeConfig{Queue: q, Prefetch: prefetch}, func(d mq.Delivery) { h.deliveries <- d })
	}()
	h.end = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = h.end() })
	return h
}

// next returns the next n deliveries.
func (h *held) next(t *testing.T, n int) []mq.Delivery {
	t.Helper()
	var ds []mq.Delivery
	for len(ds) < n {
		select {
		case d := <-h.deliveries:
			ds = append(ds, d)
		case <-time.After(patience):
			t.Fatalf("got %d deliveries, want %d", len(ds), n)
		}
	}
	return ds
}

// publish publishes n messages m0, m1 and so on, all of which must be confirmed.
func publish(t *testing.T, c mq.Conn, q mq.Queue, n int) {
	t.Helper()
	for i := range n {
		m := mq.Message{Body: fmt.Appendf(nil, "m%d", i), Persistent: true}
		if err := c.Publish(t.Context(), q, m); err != nil {
			t.Fatalf("publish m%d: got %v, want nil", i, err)
		}
	}
}

// closeInTime closes c, which must not take longer than promised.
func closeInTime(t *testing.T, c io.Closer) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
	case <-time.After(closeBound):
		t.Fatalf("close took longer than %v", closeBound)
	}
}

// within publishes with that timeout and returns the error, which must come not much later.
func within(t *testing.T, c mq.Conn, limit time.Duration, m mq.Message) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- c.Publish(ctx, mq.WriteQ, m) }()
	select {
	case err := <-answer:
		return err
	case <-time.After(limit + patience):
		t.Errorf("publish with %v did not return", limit)
		return <-answer
	}
}

// refused fails the test unless err means that a message was not accepted, or that this is unknown.
func refused(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, mq.ErrUnavailable) && !errors.Is(err, mq.ErrUnconfirmed) {
		t.Errorf("publish: got error %v, want ErrUnavailable or ErrUnconfirmed", err)
	}
}

func ack(t *testing.T, d mq.Delivery) {
	t.Helper()
	if err := d.Ack(); err != nil {
		t.Fatalf("ack %s: got %v, want nil", d.Message().Body, err)
	}
}

// is returns nil if err is want, else an error that says what it is.
func is(err, want error) error {
	if !errors.Is(err, want) {
		return fmt.Errorf("got error %w, want %w", err, want)
	}
	return nil
}

// running runs f until the test ends.
func running(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { // ended by the cleanup
		defer close(ended)
		_ = f(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// pass waits, in tests about time itself.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}
