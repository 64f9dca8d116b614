package mqtest

import (
	"context"
	"strconv"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/conformance"
)

// smallBuffer is the length of the private queue in the test with a slow subscriber.
const smallBuffer = 10

// fanOutTests are about syncQ.
func fanOutTests() []test {
	return []test{
		{name: "BroadcastReachesAllInOrder", run: testFanOut},
		{name: "BroadcastToNobodyIsNoError", run: testNobody},
		{name: "BroadcastTellsThatItIsOnItsWay", run: testOnItsWay},
		{name: "BroadcastBodyBelongsToSubscriber", run: testOwnCopy},
		{name: "SlowSubscriberLosesTheOldest", limits: Limits{SyncBuffer: smallBuffer}, run: testSlow},
		{name: "GapAfterReconnect", run: testGap},
		{name: "SubscribeEndsWithContext", run: testSubscribeEnds},
	}
}

// subscriber stores what it receives.
type subscriber struct {
	*running
	gaps    chan struct{}
	entries chan []byte
}

// subscribe returns a subscriber that is bound: its first Gap has been called.
func (s *suite) subscribe(c mq.Conn, capacity int) *subscriber {
	s.Helper()
	sub := &subscriber{gaps: make(chan struct{}, 100), entries: make(chan []byte, capacity)}
	sub.running = s.start(func(ctx context.Context) error {
		return c.Subscribe(ctx, mq.Subscriber{
			Gap: func() { sub.gaps <- struct{}{} },
			Entry: func(body []byte) {
				select {
				case sub.entries <- body:
				case <-ctx.Done(): // the test is over
				}
			},
		})
	})
	conformance.Receive(s.Suite, "first gap", sub.gaps)
	return sub
}

func (s *suite) broadcast(c mq.Conn, from, to int) {
	s.Helper()
	for i := from; i < to; i++ {
		if err := c.Broadcast(s.Context(), []byte(strconv.Itoa(i)), nil); err != nil {
			s.Fatalf("broadcast %d: got %v, want nil", i, err)
		}
	}
}

// Every subscriber gets every broadcast, in the publisher's order.
func testFanOut(s *suite) {
	c := s.dial("master")
	const n = 200
	subs := []*subscriber{s.subscribe(s.dial("a"), n), s.subscribe(s.dial("b"), n), s.subscribe(c, n)}
	s.broadcast(c, 0, n)
	for which, sub := range subs {
		for i := range n {
			if got := string(conformance.Receive(s.Suite, "broadcast", sub.entries)); got != strconv.Itoa(i) {
				s.Fatalf("subscriber %d: got broadcast %s, want %d", which, got, i)
			}
		}
	}
}

// A broadcast without subscribers is accepted and lost.
func testNobody(s *suite) {
	c := s.dial("master")
	s.broadcast(c, 0, 3)
	sub := s.subscribe(c, 10)
	s.broadcast(c, 3, 4)
	if got := string(conformance.Receive(s.Suite, "broadcast", sub.entries)); got != "3" {
		s.Errorf("got broadcast %s from before the subscription, want 3", got)
	}
}

// onSent is called once per broadcast, even without subscribers.
func testOnItsWay(s *suite) {
	c := s.dial("master")
	calls := 0
	if err := c.Broadcast(s.Context(), []byte("entry"), func() { calls++ }); err != nil || calls != 1 {
		s.Errorf("broadcast: got %v and %d calls of onSent, want nil and 1", err, calls)
	}
	if err := c.Close(); err != nil {
		s.Fatal(err)
	}
	if err := c.Broadcast(s.Context(), []byte("entry"), func() { calls++ }); err == nil || calls != 2 {
		s.Errorf("broadcast after close: got %v and %d calls of onSent, want an error and 1", err, calls-1)
	}
}

// A subscriber may write into the body that it receives; no other subscriber sees that.
func testOwnCopy(s *suite) {
	c := s.dial("master")
	a, b := s.subscribe(s.dial("a"), 1), s.subscribe(s.dial("b"), 1)
	body := []byte("entry")
	if err := c.Broadcast(s.Context(), body, nil); err != nil {
		s.Fatalf("broadcast: got %v, want nil", err)
	}
	copy(conformance.Receive(s.Suite, "broadcast", a.entries), "XXXXX")
	if got := string(conformance.Receive(s.Suite, "broadcast", b.entries)); got != "entry" {
		s.Errorf("second subscriber: got %s, want entry", got)
	}
	if string(body) != "entry" {
		s.Errorf("publisher's body became %s", body)
	}
}

// A slow subscriber loses the oldest broadcasts and receives the newest, still in order; the publisher does not wait
// for it.
func testSlow(s *suite) {
	c := s.dial("master")
	slow := s.subscribe(s.dial("slow"), 0) // it blocks at each entry
	const n = 2_000
	s.broadcast(c, 0, n)
	last, heard := -1, 0
	for last != n-1 {
		i, err := strconv.Atoi(string(conformance.Receive(s.Suite, "broadcast", slow.entries)))
		if err != nil || i <= last {
			s.Fatalf("got broadcast %d after %d (error %v)", i, last, err)
		}
		last = i
		heard++
	}
	if heard == n {
		s.Errorf("a subscriber with a queue of %d that stood still heard all of %d broadcasts", smallBuffer, n)
	}
}

// After a lost connection the subscriber's Gap is called, and from then on it receives everything again.
func testGap(s *suite) {
	c := s.dial("master")
	sub := s.subscribe(s.dial("slave"), 100)
	s.broadcast(c, 0, 1)
	conformance.Receive(s.Suite, "broadcast", sub.entries)
	s.bus.Disconnect(s.T)
	conformance.Receive(s.Suite, "gap", sub.gaps)
	s.Eventually(func() error { return c.Broadcast(s.Context(), []byte("after"), nil) })
	if got := string(conformance.Receive(s.Suite, "broadcast", sub.entries)); got != "after" {
		s.Errorf("got broadcast %s, want after", got)
	}
}

// Subscribe returns its context's error, and nothing is received after that.
func testSubscribeEnds(s *suite) {
	c := s.dial("master")
	sub := s.subscribe(c, 10)
	s.WantError("Subscribe", sub.stop(), context.Canceled)
	s.broadcast(c, 0, 3)
	s.Pass(s.features.Quiet)
	if n := len(sub.entries); n > 0 {
		s.Errorf("heard %d broadcasts after the end", n)
	}
}
