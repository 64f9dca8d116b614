package replica_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/worker/replica"
)

// history returns a store, of a new cluster, with so many rows and entries.
func history(t *testing.T, entries int) *workertest.Store {
	t.Helper()
	s := workertest.NewStore(t, schema)
	fill(s, 1, entries)
	return s
}

// However long the log of the new persdb is, and however the replica learns of it: the replica discards its file and
// becomes equal to the new persdb.
func TestReplica_Run_OtherClusterTakesSnapshot(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*replica.Config)
		learn  func(*live, *workertest.Store)
	}{
		"Head":      {func(c *replica.Config) { c.AntiEntropy = 5 * time.Millisecond }, func(*live, *workertest.Store) {}},
		"Broadcast": {nil, func(l *live, s *workertest.Store) { l.broadcast(s.Write(insert(1000))) }},
		"Wait": {func(c *replica.Config) { c.NudgeAfter = time.Millisecond }, func(l *live, s *workertest.Store) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			head, err := s.Head(ctx)
			if err = errors.Join(err, l.WaitApplied(ctx, head)); err != nil {
				t.Error(err)
			}
		}},
	} {
		for length, entries := range map[string]int{"Shorter": 3, "Equal": 6, "Longer": 30} {
			t.Run(name+"_"+length, func(t *testing.T) {
				before, after := history(t, 6), history(t, entries)
				store := &workertest.Swapped{}
				store.Now.Store(before)
				l := bound(t, store, tc.change)
				l.reaches(6)
				store.Now.Store(after)
				tc.learn(l, after)
				testenv.Eventually(t, limit, func() error {
					want, err := after.Head(t.Context())
					if got, ready := l.Applied(); err != nil || !ready || got.Cluster != want.Cluster || got.Seq != want.Seq {
						return fmt.Errorf("at %+v, readable %t; want %+v, %w", got, ready, want, err)
					}
					return nil
				})
				l.equals(after)
			})
		}
	}
}

// A late broadcast of the old master is not applied to a file of the new cluster, even if it has the next position; nor
// is a broadcast of the new master applied to a file of the old cluster.
func TestReplica_Broadcast_OtherClusterIsNotApplied(t *testing.T) {
	before, after := history(t, 6), history(t, 6)
	late := before.Write(insert(1000))
	l := bound(t, after, nil)
	l.reaches(6)
	l.broadcast(late, after.Write(insert(7)))
	l.reaches(7)
	l.equals(after)
	if got := l.Stats.Snapshots.Load(); got != 1 {
		t.Errorf("got %d snapshots, want 1", got)
	}
}

// heldLog returns no page after a given position before open is closed.
type heldLog struct {
	*workertest.Swapped
	after dbaas.Seq
	open  chan struct{}
}

func (s *heldLog) Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	if after == s.after {
		select {
		case <-s.open:
		case <-ctx.Done():
			return dbaas.Page{}, dbaas.ErrUnavailable
		}
	}
	return s.Swapped.Log(ctx, after, wait)
}

// A file that readers keep until the next one is ready is dropped as soon as the next one belongs to another cluster.
func TestReplica_CatchUp_OldFileOfAnotherClusterGoes(t *testing.T) {
	before, after := history(t, 6), history(t, 30)
	after.Trim() // so that the position seems trimmed
	store := &heldLog{Swapped: &workertest.Swapped{}, after: 30, open: make(chan struct{})}
	store.Now.Store(before)
	l := bound(t, store, func(c *replica.Config) { c.StoreTimeout = time.Minute })
	l.reaches(6)
	lost, err := l.Serving(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	store.Now.Store(after)
	l.Subscriber().Gap()
	select {
	case <-lost:
	case <-time.After(limit):
		t.Error("the file of the old cluster is read beside that of the new one")
	}
	close(store.open)
	l.reaches(30)
}
