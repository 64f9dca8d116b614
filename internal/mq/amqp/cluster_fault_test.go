package amqp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/mq"
	"rideshare/internal/mq/amqp"
	"rideshare/internal/testkit/mqtest"
	"rideshare/internal/testkit/testenv"
)

// Two parts publish while the node of one of them, which leads writeQ, is killed. Every acknowledged write arrives, reads
// go on, and the depths are those of the nodes that are there. The node's own queue is used again when it is back.
func testNodeKilled(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	b := clusterBus(t, nodes, mqtest.Limits{})
	b.admins = 1
	victim, other := b.joined(t, "victim", 0), b.joined(t, "other", 1)
	worker := b.joined(t, "worker", 2)
	seen := newSeen()
	running(t, func(ctx context.Context) error {
		return worker.Consume(ctx, mq.ConsumeConfig{Queue: mq.WriteQ, Prefetch: 100}, seen.take)
	})
	reads := consume(t, worker, mq.ReadQ, 100)
	publish(t, victim, mq.WriteQ, 1)
	pass(t, 5*time.Second) // see testKilled
	var acked acknowledged
	publishing, end := context.WithCancel(context.Background())
	var publishers sync.WaitGroup
	for i, c := range []*amqp.Conn{victim, other, victim, other} {
		publishers.Go(func() { acked.publish(publishing, c, fmt.Sprintf("p%d", i)) })
	}
	defer func() { end(); publishers.Wait() }()
	testenv.Eventually(t, patience, acked.more(100))
	nodes[0].Kill(t)
	testenv.Eventually(t, patience, acked.more(200))
	testenv.Eventually(t, patience, func() error { return at(victim, "writer", nodes[1], nodes[2]) })
	end()
	publishers.Wait()
	testenv.Eventually(t, patience, func() error { return seen.all(acked.ids) })
	t.Logf("%d writes acknowledged, %d messages delivered, longest pause %v", len(acked.ids), seen.count(), acked.longest)

	testenv.Eventually(t, patience, func() error { return victim.Publish(t.Context(), mq.ReadQ, mq.Message{}) })
	ack(t, reads.next(t, 1)[0])
	_ = reads.end() // its context's error
	publish(t, other, mq.ReadQ, 2)
	m := b.DialMeter(t)
	defer func() { _ = m.Close() }()
	testenv.Eventually(t, patience, func() error { return depth(t, m, 2) })
	reads = consume(t, worker, mq.ReadQ, 100)
	for _, d := range reads.next(t, 2) { // they would expire if the node took a minute to start
		ack(t, d)
	}
	_ = reads.end() // its context's error

	nodes[0].Start(t)
	back := b.homing(t, "back", 0)
	testenv.Eventually(t, patience, func() error { return at(back, "publisher", nodes[0]) })
	testenv.Eventually(t, patience, back.Ready)
	publish(t, other, mq.ReadQ, 2)
	publish(t, back, mq.ReadQ, 1)
	testenv.Eventually(t, patience, func() error { return depth(t, m, 3) })
	consume(t, worker, mq.ReadQ, 100).next(t, 3)
}

// depth returns nil if that many messages wait in all read queues.
func depth(t *testing.T, m mq.Meter, want int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := m.Depths(ctx)
	if err != nil || got[mq.ReadQ] != want {
		return fmt.Errorf("depths: got %v, %w, want %d reads", got, err, want)
	}
	return nil
}

// at returns nil if a connection is at one of the nodes.
func at(c mq.Conn, connection string, nodes ...*testenv.Service) error {
	host := c.State().Hosts[connection]
	for _, n := range nodes {
		if host == hostOf(n) {
			return nil
		}
	}
	return fmt.Errorf("%s is at %q", connection, host)
}

// A part whose node is paused gets its answers through another one, although nothing tells it of the pause. A part at
// another node has answers to its reads all the time, although the paused node leads writeQ; it stays ready. A node that
// was paused for so long that the others gave it up is not used before it is one of them again.
func testNodePaused(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	b := clusterBus(t, nodes, mqtest.Limits{})
	b.abandoned, b.silent = true, 0
	paused, log := nodes[0], &logBuffer{}
	worker := b.joined(t, "worker", 1)
	for _, q := range mq.WorkQueues() {
		running(t, func(ctx context.Context) error { return answering(ctx, worker, q) })
	}
	victim, other := b.joined(t, "victim", 0), b.joinedLogging(t, "other", 2, log)
	fromVictim, fromOther := caller(t, victim), caller(t, other)
	for _, call := range []func(mq.Queue) error{fromVictim, fromOther} {
		for _, q := range mq.WorkQueues() {
			testenv.Eventually(t, patience, func() error { return call(q) })
		}
	}
	asker, names := b.joined(t, "asker", 0), make(chan string, 10)
	running(t, func(ctx context.Context) error {
		return asker.Replies(ctx, func(name string) { names <- name }, func(mq.Message) {})
	})
	gone := receive(t, names)
	paused.Pause(t)
	defer paused.Resume(t)
	began := time.Now()
	answered := make(chan struct{}, 3)
	for q, call := range map[mq.Queue]func(mq.Queue) error{mq.ReadQ: fromVictim, mq.LinearQ: fromVictim, mq.WriteQ: fromOther} {
		running(t, func(context.Context) error {
			testenv.Eventually(t, patience, func() error { return call(q) })
			t.Logf("%s: answered after %v", q, time.Since(began))
			answered <- struct{}{}
			return nil
		})
	}
	testenv.Eventually(t, patience, func() error {
		err := worker.Reply(t.Context(), gone, mq.Message{})
		if err == nil || !strings.Contains(err.Error(), "has not confirmed an earlier one") {
			return fmt.Errorf("got %w, want replies to the paused node not waited for", err)
		}
		return nil
	})
	for left := cap(answered); left > 0; {
		if err := steady(t, log, nodes[1:], func() error { return errors.Join(fromOther(mq.ReadQ), other.Ready()) }); err != nil {
			t.Errorf("a read at another node, after %v: got %v, want nil", time.Since(began), err)
		}
		select {
		case <-answered:
			left--
		default:
		}
	}
	testenv.Eventually(t, time.Minute, func() error {
		if up := nodes[1].Ctl(t, "eval", "rabbit_nodes:all_running()."); strings.Contains(up, "n0@") {
			return fmt.Errorf("the paused node counts as running: %s", up)
		}
		return nil
	})
	testenv.Eventually(t, patience, func() error { return fromVictim(mq.WriteQ) })
	for _, connection := range []string{"publisher", "writer", "consumer"} {
		testenv.Eventually(t, patience, func() error { return at(victim, connection, nodes[1], nodes[2]) })
	}
	paused.Resume(t)
	late := b.member(t, "late", 0, nil)
	testenv.Eventually(t, patience, func() error { return late.Publish(t.Context(), mq.WriteQ, mq.Message{Persistent: true}) })
	testenv.Eventually(t, patience, func() error {
		if found := paused.Ctl(t, "eval", "rabbit_nodes:all_running()."); !strings.Contains(found, "n1@") && at(late, "writer", paused) == nil {
			return fmt.Errorf("a part stays at a node that finds only %s", found)
		}
		return nil
	})
}

// caller returns a function that sends a request to a queue and waits for its answer.
func caller(t *testing.T, c mq.Conn) func(mq.Queue) error {
	t.Helper()
	caller := mq.NewCaller(c)
	running(t, caller.Run)
	return func(q mq.Queue) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return caller.Call(ctx, q, []byte("request"), func([]byte, bool) bool { return true })
	}
}

// answering answers each message of a queue.
func answering(ctx context.Context, c mq.Conn, q mq.Queue) error {
	return c.Consume(ctx, mq.ConsumeConfig{Queue: q, Prefetch: 8}, func(d mq.Delivery) {
		request := d.Message()
		go func() { // not waited for: it has its own bound
			replying, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			_ = c.Reply(replying, request.ReplyTo, mq.Message{Body: []byte("answer"), ID: request.ID}) // a caller without an answer asks again
			_ = d.Ack()
		}()
	})
}

// seenIDs are the messages that a consumer got.
type seenIDs struct {
	mu  sync.Mutex // guards ids
	ids map[string]int
}

func newSeen() *seenIDs { return &seenIDs{ids: map[string]int{}} }

func (s *seenIDs) take(d mq.Delivery) {
	s.mu.Lock()
	s.ids[d.Message().ID]++
	s.mu.Unlock()
	_ = d.Ack() // ErrStale: it is redelivered
}

func (s *seenIDs) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.ids {
		n += times
	}
	return n
}

func (s *seenIDs) all(ids []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.ids[id] == 0 {
			return fmt.Errorf("write %s was acknowledged and is lost", id)
		}
	}
	return nil
}

// acknowledged are the writes that the broker confirmed.
type acknowledged struct {
	mu      sync.Mutex // guards the fields below
	ids     []string
	last    time.Time
	longest time.Duration
}

// publish publishes writes until ctx ends. A write whose outcome is unknown is repeated with its id.
func (a *acknowledged) publish(ctx context.Context, c mq.Conn, name string) {
	for i := 0; ctx.Err() == nil; i++ {
		m := mq.Message{Body: []byte("x"), ID: fmt.Sprintf("%s-%d", name, i), Persistent: true}
		err := c.Publish(ctx, mq.WriteQ, m)
		for err != nil && ctx.Err() == nil {
			err = c.Publish(ctx, mq.WriteQ, m)
		}
		if err != nil {
			return
		}
		a.mu.Lock()
		if now := time.Now(); !a.last.IsZero() {
			a.longest = max(a.longest, now.Sub(a.last))
		}
		a.last = time.Now()
		a.ids = append(a.ids, m.ID)
		a.mu.Unlock()
	}
}

// more returns a function that returns nil once n more writes are acknowledged.
func (a *acknowledged) more(n int) func() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := len(a.ids)
	return func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if got := len(a.ids) - before; got < n {
			return fmt.Errorf("%d writes acknowledged, want %d", got, n)
		}
		return nil
	}
}
