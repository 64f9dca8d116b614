package worker_test

import (
	"context"
	"fmt"
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
			c.master(1, nil)
			s := c.slave(2, func(w *worker.Config) { w.Store, w.Replica.AntiEntropy = store, 10*time.Millisecond })
			if others {
				c.slave(3, nil)
			}
			seq := c.mustWrite(1)
			s.applied(seq)
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
			registered := func(rebuilding, away bool) {
				t.Helper()
				testenv.Eventually(t, limit, func() error {
					if m, err := c.member(2); err != nil || m.Rebuilding != rebuilding || m.NoReplica != away {
						return fmt.Errorf("got member %+v, %w, want rebuilding: %t, no replica: %t", m, err, rebuilding, away)
					}
					return nil
				})
			}
			registered(true, others)
			if got := c.mustRead(mq.ReadQ, query(countSQL, seq))[0]; string(got.Body) != `[{"c":1,"m":1}]` {
				t.Errorf("got %s, want the one row", got.Body)
			}
			store.closed.Store(false)
			s.applied(seq + 1)
			s.ready(dbaas.RoleSlave)
			registered(false, false)
		})
	}
}
