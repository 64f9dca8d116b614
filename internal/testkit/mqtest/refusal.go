package mqtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"rideshare/internal/mq"
)

// smallQueue is the length limit in the tests about full queues, and overshoot is how many messages beyond it a
// broker may accept.
const (
	smallQueue = 5
	overshoot  = 50
	smallBytes = 100_000
)

// refusalTests are about publishes that fail.
func refusalTests() []test {
	return []test{
		{name: "NoQueueIsUnroutable", run: testUnroutable},
		{name: "FullQueueRefuses", limits: Limits{MaxReady: smallQueue}, run: testFull},
		{name: "QueueFullOfBytesRefuses", limits: Limits{MaxBytes: smallBytes}, run: testFullOfBytes},
		{name: "FullDeadLettersLoseNothing", limits: Limits{MaxBytes: smallBytes}, run: testFullDeadLetters},
		{name: "HeldMessagesDoNotFillTheQueue", limits: Limits{MaxReady: smallQueue}, run: testHeldDoNotCount},
		{name: "BlockedIsUnavailable", run: testBlocked},
		{name: "EndedContextSendsNothing", run: testEndedContext},
	}
}

// A message for a missing queue is returned; a consumer recreates the queue.
func testUnroutable(s *suite) {
	c := s.dial("one")
	s.bus.DeleteQueue(s.T, mq.ReadQ)
	s.WantError("publish", c.Publish(s.Context(), mq.ReadQ, mq.Message{Body: []byte("lost")}), mq.ErrUnroutable)
	if s.features.Cluster {
		return
	}
	k := s.consume(c, mq.ReadQ, 1)
	s.Eventually(func() error { return c.Publish(s.Context(), mq.ReadQ, mq.Message{Body: []byte("m0")}) })
	k.acked("m0")
	k.nothing()
}

// A full queue refuses messages. Confirmed messages are in the queue, refused ones are not, and there is room again once
// consumers have acknowledged messages.
func testFull(s *suite) {
	c := s.dial("one")
	accepted := 0
	var refused error
	for refused == nil && accepted < smallQueue+overshoot {
		refused = c.Publish(s.Context(), mq.ReadQ, mq.Message{Body: fmt.Appendf(nil, "m%d", accepted)})
		if refused == nil {
			accepted++
		}
	}
	s.WantError("publish to a full queue", refused, mq.ErrRefused)
	if accepted < smallQueue {
		s.Errorf("a queue of %d took %d messages", smallQueue, accepted)
	}
	k := s.consume(c, mq.ReadQ, 2*overshoot)
	k.acked(numbered(accepted)...)
	k.nothing()
	s.publish(c, mq.ReadQ, "again")
	k.acked("again")
}

// A queue with too many bytes refuses messages, however few it holds. It accepts messages that fit once consumers have
// acknowledged some.
func testFullOfBytes(s *suite) {
	c := s.dial("one")
	body := func(n int) string { return fmt.Sprintf("m%d", n) + strings.Repeat(" ", 30_000) }
	var accepted []string
	var refused error
	for refused == nil && len(accepted) < overshoot {
		next := body(len(accepted))
		if refused = c.Publish(s.Context(), mq.ReadQ, mq.Message{Body: []byte(next)}); refused == nil {
			accepted = append(accepted, next)
		}
	}
	s.WantError("publish to a queue full of bytes", refused, mq.ErrRefused)
	if len(accepted) < 3 {
		s.Errorf("a queue of %d bytes took %d messages of 30,000", smallBytes, len(accepted))
	}
	k := s.consume(c, mq.ReadQ, overshoot)
	k.acked(accepted...)
	s.publish(c, mq.ReadQ, body(99))
	k.acked(body(99))
}

// Dead letters without room in their queue are not lost: they fill writeQ, which then refuses further messages. Once
// consumers have taken the dead letters, each of them came at least once, and there is room again.
func testFullDeadLetters(s *suite) {
	c := s.dial("one")
	k := s.consume(c, mq.WriteQ, 1)
	body := func(n int) string { return fmt.Sprintf("m%d", n) + strings.Repeat(" ", 30_000) }
	left := map[string]bool{}
	var refused error
	for accepted := 0; refused == nil && accepted < 4*overshoot; accepted++ {
		next := body(accepted)
		if refused = c.Publish(s.Context(), mq.WriteQ, mq.Message{Body: []byte(next), Persistent: true}); refused != nil {
			break
		}
		left[next] = true
		if err := k.next(next).Reject(); err != nil {
			s.Fatalf("reject: got %v, want nil", err)
		}
	}
	want := mq.ErrRefused
	if s.features.Cluster {
		want = mq.ErrUnconfirmed
	}
	s.WantError("publish after many dead letters", refused, want)
	all, dead := len(left), s.consume(c, mq.DeadQ, overshoot)
	for len(left) > 0 {
		select {
		case d := <-dead.got:
			delete(left, string(d.Message().Body))
			s.ack(d)
		case <-time.After(s.Patience):
			s.Fatalf("%d of %d dead letters were lost", len(left), all)
		}
	}
	s.Eventually(func() error { return c.Publish(s.Context(), mq.WriteQ, mq.Message{Body: []byte("again")}) })
	k.acked("again")
}

// Only waiting messages count against the limit.
func testHeldDoNotCount(s *suite) {
	c := s.dial("one")
	k := s.consume(c, mq.ReadQ, 10*smallQueue)
	for _, body := range numbered(5 * smallQueue) {
		s.publish(c, mq.ReadQ, body)
		k.next(body) // and hold it
	}
}

// While the broker blocks publishers, a publish returns an error that it was not accepted. Deliveries and acknowledgements
// continue.
func testBlocked(s *suite) {
	c, consuming := s.dial("publisher"), s.dial("consumer")
	k := s.consume(consuming, mq.ReadQ, 1)
	s.publish(c, mq.ReadQ, "m0", "m1")
	m0 := k.next("m0")
	s.bus.Block(s.T)
	// A real broker announces the alarm only after the first publish during it, whose outcome is unknown.
	s.Eventually(func() error {
		ctx, cancel := context.WithTimeout(s.Context(), s.features.Quiet)
		defer cancel()
		// A context that has ended is ErrUnavailable, too, but the broker may not have announced anything.
		if err := c.Publish(ctx, mq.WriteQ, mq.Message{TTL: time.Second}); !errors.Is(err, mq.ErrUnavailable) || ctx.Err() != nil {
			return fmt.Errorf("publish while blocked: got %w, want %w", err, mq.ErrUnavailable)
		}
		return nil
	})
	s.WantError("Ready while blocked", c.Ready(), mq.ErrUnavailable)
	if got := c.State(); !got.Connected || !got.Blocked {
		s.Errorf("state while blocked: got %+v, want connected and blocked", got)
	}
	s.ack(m0)
	k.acked("m1")
	s.bus.Unblock(s.T)
	s.Eventually(c.Ready)
	if got := c.State(); got.Blocked {
		s.Errorf("state after the alarm: got %+v, want not blocked", got)
	}
	s.Eventually(func() error { return c.Publish(s.Context(), mq.ReadQ, mq.Message{Body: []byte("m2")}) })
	k.acked("m2")
}

// A publish whose context has already ended sends nothing.
func testEndedContext(s *suite) {
	c := s.dial("one")
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	err := c.Publish(ctx, mq.ReadQ, mq.Message{Body: []byte("late")})
	s.WantError("publish", err, mq.ErrUnavailable)
	s.WantError("publish", err, context.Canceled)
	s.consume(c, mq.ReadQ, 1).nothing()
}
