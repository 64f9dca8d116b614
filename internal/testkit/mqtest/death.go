package mqtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"rideshare/internal/mq"
)

// deathTests are about connections that end.
func deathTests() []test {
	return []test{
		{name: "DeadConsumersDeliveriesComeFirst", run: testRedelivery},
		{name: "CloseGivesBack", run: testCloseGivesBack},
		{name: "EndedConsumeGivesBackAtClose", run: testEndedGivesBack},
		{name: "CrashedIsOver", run: testCrashed},
		{name: "StaleAckSettlesNothing", run: testStaleAck},
		{name: "CloseEndsEverything", run: testClose},
		{name: "DeletedQueueIsMadeAnew", single: true, run: testDeletedUnderConsumer},
		{name: "DeadlyWriteIsDeadLetter", single: true, run: testDeadly},
		{name: "ReconnectLosesNothingConfirmed", run: testReconnect},
		{name: "LossIsCountedAndComesBack", run: testState},
	}
}

// The unacknowledged deliveries of a dead consumer are redelivered ahead of all others, and marked as redelivered.
func testRedelivery(s *suite) {
	c, victim := s.dial("publisher"), s.dial("doomed")
	s.publish(c, mq.ReadQ, numbered(5)...)
	k := s.consume(victim, mq.ReadQ, 2)
	k.next("m0")
	m1 := k.next("m1")
	s.bus.Crash(s.T, victim)
	// Until the broker has noticed the death it has only the other messages to give.
	s.depths(s.meter(), map[mq.Queue]int{mq.ReadQ: 5}, mq.ReadQ)
	successor := s.consume(s.dial("successor"), mq.ReadQ, 10)
	for i, body := range numbered(5) {
		d := successor.next(body)
		if got, want := d.Redelivered(), i < 2; got != want {
			s.Errorf("message %s: Redelivered is %v, want %v", body, got, want)
		}
		s.ack(d)
	}
	s.WantError("ack by the dead", m1.Ack(), mq.ErrStale)
}

// Close requeues unacknowledged deliveries.
func testCloseGivesBack(s *suite) {
	c, leaving := s.dial("publisher"), s.dial("leaving")
	s.publish(c, mq.WriteQ, "m0", "m1")
	k := s.consume(leaving, mq.WriteQ, 2)
	k.acked("m0")
	m1 := k.next("m1")
	if err := leaving.Close(); err != nil {
		s.Fatalf("close: got %v, want nil", err)
	}
	s.WantError("ack after Close", m1.Ack(), mq.ErrStale)
	s.WantError("reject after Close", m1.Reject(), mq.ErrStale)
	s.consume(c, mq.WriteQ, 2).acked("m1")
}

// A delivery whose Consume has ended is also requeued when the connection ends.
func testEndedGivesBack(s *suite) {
	c, leaving := s.dial("publisher"), s.dial("leaving")
	s.publish(c, mq.ReadQ, "m0")
	k := s.consume(leaving, mq.ReadQ, 1)
	k.next("m0")
	s.WantError("Consume", k.stop(), context.Canceled)
	s.bus.Crash(s.T, leaving)
	s.consume(c, mq.ReadQ, 1).acked("m0")
}

// A crashed connection never works again, and its calls return that.
func testCrashed(s *suite) {
	c := s.dial("doomed")
	k := s.consume(c, mq.ReadQ, 1)
	s.publish(c, mq.ReadQ, "m0")
	m0 := k.next("m0")
	s.bus.Crash(s.T, c)
	s.Eventually(func() error {
		err := c.Publish(s.Context(), mq.ReadQ, mq.Message{})
		if !errors.Is(err, mq.ErrClosed) && !errors.Is(err, mq.ErrUnavailable) {
			return fmt.Errorf("publish: got %w, want ErrClosed or ErrUnavailable", err)
		}
		return nil
	})
	s.WantError("ack", m0.Ack(), mq.ErrStale)
}

// An acknowledgement on a lost connection must not settle a delivery of the new one: that message would be lost
// unhandled.
func testStaleAck(s *suite) {
	c := s.dial("one")
	k := s.consume(c, mq.WriteQ, 1)
	s.publish(c, mq.WriteQ, "m0", "m1", "m2")
	old := k.next("m0")
	s.bus.Disconnect(s.T)
	again := k.next("m0")
	if !again.Redelivered() {
		s.Error("after the connection was lost: Redelivered is false, want true")
	}
	s.WantError("ack of the old delivery", old.Ack(), mq.ErrStale)
	s.bus.Crash(s.T, c)
	s.consume(s.dial("successor"), mq.WriteQ, 1).acked("m0", "m1", "m2")
}

// Close ends all calls in bounded time, even while the broker blocks, and may be called twice.
func testClose(s *suite) {
	c := s.dial("one")
	k := s.consume(c, mq.ReadQ, 1)
	s.publish(c, mq.ReadQ, "m0")
	k.next("m0")
	subscribed := s.start(func(ctx context.Context) error {
		return c.Subscribe(ctx, mq.Subscriber{Entry: func([]byte) {}, Gap: func() {}})
	})
	replies := s.start(func(ctx context.Context) error {
		return c.Replies(ctx, func(string) {}, func(mq.Message) {})
	})
	s.bus.Block(s.T)
	defer s.bus.Unblock(s.T)
	closed := s.start(func(context.Context) error { return errors.Join(c.Close(), c.Close()) })
	if err := closed.wait(); err != nil {
		s.Errorf("close twice: got %v, want nil", err)
	}
	s.WantError("Consume", k.wait(), mq.ErrClosed)
	s.WantError("Subscribe", subscribed.wait(), mq.ErrClosed)
	s.WantError("Replies", replies.wait(), mq.ErrClosed)
	s.WantError("Ready", c.Ready(), mq.ErrClosed)
	s.WantError("Publish", c.Publish(s.Context(), mq.ReadQ, mq.Message{}), mq.ErrClosed)
	s.WantError("Reply", c.Reply(s.Context(), "x", mq.Message{}), mq.ErrClosed)
	s.WantError("Broadcast", c.Broadcast(s.Context(), nil, nil), mq.ErrClosed)
}

// A write whose consumers die repeatedly becomes a dead letter, and does not block the queue.
func testDeadly(s *suite) {
	c := s.dial("publisher")
	s.publish(c, mq.WriteQ, "deadly", "m1")
	for range mq.DeliveryLimit + 1 {
		victim := s.dial("doomed")
		s.consume(victim, mq.WriteQ, 1).next("deadly")
		s.bus.Crash(s.T, victim)
	}
	s.consume(c, mq.WriteQ, 1).acked("m1")
	s.consume(c, mq.DeadQ, 1).acked("deadly")
}

// If a queue is deleted under its consumer, it is recreated and the consumer continues.
func testDeletedUnderConsumer(s *suite) {
	c := s.dial("one")
	k := s.consume(c, mq.ReadQ, 1)
	s.publish(c, mq.ReadQ, "m0")
	k.acked("m0")
	s.bus.DeleteQueue(s.T, mq.ReadQ)
	s.Eventually(func() error { return c.Publish(s.Context(), mq.ReadQ, mq.Message{Body: []byte("m1")}) })
	k.acked("m1")
}

// Connections that drop twice under load lose nothing that was confirmed. Duplicates are allowed, because
// acknowledgements can get lost too.
func testReconnect(s *suite) {
	const publishers, each = 4, 2_500
	var seen sync.Map
	var distinct atomic.Int64
	count := func(d mq.Delivery) {
		if _, twice := seen.LoadOrStore(d.Message().ID, true); !twice {
			distinct.Add(1)
		}
		_ = d.Ack() // ErrStale: it will be redelivered
	}
	for range 2 {
		c := s.dial("consumer")
		s.start(func(ctx context.Context) error {
			return c.Consume(ctx, mq.ConsumeConfig{Queue: mq.ReadQ, Prefetch: 20}, count)
		})
	}
	disconnect := func() { s.bus.Disconnect(s.T) }
	var once [2]sync.Once
	publish := func(c mq.Conn, p int) {
		for i := range each {
			m := mq.Message{Body: []byte("x"), ID: fmt.Sprintf("%d-%d", p, i), Persistent: true}
			s.Eventually(func() error { return c.Publish(s.Context(), mq.ReadQ, m) })
			switch i {
			case each / 3:
				once[0].Do(disconnect)
			case each * 2 / 3:
				once[1].Do(disconnect)
			}
		}
	}
	var published []*running
	for p := range publishers {
		c := s.dial("publisher")
		published = append(published, s.start(func(context.Context) error {
			publish(c, p)
			return nil
		}))
	}
	for _, r := range published {
		<-r.ended
	}
	s.Eventually(func() error {
		if got := distinct.Load(); got != publishers*each {
			return fmt.Errorf("got %d of %d messages", got, publishers*each)
		}
		return nil
	})
}

// State reports that a connection was lost and re-established, and that it ended.
func testState(s *suite) {
	c := s.dial("one")
	connected := func(lost uint64) func() error {
		return func() error {
			if got := c.State(); !got.Connected || got.Blocked || got.Lost < lost {
				return fmt.Errorf("got %+v, want connected after at least %d losses", got, lost)
			}
			return nil
		}
	}
	s.Eventually(connected(0))
	if got := c.State().Lost; got != 0 {
		s.Errorf("got %d losses before the first, want 0", got)
	}
	s.bus.Disconnect(s.T)
	s.Eventually(connected(1))
	if err := c.Close(); err != nil {
		s.Fatalf("close: got %v, want nil", err)
	}
	if got := c.State(); got.Connected {
		s.Errorf("after Close: got %+v, want not connected", got)
	}
}
