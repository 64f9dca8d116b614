package replica_test

import (
	"context"
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
