package amqp_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/mqtest"
	"rideshare/internal/testkit/testenv"
)

// deliveries are the writes that a consumer got.
type deliveries struct {
	mu   sync.Mutex // guards seen
	seen map[string]int
}

// take settles a write after a moment, so that some are always held.
func (d *deliveries) take(m mq.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[m.Message().ID]++
	time.AfterFunc(100*time.Millisecond, func() { _ = m.Ack() }) // ErrStale: it is redelivered
}

// all returns nil once every id was delivered.
func (d *deliveries) all(ids []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		if d.seen[id] == 0 {
			return fmt.Errorf("write %s was acknowledged and is lost", id)
		}
	}
	return nil
}

// copies is how many deliveries were of a write that had been delivered before.
func (d *deliveries) copies() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, times := range d.seen {
		n += times - 1
	}
	return n
}

// A part whose node is stopped works through another one. Some time after its node is back, its connections are there
// again. Meanwhile it publishes and consumes writes, and calls: no publish fails, no write is lost, none comes twice unless its
// publisher repeated it, and each call has its answer. The consumer has settled what it holds before its connection ends.
func testNodeBack(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	b := clusterBus(t, nodes, mqtest.Limits{})
	b.admins = 1
	config, n := b.memberConfig("victim", 0)
	config.HomeAfter = 3 * time.Second
	victim := b.open(t, config, n)
	t.Cleanup(func() { _ = victim.Close() })
	wholly(t, victim)
	links := []string{"publisher", "writer", "bulk", "consumer"}
	nodes[0].Kill(t)
	for _, link := range links {
		testenv.Eventually(t, patience, func() error { return at(victim, link, nodes[1], nodes[2]) })
	}
	got := &deliveries{seen: map[string]int{}}
	running(t, func(ctx context.Context) error {
		return victim.Consume(ctx, mq.ConsumeConfig{Queue: mq.WriteQ, Prefetch: 100}, got.take)
	})
	worker := b.joined(t, "worker", 1)
	running(t, func(ctx context.Context) error { return answering(ctx, worker, mq.ReadQ) })
	call := caller(t, victim)
	testenv.Eventually(t, patience, func() error { return call(mq.ReadQ) })
	testenv.Eventually(t, patience, victim.Ready)
	nodes[0].Start(t)
	testenv.Eventually(t, patience, func() error { // the start itself may cost an election
		return victim.Publish(t.Context(), mq.WriteQ, mq.Message{ID: "started", Persistent: true})
	})
	lost, ids, repeated := victim.State().Lost, []string{}, 0
	testenv.Eventually(t, patience, func() error {
		for range 20 {
			id := fmt.Sprintf("w%d", len(ids))
			m := mq.Message{ID: id, Persistent: true, Again: func() bool { repeated++; return true }}
			if err := victim.Publish(t.Context(), mq.WriteQ, m); err != nil {
				t.Errorf("publish %s: got %v, want nil", id, err)
			}
			ids = append(ids, id)
		}
		if err := call(mq.ReadQ); err != nil {
			t.Errorf("call: got %v, want nil", err)
		}
		for _, link := range links {
			if err := at(victim, link, nodes[0]); err != nil {
				return err
			}
		}
		return nil
	})
	testenv.Eventually(t, patience, func() error { return got.all(ids) })
	if copies := got.copies(); copies > repeated {
		t.Errorf("%d copies, and %d publishes repeated", copies, repeated)
	}
	if now := victim.State().Lost; now != lost {
		t.Errorf("%d connections lost, want none: they moved", now-lost)
	}
	t.Logf("%d writes, %d copies, %d repeated", len(ids), got.copies(), repeated)
}
