package mqtest

import (
	"context"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/conformance"
)

// queueTests are about a work queue without faults.
func queueTests() []test {
	return []test{
		{name: "ConfirmedIsDelivered", run: testConfirmed},
		{name: "OnePublisherKeepsOrder", run: testOrder},
		{name: "PrefetchBoundsWhatIsHeld", run: testPrefetch},
		{name: "ConsumersShare", run: testShare},
		{name: "QueuesAreSeparate", run: testSeparate},
		{name: "ConsumeEndsWithContext", run: testConsumeEnds},
		{name: "UnseenGoesToOthers", run: testUnseen},
		{name: "PrefetchBelowOneIsAnError", run: testBadPrefetch},
		{name: "SingleActiveConsumer", run: testSingleActive},
		{name: "SingleActiveHandsOverWhenSettled", run: testSingleHandOver},
		{name: "ExpiredIsDropped", run: testTTL},
		{name: "RejectedIsDeadLetter", run: testReject},
		{name: "ExpiredWriteIsDeadLetter", run: testExpiredWrite},
		{name: "DeadLettersHaveOneConsumer", run: testDeadConsumer},
	}
}

// A message arrives as it was published, even if the publisher reuses its buffer.
func testConfirmed(s *suite) {
	c := s.dial("one")
	if got := c.Durable(); got != s.features.Durable {
		s.Errorf("Durable: got %v, want %v", got, s.features.Durable)
	}
	body := []byte("hello")
	sent := mq.Message{Body: body, ID: "7", ReplyTo: "somebody", TTL: time.Hour, Persistent: true, Headers: map[string]string{"traceparent": "00-1", "empty": ""}}
	if err := c.Publish(s.Context(), mq.ReadQ, sent); err != nil {
		s.Fatalf("publish: got %v, want nil", err)
	}
	copy(body, "XXXXX")
	d := s.consume(c, mq.ReadQ, 1).next("hello")
	if d.Redelivered() {
		s.Error("first delivery: Redelivered is true, want false")
	}
	got := d.Message()
	if diff := cmp.Diff([]string{"7", "somebody"}, []string{got.ID, got.ReplyTo}); diff != "" {
		s.Errorf("message changed on its way (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(sent.Headers, got.Headers); diff != "" {
		s.Errorf("headers changed on their way (-want +got):\n%s", diff)
	}
	s.ack(d)
}

// Messages published from one goroutine are delivered in that order.
func testOrder(s *suite) {
	c := s.dial("one")
	k := s.consume(s.dial("other"), mq.WriteQ, 3)
	bodies := numbered(300)
	published := s.start(func(ctx context.Context) error {
		for _, body := range bodies {
			if err := c.Publish(ctx, mq.WriteQ, mq.Message{Body: []byte(body)}); err != nil {
				return fmt.Errorf("publish %s: %w", body, err)
			}
		}
		return nil
	})
	k.acked(bodies...)
	if err := published.wait(); err != nil {
		s.Error(err)
	}
}

// A consumer holds at most its prefetch, and gets one more message for each that it acknowledges.
func testPrefetch(s *suite) {
	c := s.dial("one")
	s.publish(c, mq.ReadQ, numbered(4)...)
	k := s.consume(c, mq.ReadQ, 2)
	first := k.next("m0")
	k.next("m1")
	k.nothing()
	s.ack(first)
	k.next("m2")
	k.nothing()
}

// Consumers of readQ take turns: none waits while there is work.
func testShare(s *suite) {
	c := s.dial("publisher")
	a, b := s.consume(s.dial("a"), mq.ReadQ, 1), s.consume(s.dial("b"), mq.ReadQ, 1)
	// Each holds one delivery: now both are certainly subscribed.
	s.publish(c, mq.ReadQ, "x", "x")
	heldA, heldB := a.next("x"), b.next("x")
	s.ack(heldA)
	s.ack(heldB)
	const messages = 40
	s.publish(c, mq.ReadQ, numbered(messages)...)
	gotA, gotB := 0, 0
	for gotA+gotB < messages {
		select {
		case d := <-a.got:
			gotA++
			s.ack(d)
		case d := <-b.got:
			gotB++
			s.ack(d)
		case <-time.After(s.Patience):
			s.Fatalf("got %d messages, want %d", gotA+gotB, messages)
		}
	}
	if gotA == 0 || gotB == 0 {
		s.Errorf("two consumers got %d and %d messages, want both to work", gotA, gotB)
	}
}

// A message of one work queue does not reach the consumers of another.
func testSeparate(s *suite) {
	c := s.dial("one")
	s.publish(c, mq.ReadQ, "read")
	s.publish(c, mq.LinearQ, "linearizable", "another")
	s.publish(c, mq.WriteQ, "write")
	linear := s.consume(c, mq.LinearQ, 1)
	held := linear.next("linearizable")
	s.consume(c, mq.WriteQ, 5).acked("write") // whatever is unacknowledged in another queue
	s.consume(c, mq.ReadQ, 5).acked("read")
	s.ack(held)
	linear.acked("another")
}

// Consume returns its context's error. Deliveries that it passed to handle can be acknowledged later; the others go
// to other consumers.
func testConsumeEnds(s *suite) {
	c := s.dial("one")
	a := s.consume(c, mq.ReadQ, 2)
	s.publish(c, mq.ReadQ, "m0", "m1")
	m0, m1 := a.next("m0"), a.next("m1")
	s.WantError("Consume", a.stop(), context.Canceled)
	s.publish(c, mq.ReadQ, "m2")
	a.nothing()

	b := s.consume(c, mq.ReadQ, 5)
	b.acked("m2")
	s.ack(m0)
	b.nothing() // m1 is still held
	s.ack(m1)
	b.nothing()
}

// When a consumer's context ends, the messages sent to it but not passed to handle go to other consumers immediately,
// while the pending delivery is still its own.
func testUnseen(s *suite) {
	c := s.dial("one")
	pending, finish := make(chan mq.Delivery, 5), make(chan struct{})
	a := s.start(func(ctx context.Context) error {
		return c.Consume(ctx, mq.ConsumeConfig{Queue: mq.ReadQ, Prefetch: 3}, func(d mq.Delivery) {
			pending <- d
			<-finish
		})
	})
	s.publish(c, mq.ReadQ, numbered(3)...)
	m0 := conformance.Receive(s.Suite, "first delivery", pending)
	a.cancel()
	close(finish)
	s.WantError("Consume", a.wait(), context.Canceled)
	b := s.consume(c, mq.ReadQ, 5)
	b.acked("m1", "m2")
	b.nothing()
	s.ack(m0)
	if n := len(pending); n > 0 {
		s.Errorf("%d deliveries were handed over after the context ended", n)
	}
}

// A consumer that could never receive anything is an error.
func testBadPrefetch(s *suite) {
	c := s.dial("one")
	err := c.Consume(s.Context(), mq.ConsumeConfig{Queue: mq.ReadQ}, func(mq.Delivery) {})
	if err == nil {
		s.Error("Consume with prefetch 0: got nil, want an error")
	}
}

// writeQ has one consumer at a time: the first to subscribe, and after its end the next one.
func testSingleActive(s *suite) {
	c, connA := s.dial("publisher"), s.dial("a")
	a := s.consume(connA, mq.WriteQ, 3)
	s.publish(c, mq.WriteQ, "first")
	first := a.next("first") // a is certainly the active one, and stays it while it holds a message
	b := s.consume(s.dial("b"), mq.WriteQ, 10)
	s.publish(c, mq.WriteQ, numbered(5)...)
	s.ack(first)
	a.acked("m0")
	a.next("m1")
	b.nothing() // although a is at its limit
	s.bus.Crash(s.T, connA)
	b.acked("m1", "m2", "m3", "m4")
}

// The next consumer of writeQ becomes active only when the previous one has settled all its deliveries, so that two
// never work at the same time.
func testSingleHandOver(s *suite) {
	c := s.dial("publisher")
	a := s.consume(s.dial("a"), mq.WriteQ, 1)
	s.publish(c, mq.WriteQ, "m0")
	pending := a.next("m0")
	b := s.consume(s.dial("b"), mq.WriteQ, 1)
	s.WantError("Consume", a.stop(), context.Canceled)
	s.publish(c, mq.WriteQ, "m1")
	b.nothing()
	s.ack(pending)
	b.acked("m1")
}

// A message that waited longer than its TTL is not delivered.
func testTTL(s *suite) {
	c := s.dial("one")
	const ttl = 50 * time.Millisecond
	if err := c.Publish(s.Context(), mq.ReadQ, mq.Message{Body: []byte("short"), TTL: ttl}); err != nil {
		s.Fatalf("publish: got %v, want nil", err)
	}
	s.publish(c, mq.ReadQ, "long")
	s.Pass(2 * ttl)
	k := s.consume(c, mq.ReadQ, 5)
	k.acked("long")
	k.nothing()
}

// A rejected message goes to the dead letters and is never redelivered. It has its body there, although its receiver had
// forgotten that.
func testReject(s *suite) {
	c := s.dial("one")
	k := s.consume(c, mq.WriteQ, 1)
	s.publish(c, mq.WriteQ, "poison", "m1")
	d := k.next("poison")
	d.Forget()
	if err := d.Reject(); err != nil {
		s.Fatalf("reject: got %v, want nil", err)
	}
	k.acked("m1")
	k.nothing()
	s.ack(s.consume(c, mq.DeadQ, 1).next("poison"))
}

// A write that expires in its queue becomes a dead letter, and is delivered from there without a TTL.
func testExpiredWrite(s *suite) {
	c := s.dial("one")
	const ttl = 50 * time.Millisecond
	if err := c.Publish(s.Context(), mq.WriteQ, mq.Message{Body: []byte("late"), ID: "7", TTL: ttl, Persistent: true}); err != nil {
		s.Fatalf("publish: got %v, want nil", err)
	}
	s.Pass(2 * ttl)
	writes := s.consume(c, mq.WriteQ, 1)
	writes.nothing()
	d := s.consume(c, mq.DeadQ, 1).next("late")
	if got := d.Message().ID; got != "7" {
		s.Errorf("dead letter: got id %q, want 7", got)
	}
	s.ack(d)
}

// The dead letters have one consumer at a time, the first to subscribe. A dead letter that it does not acknowledge is
// redelivered; one that it rejects is dropped.
func testDeadConsumer(s *suite) {
	c, victim := s.dial("one"), s.dial("doomed")
	s.publish(c, mq.WriteQ, numbered(3)...)
	writes := s.consume(c, mq.WriteQ, 3)
	for _, body := range numbered(3) {
		if err := writes.next(body).Reject(); err != nil {
			s.Fatalf("reject %s: got %v, want nil", body, err)
		}
	}
	first := s.consume(victim, mq.DeadQ, 3)
	first.acked("m0")
	successor := s.consume(c, mq.DeadQ, 3)
	successor.nothing()
	s.bus.Crash(s.T, victim)
	if err := successor.next("m1").Reject(); err != nil {
		s.Fatalf("reject a dead letter: got %v, want nil", err)
	}
	successor.acked("m2")
	successor.nothing()
	if got := s.bus.DeadLetters(s.T); got != 0 {
		s.Errorf("got %d dead letters, want none", got)
	}
}
