package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/internal/workerapi"
	"rideshare/worker"
)

// demote ends a leadership.
func (n *node) demote(epoch dbaas.Epoch) error {
	return n.c.api.Assign(n.t.Context(), n.url, workerapi.Assignment{Worker: n.id, Role: dbaas.RoleSlave, PID: n.pid, Epoch: epoch})
}

// A leadership moves back and forth between two workers during writes: no write fails, each takes effect once, no
// worker restarts, and the former master serves reads.
func TestWorker_HandOver_NoWriteFails(t *testing.T) {
	c := newCluster(t, 0)
	master, slave := c.master(1, nil), c.slave(2, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var done atomic.Int64
	written := make(chan error, 1)
	go func() {
		for i := 1; ctx.Err() == nil; i++ {
			r, err := c.write(context.WithoutCancel(ctx), operation(insert(i)))
			if err == nil && r[0].Code != dbaas.CodeOK {
				err = fmt.Errorf("got %+v, want ok", r[0])
			}
			if err != nil {
				written <- fmt.Errorf("write %d: %w", i, err)
				return
			}
			done.Add(1)
		}
		written <- nil
	}()
	epoch := dbaas.Epoch(1)
	for range 6 {
		before := done.Load()
		testenv.Eventually(t, limit, func() error {
			if done.Load() < before+5 {
				return errors.New("writes stand still")
			}
			return nil
		})
		if err := master.demote(epoch); err != nil {
			t.Fatalf("demote %s: %v", master.id, err)
		}
		epoch = c.claim()
		slave.assign(dbaas.RoleMaster, epoch)
		master.ready(dbaas.RoleSlave)
		slave.ready(dbaas.RoleMaster)
		master, slave = slave, master
	}
	cancel()
	if err := <-written; err != nil {
		t.Error(err)
	}
	n := done.Load()
	slave.applied(dbaas.Seq(n))
	if got, want := string(c.mustRead(mq.ReadQ, query(countSQL, dbaas.Seq(n)))[0].Body), fmt.Sprintf(`[{"c":%d,"m":%d}]`, n, n); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A master that is demoted first answers its pending writes: Assign waits for a commit in flight.
func TestWorker_Demoted_AnswersWhatIsInHand(t *testing.T) {
	c := newCluster(t, 0)
	begun, finish := make(chan struct{}), make(chan struct{})
	store := &storeFunc{Store: c.store, before: func(dbaas.Epoch, []dbaas.Operation) {
		close(begun)
		<-finish
	}}
	m := c.master(1, func(w *worker.Config) { w.Store = store })
	w := c.writeBeside(operation(insert(1)))
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := c.api.Assign(ctx, m.url, workerapi.Assignment{Worker: m.id, Role: dbaas.RoleSlave, PID: 1, Epoch: 1})
	if dbaas.CodeOf(err) != dbaas.CodeUnavailable {
		t.Errorf("with a commit under way: got %v, want unavailable", err)
	}
	close(finish)
	if err := m.demote(1); err != nil {
		t.Errorf("asked again: got %v, want nil", err)
	}
	select {
	case got := <-w:
		if got.err != nil || got.r[0].Seq != 1 {
			t.Errorf("got %+v, want written at 1", got)
		}
	case <-time.After(limit):
		t.Error("the write was not answered")
	}
	if got := c.broker.Stats(mq.WriteQ); got.Consumers != 0 || got.Unacked != 0 {
		t.Errorf("writeQ of a slave: got %+v, want no consumer and nothing pending", got)
	}
}

// A master that is asked to end records that in its registration and writes until its role is taken over; then it
// leaves.
func TestWorker_MasterTerminated_LeavesWhenReplaced(t *testing.T) {
	c := newCluster(t, 0)
	m := c.master(1, func(w *worker.Config) { w.HandOver = time.Hour })
	successor := c.slave(2, nil)
	m.cancel()
	c.leaves(1)
	c.mustWrite(1)
	if err := m.demote(1); err != nil {
		t.Fatal(err)
	}
	successor.assign(dbaas.RoleMaster, c.claim())
	if err := m.wait(); err != nil {
		t.Errorf("the old master ended with %v, want nil", err)
	}
	if seq := c.mustWrite(2); seq != 2 {
		t.Errorf("got seq %d, want 2", seq)
	}
	if _, err := c.member(1); !errors.Is(err, coord.ErrNone) {
		t.Errorf("the old master: got %v, want it unregistered", err)
	}
}

// leaves waits until pid is registered as leaving.
func (c *cluster) leaves(pid int) {
	c.t.Helper()
	testenv.Eventually(c.t, limit, func() error {
		if m, err := c.member(pid); err != nil || !m.Leaving {
			return fmt.Errorf("got %+v, want leaving: %w", m, err)
		}
		return nil
	})
}

// A worker that is asked to end between getting the leadership and being registered with it is registered as leaving:
// otherwise the control loop would not know that it wants to be replaced.
func TestWorker_TerminatedBeforeItsRegistration_RegistersAsLeaving(t *testing.T) {
	c := newCluster(t, 0)
	n := c.start(1, func(w *worker.Config) { w.HandOver = time.Hour })
	n.assign(dbaas.RoleMaster, c.claim())
	n.cancel()
	c.leaves(1)
}

// A master that is asked to end and is not replaced leaves by itself after Config.HandOver, and immediately when
// drained.
func TestWorker_MasterTerminatedAlone_Leaves(t *testing.T) {
	c := newCluster(t, 0)
	for pid, after := range []time.Duration{10 * time.Millisecond, time.Hour} {
		m := c.master(pid+1, func(w *worker.Config) { w.HandOver = after })
		m.cancel()
		if after == time.Hour {
			c.leaves(pid + 1)
			if err := c.api.Drain(t.Context(), m.url); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.wait(); err != nil {
			t.Errorf("patience %v: got %v, want nil", after, err)
		}
	}
}

// A leaving worker is not made master, but a leaving master can be chosen again.
func TestWorker_Leaving_TakesNoLeadership(t *testing.T) {
	c := newCluster(t, 0)
	m := c.master(1, func(w *worker.Config) { w.HandOver = time.Hour })
	m.cancel()
	c.leaves(1)
	m.assign(dbaas.RoleMaster, c.claim())
	if s := m.Status(); !s.Leaving || s.Epoch != 2 {
		t.Errorf("got %+v, want a leaving master of epoch 2", s)
	}
	s := c.start(2, nil)
	s.cancel()
	testenv.Eventually(t, limit, func() error {
		if !s.Status().Leaving {
			return errors.New("not leaving yet")
		}
		return nil
	})
	err := c.api.Assign(t.Context(), s.url, workerapi.Assignment{Worker: s.id, Role: dbaas.RoleMaster, PID: 2, Epoch: 3})
	if dbaas.CodeOf(err) != dbaas.CodeConflict {
		t.Errorf("got %v, want conflict", err)
	}
}

// The request to hand over stays in the master's registration until the role is gone; only a master can have it.
func TestWorker_Yield_IsAnnouncedByMasters(t *testing.T) {
	c := newCluster(t, 0)
	m, s := c.master(1, nil), c.slave(2, nil)
	err := c.api.Yield(t.Context(), s.url, workerapi.Yield{Worker: s.id, To: m.id})
	if dbaas.CodeOf(err) != dbaas.CodeConflict {
		t.Errorf("a slave: got %v, want conflict", err)
	}
	err = c.api.Yield(t.Context(), m.url, workerapi.Yield{Worker: "another", To: s.id})
	if dbaas.CodeOf(err) != dbaas.CodeConflict {
		t.Errorf("another worker: got %v, want conflict", err)
	}
	testenv.Eventually(t, limit, func() error {
		if yieldErr := c.api.Yield(t.Context(), m.url, workerapi.Yield{Worker: m.id, To: s.id}); yieldErr != nil { // It expires.
			return yieldErr
		}
		if got, memberErr := c.member(1); memberErr != nil || got.YieldTo != s.id {
			return fmt.Errorf("got %+v, want the wish: %w", got, memberErr)
		}
		return nil
	})
	if err = m.demote(1); err != nil {
		t.Fatal(err)
	}
	if got := c.registered(1, dbaas.RoleSlave); got.YieldTo != "" || got.Epoch != 0 {
		t.Errorf("got %+v, want a slave without a wish or an epoch", got)
	}
}

// A slave that was master in one cluster accepts a leadership of another cluster, whose epochs are lower, as soon as
// its replica belongs to that cluster.
func TestWorker_Assign_EpochOfAnotherClusterIsTaken(t *testing.T) {
	c := newCluster(t, 0)
	for range 5 {
		c.claim()
	}
	store := &workertest.Swapped{}
	store.Now.Store(c.store)
	n := c.master(1, func(w *worker.Config) { w.Store, w.Replica.AntiEntropy = store, 5*time.Millisecond })
	if err := n.demote(6); err != nil {
		t.Fatal(err)
	}
	n.ready(dbaas.RoleSlave)
	c.store = workertest.NewStore(t, schema)
	store.Now.Store(c.store)
	epoch := c.claim()
	testenv.Eventually(t, limit, func() error {
		return c.api.Assign(t.Context(), n.url, workerapi.Assignment{Worker: n.id, Role: dbaas.RoleMaster, PID: n.pid, Epoch: epoch})
	})
	n.ready(dbaas.RoleMaster)
}
