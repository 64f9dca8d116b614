package replica_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/workertest"
	"rideshare/internal/wait"
)

// A page of the log may take long while its bytes arrive, and a page for which persdb is slow gets more time with each
// attempt.
func TestReplica_CatchUp_SlowPage(t *testing.T) {
	for name, tc := range map[string]struct {
		page func(context.Context) error
		took time.Duration
	}{
		"BytesCome": {took: 30 * time.Second, page: func(ctx context.Context) error {
			for range 30 {
				if !wait.For(ctx, time.Second) {
					return context.Cause(ctx)
				}
				wait.ReportProgress(ctx)
			}
			return nil
		}},
		"LateFirstByte": {took: 13 * time.Second, page: func(ctx context.Context) error {
			if !wait.For(ctx, 7*time.Second) {
				return context.Cause(ctx)
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := workertest.NewStore(t, schema)
				began := time.Now()
				l := bound(t, &faultStore{Store: store, page: tc.page}, nil)
				if err := l.WaitApplied(t.Context(), dbaas.Head{Seq: 0}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began).Truncate(time.Second); took != tc.took {
					t.Errorf("caught up after %v, want %v", took, tc.took)
				}
			})
		})
	}
}

// pacedStore is a store of which each read of a snapshot's bytes calls pace first.
type pacedStore struct {
	*workertest.Store

	pace func(context.Context) error
}

func (s pacedStore) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	snapshot, err := s.Store.Snapshot(ctx)
	if err == nil {
		snapshot.Body = &pacedBody{ReadCloser: snapshot.Body, pace: func() error { return s.pace(ctx) }}
	}
	return snapshot, err
}

type pacedBody struct {
	io.ReadCloser

	pace func() error
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if err := b.pace(); err != nil {
		return 0, dbaas.WrapError(dbaas.CodeUnavailable, "the snapshot broke off", err)
	}
	return b.ReadCloser.Read(p[:min(len(p), 1<<10)])
}

// A snapshot may take hours while its bytes arrive. One that stalls is given up, and the next one is taken.
func TestReplica_Install_SlowSnapshot(t *testing.T) {
	for name, tc := range map[string]struct {
		each        time.Duration // how long each KiB takes
		stalled     bool          // the first read never returns
		least, most time.Duration
		snapshots   int
	}{
		"BytesCome": {each: 90 * time.Second, least: 20 * time.Minute, most: 24 * time.Hour, snapshots: 1},
		"Stalls":    {stalled: true, least: time.Minute, most: 3 * time.Minute, snapshots: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := workertest.NewStore(t, schema)
				fill(store, 1, 100)
				began, stalled := time.Now(), tc.stalled
				l := bound(t, pacedStore{Store: store, pace: func(ctx context.Context) error {
					if stalled {
						stalled = false
						<-ctx.Done()
					}
					if !wait.For(ctx, tc.each) {
						return context.Cause(ctx)
					}
					wait.ReportProgress(ctx)
					return nil
				}}, nil)
				ctx, cancel := context.WithTimeout(t.Context(), tc.most)
				defer cancel()
				err := l.WaitApplied(ctx, dbaas.Head{Seq: 100})
				if took, n := time.Since(began), store.Calls("snapshot"); err != nil || took < tc.least || n != tc.snapshots {
					t.Errorf("got %v after %v and %d snapshots, want it readable after %v to %v and %d", err, took, n, tc.least, tc.most, tc.snapshots)
				}
			})
		})
	}
}

// Progress grows with the bytes of a snapshot as they arrive. An attempt that gets no further than the previous one
// adds nothing.
func TestReplica_Progress_Snapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := workertest.NewStore(t, schema)
		fill(store, 1, 100)
		var seen []uint64
		var l *live
		tries := 0
		l = run(t, &faultStore{Store: store, snapshot: func(s *dbaas.Snapshot) error {
			seen = append(seen, l.Progress())
			if tries++; tries <= 3 {
				cutOff(s, int64(min(tries, 2))<<12)
			}
			return nil
		}}, nil)
		l.Subscriber().Gap()
		if err := l.WaitApplied(t.Context(), dbaas.Head{Seq: 100}); err != nil {
			t.Fatal(err)
		}
		if want := []uint64{0, 1 << 12, 2 << 12, 2 << 12}; !slices.Equal(seen, want) {
			t.Errorf("progress at the start of each try: %d, want %d", seen, want)
		}
		before := l.Progress()
		l.broadcast(fill(store, 101, 103)...)
		if err := l.WaitApplied(t.Context(), dbaas.Head{Seq: 103}); err != nil {
			t.Fatal(err)
		}
		if got := l.Progress() - before; got != 3 {
			t.Errorf("three entries added %d", got)
		}
	})
}
