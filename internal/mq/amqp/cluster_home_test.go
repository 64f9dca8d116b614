package amqp_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"rideshare/internal/mq"
	"rideshare/internal/mq/amqp"
	"rideshare/internal/testkit/mqtest"
	"rideshare/internal/testkit/testenv"
)

// deliveries are the writes that a consumer got.
type deliveries struct {
	mu   sync.Mutex // guards the fields below
	seen map[string]int
	late int // acknowledgements that came long after the delivery, and too late
}

// take settles a write after a moment, so that some are always held.
func (d *deliveries) take(m mq.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[m.Message().ID]++
	taken := time.Now()
	time.AfterFunc(100*time.Millisecond, func() {
		held := time.Since(taken)
		if err := m.Ack(); err == nil || held <= amqp.LeaveLimit/2 { // ErrStale: it is redelivered
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.late++
	})
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

// copies is how many deliveries were of a write that had been delivered before. So many of them as late may be due to the test,
// which did not settle in time.
func (d *deliveries) copies() (n, late int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, times := range d.seen {
		n += times - 1
	}
	return n, d.late
}

// allAt returns nil if all connections of a part for more than reads and replies are at one of the nodes.
func allAt(c mq.Conn, nodes ...*testenv.Service) error {
	for _, connection := range []string{"publisher", "writer", "bulk", "consumer"} {
		if err := at(c, connection, nodes...); err != nil {
			return err
		}
	}
	return nil
}

// displaced returns a part whose connections are at other nodes, because its own one was killed and is back.
func (b *bus) displaced(t *testing.T) *amqp.Conn {
	t.Helper()
	c := b.homing(t, "victim", 0)
	wholly(t, c)
	b.nodes[0].Kill(t)
	testenv.Eventually(t, patience, func() error { return allAt(c, b.nodes[1:]...) })
	b.nodes[0].Start(t)
	testenv.Eventually(t, patience, func() error { // the start itself may cost an election
		return c.Publish(t.Context(), mq.WriteQ, mq.Message{ID: "started", Persistent: true})
	})
	return c
}

// The connections of a part return to its node some time after that is back. Meanwhile the part publishes and consumes writes, and
// calls: no publish fails, no write is lost, none comes twice unless its publisher repeated it, and each call has its answer. The consumer
// has settled what it holds before its connection ends.
func testNodeBack(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	b := clusterBus(t, nodes, mqtest.Limits{})
	b.admins = 1
	worker := b.joined(t, "worker", 1)
	running(t, func(ctx context.Context) error { return answering(ctx, worker, mq.ReadQ) })
	victim := b.displaced(t)
	got := &deliveries{seen: map[string]int{}}
	running(t, func(ctx context.Context) error {
		return victim.Consume(ctx, mq.ConsumeConfig{Queue: mq.WriteQ, Prefetch: 100}, got.take)
	})
	call := caller(t, victim)
	lost, ids, repeated, arrived := victim.State().Lost, []string{}, 0, time.Time{}
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
		if err := allAt(victim, nodes[0]); err != nil {
			return err
		}
		if arrived.IsZero() {
			arrived = time.Now()
		}
		if time.Since(arrived) < 2*time.Second {
			return errors.New("the connections before may not have ended")
		}
		return nil
	})
	testenv.Eventually(t, patience, func() error { return got.all(ids) })
	copies, late := got.copies()
	if copies > repeated+late {
		t.Errorf("%d copies, %d publishes repeated, %d writes settled too late", copies, repeated, late)
	}
	if now := victim.State().Lost; now != lost {
		t.Errorf("%d connections lost, want none: they moved", now-lost)
	}
	t.Logf("%d writes, %d copies, %d repeated, %d settled too late", len(ids), copies, repeated, late)
}
