package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/worker"
)

// withoutSnapshots is a persdb that returns no snapshot while closed.
type withoutSnapshots struct {
	*workertest.Store

	closed atomic.Bool
}

func (s *withoutSnapshots) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	if s.closed.Load() {
		return nil, dbaas.ErrUnavailable
	}
	return s.Store.Snapshot(ctx)
}

// A slave that is the only one whose replica cannot continue leaves the reads to the others. If no other worker is
// ahead, it continues with what it has.
func TestWorker_Diverged_ReadsOnlyWhileOthersHaveNoMore(t *testing.T) {
	for name, others := range map[string]bool{"Alone": false, "OthersAhead": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 0)
			store := &withoutSnapshots{Store: c.store}
			s, seq := c.slaveWith(store, others)
			store.closed.Store(true)
			s.alter()
			if _, err := c.write(t.Context(), operation(dbaas.Statement{SQL: "UPDATE n SET v='later' WHERE i=1"})); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, limit, func() error {
				if got := s.Status(); !got.CatchingUp || got.Ready == others || got.Counters["diverged"] != 1 {
					return fmt.Errorf("got %+v, want it catching up, and ready: %t", got, !others)
				}
				return nil
			})
			c.replicaRegistered(2, true, others)
			if got := c.mustRead(mq.ReadQ, query(countSQL, seq))[0]; string(got.Body) != `[{"c":1,"m":1}]` {
				t.Errorf("got %s, want the one row", got.Body)
			}
			store.closed.Store(false)
			s.applied(seq + 1)
			s.ready(dbaas.RoleSlave)
			c.replicaRegistered(2, false, false)
		})
	}
}

// slaveWith starts a master, a slave 2 with store and, if others is set, a slave 3. It returns slave 2 with its position, after the
// first row.
func (c *cluster) slaveWith(store worker.Store, others bool) (*node, dbaas.Seq) {
	c.t.Helper()
	c.master(1, nil)
	s := c.slave(2, func(w *worker.Config) { w.Store, w.Replica.AntiEntropy = store, 10*time.Millisecond })
	if others {
		c.slave(3, nil)
	}
	seq := c.mustWrite(1)
	s.applied(seq)
	return s, seq
}

// replicaRegistered waits until the registration of pid says that the replica is being rebuilt, and that it cannot be read.
func (c *cluster) replicaRegistered(pid int, rebuilding, away bool) {
	c.t.Helper()
	testenv.Eventually(c.t, limit, func() error {
		if m, err := c.member(pid); err != nil || m.Rebuilding != rebuilding || m.NoReplica != away {
			return fmt.Errorf("got member %+v, %w, want rebuilding: %t, no replica: %t", m, err, rebuilding, away)
		}
		return nil
	})
}

// withoutLog is a persdb that returns neither head nor log while closed.
type withoutLog struct {
	*workertest.Store

	closed atomic.Bool
}

func (s *withoutLog) Head(ctx context.Context) (dbaas.Head, error) {
	if s.closed.Load() {
		return dbaas.Head{}, dbaas.ErrUnavailable
	}
	return s.Store.Head(ctx)
}

func (s *withoutLog) Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	if s.closed.Load() {
		return dbaas.Page{}, dbaas.ErrUnavailable
	}
	return s.Store.Log(ctx, after, wait)
}

// A slave that lacks an entry and cannot read it from persdb leaves the reads to the others. If no other worker is ahead, it
// continues with what it has.
func TestWorker_LogNotRead_ReadsOnlyWhileOthersHaveNoMore(t *testing.T) {
	for name, others := range map[string]bool{"Alone": false, "OthersAhead": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 0)
			store := &withoutLog{Store: c.store}
			s, seq := c.slaveWith(store, others)
			store.closed.Store(true)
			large := dbaas.Statement{SQL: "INSERT INTO n(i, v) VALUES(2, ?)", Args: []dbaas.Value{dbaas.Text(strings.Repeat("v", 2<<20))}}
			if _, err := c.write(t.Context(), operation(large)); err != nil { // too large for syncQ
				t.Fatal(err)
			}
			if others {
				c.replicaRegistered(2, true, true)
				if got := c.mustRead(mq.ReadQ, query(countSQL, seq+1))[0]; string(got.Body) != `[{"c":2,"m":2}]` {
					t.Errorf("got %+v, want both rows", got)
				}
			} else {
				s.compares(10)
				if got := s.Status(); got.CatchingUp || !got.Ready || got.Applied != seq {
					t.Errorf("got %+v, want it ready at %d", got, seq)
				}
				if got := c.mustRead(mq.ReadQ, query(countSQL, seq))[0]; string(got.Body) != `[{"c":1,"m":1}]` {
					t.Errorf("got %+v, want the first row", got)
				}
			}
			store.closed.Store(false)
			s.applied(seq + 1)
			s.ready(dbaas.RoleSlave)
			c.replicaRegistered(2, false, false)
		})
	}
}

// compares waits until the worker has asked for persdb's head so many times more in vain.
func (n *node) compares(times int64) {
	n.t.Helper()
	before := n.Status().Counters["head_errors"]
	testenv.Eventually(n.t, limit, func() error {
		if got := n.Status().Counters["head_errors"]; got < before+times {
			return fmt.Errorf("%d comparisons, want %d", got-before, times)
		}
		return nil
	})
}
