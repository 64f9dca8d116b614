package amqp_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
)

// A publisher that reconnects during an alarm knows of the alarm before its first call: no call has to find out by
// waiting.
func testAlarmReconnect(t *testing.T, b *bus) {
	t.Helper()
	c, leaving := b.connected(t, "one"), b.connected(t, "leaving")
	b.Block(t)
	defer b.Unblock(t)
	before, lost := b.network(c).dialed(), c.State().Lost
	b.network(c).cut()
	testenv.Eventually(t, patience, func() error {
		if got := b.network(c).dialed(); got < before+2 {
			return fmt.Errorf("dialed %d times, want %d", got, before+2)
		}
		if got := c.State().Lost; got < lost+4 {
			return fmt.Errorf("%d connections lost, want %d", got, lost+4)
		}
		err := c.Ready()
		if err == nil { // The publisher may not have noticed the cut.
			return errors.New("ready under an alarm")
		}
		if !strings.Contains(err.Error(), "blocked") {
			return fmt.Errorf("ready: got %w, want it to say blocked", err)
		}
		return is(err, mq.ErrUnavailable)
	})
	for range 100 {
		if err := within(t, c, time.Minute, mq.Message{}); !errors.Is(err, mq.ErrUnavailable) {
			t.Fatalf("publish: got %v, want ErrUnavailable immediately", err)
		}
	}
	// A connection that is older than the alarm learns of it when it publishes.
	testenv.Eventually(t, patience, func() error {
		return is(within(t, leaving, time.Second, mq.Message{TTL: time.Millisecond}), mq.ErrUnavailable)
	})
	closeInTime(t, leaving)
	b.Unblock(t)
	testenv.Eventually(t, patience, c.Ready)
	publish(t, c, mq.ReadQ, 1)
}

// During an alarm the broker does not read. Publishes that fill the socket, and those queued behind them, still
// return by their deadlines, and the bus recovers.
func testAlarmFullSocket(t *testing.T, b *bus) {
	t.Helper()
	c, leaving := b.connected(t, "one"), b.connected(t, "leaving")
	b.Block(t)
	defer b.Unblock(t)
	const big = 8 << 20 // more than the buffers of both ends of a socket
	var callers sync.WaitGroup
	for range 8 {
		for _, conn := range []mq.Conn{c, leaving} {
			callers.Go(func() {
				body := make([]byte, big)
				refused(t, within(t, conn, time.Second, mq.Message{Body: body, TTL: time.Second}))
				clear(body) // the caller may reuse it
			})
		}
	}
	callers.Wait()
	closeInTime(t, leaving)
	b.Unblock(t)
	testenv.Eventually(t, patience, func() error { return c.Publish(t.Context(), mq.ReadQ, mq.Message{}) })
}
