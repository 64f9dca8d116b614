package amqp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"rideshare/internal/mq"
	"rideshare/internal/mq/amqp"
	"rideshare/internal/testkit/mqtest"
	"rideshare/internal/testkit/testenv"
)

// A broker that accepts messages of the size passes the check, and no queue has the message afterwards.
func TestCheckLargest_WithinTheLimit_IsTaken(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	b.connected(t, "one")
	config, _ := b.config("check")
	if err := amqp.CheckLargest(t.Context(), config, 64<<20); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if n := b.waiting(t, b.queue(mq.WriteQ)); n != 0 {
		t.Errorf("got %d messages in writeQ, want 0", n)
	}
}

// A broker that refuses the size causes an error that names its setting; other connections stay up.
func testLargestRefused(t *testing.T, b *bus) {
	t.Helper()
	c := b.connected(t, "one")
	lost := c.State().Lost
	b.service.Ctl(t, "eval", "application:set_env(rabbit, max_message_size, 1048576).")
	defer b.service.Ctl(t, "eval", "application:set_env(rabbit, max_message_size, 134217728).")
	config, _ := b.config("check")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := amqp.CheckLargest(ctx, config, 1<<20+1)
	if err == nil || !strings.Contains(err.Error(), "max_message_size") || !strings.Contains(err.Error(), "1048577") {
		t.Errorf("got %v, want an error that names max_message_size and 1048577 bytes", err)
	}
	if err = amqp.CheckLargest(ctx, config, 1<<20); err != nil {
		t.Errorf("at the limit: got %v, want nil", err)
	}
	if now := c.State().Lost; now != lost {
		t.Errorf("got %d lost connections of others, want %d", now, lost)
	}
}

// The check waits for a broker that is down, until the context ends.
func TestCheckLargest_BrokerAway_WaitsForIt(t *testing.T) {
	t.Parallel()
	b := sharedBus(t, mqtest.Limits{})
	config, n := b.config("check")
	n.disconnect()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- amqp.CheckLargest(ctx, config, 1) }()
	testenv.Eventually(t, patience, func() error {
		if tries := n.dialed(); tries < 2 {
			return fmt.Errorf("dialed %d times, want it to go on", tries)
		}
		return nil
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}
