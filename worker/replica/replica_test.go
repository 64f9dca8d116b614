package replica_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/disktest"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/worker/replica"
)

// A replica that starts late takes a snapshot, then the log after it, then the entries broadcast in the meantime, and
// only then is readable.
func TestReplica_Run_LateStartReachesHead(t *testing.T) {
	store := workertest.NewStore(t, schema)
	fill(store, 1, 5)
	fault := &faultStore{Store: store}
	var l *live
	fault.snapshot = func(*dbaas.Snapshot) error {
		fill(store, 6, 30) // after the snapshot, and never broadcast
		l.broadcast(fill(store, 31, 35)...)
		return nil
	}
	l = run(t, fault, nil)
	l.Subscriber().Gap()
	l.reaches(35)
	l.equals(store)
	if got, seq := l.count(); got != `[{"c":35}]` || seq != 35 {
		t.Errorf("got %s at %d, want 35 rows at 35", got, seq)
	}
}

// The first snapshot waits for the subscription, but not for long: a broker that cannot bind it must not keep a new replica from
// serving. What is committed until then is read from the log once it is bound.
func TestReplica_Run_WithoutSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := workertest.NewStore(t, schema)
		l := run(t, store, nil)
		l.broadcast(fill(store, 1, 1)...)
		synctest.Wait()
		if got := store.Calls("snapshot"); got != 0 {
			t.Errorf("got %d snapshots at once, want the bind waited for", got)
		}
		began := time.Now()
		l.reaches(1)
		if took := time.Since(began); took > time.Second {
			t.Errorf("readable without a bind after %v, want a second at most", took)
		}
		fill(store, 2, 2)
		l.Subscriber().Gap()
		l.reaches(2)
	})
}

// Entries that were buffered out of order do not count as a gap.
func TestReplica_Apply_BufferedOutOfOrderIsNoGap(t *testing.T) {
	store := workertest.NewStore(t, schema)
	empty, err := store.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := fill(store, 1, 3)
	l := run(t, &faultStore{Store: store, snapshot: func(s *dbaas.Snapshot) error {
		unread := s.Body
		*s = *empty
		return unread.Close()
	}}, nil)
	l.broadcast(e[1], e[2], e[0])
	l.Subscriber().Gap()
	l.reaches(3)
	if got := l.Stats.Gaps.Load(); got != 0 {
		t.Errorf("got %d gaps, want 0", got)
	}
}

// While the log is not read to its end, the replica cannot be read.
func TestReplica_Reader_RefusedBeforeCaughtUp(t *testing.T) {
	store := workertest.NewStore(t, schema)
	fill(store, 1, 3)
	asked := make(chan struct{}, 1)
	var open atomic.Bool
	l := bound(t, &faultStore{Store: store, log: func() error {
		select {
		case asked <- struct{}{}:
		default:
		}
		if open.Load() {
			return nil
		}
		return dbaas.ErrUnavailable
	}}, nil)
	<-asked // so the snapshot is installed
	if _, err := l.Reader(); dbaas.CodeOf(err) != dbaas.CodeNotCaughtUp {
		t.Errorf("got %v, want not caught up", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := l.WaitApplied(ctx, dbaas.Head{Seq: 0}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want deadline exceeded", err)
	}
	open.Store(true)
	l.Subscriber().Gap() // as after a lost connection
	l.reaches(3)
}

// Broadcasts are applied without asking persdb.
func TestReplica_Apply_FollowsBroadcasts(t *testing.T) {
	store := workertest.NewStore(t, schema)
	l := bound(t, store, nil)
	l.reaches(0)
	before := store.Calls("log")
	l.broadcast(fill(store, 1, 20)...)
	l.reaches(20)
	l.equals(store)
	if got := store.Calls("log"); got != before {
		t.Errorf("got %d reads of the log, want %d", got, before)
	}
}

// A missing entry starts a catch-up.
func TestReplica_Apply_GapStartsCatchUp(t *testing.T) {
	store := workertest.NewStore(t, schema)
	l := bound(t, store, nil)
	l.reaches(0)
	entries := fill(store, 1, 25)
	l.broadcast(entries[0], entries[24])
	l.reaches(25)
	l.equals(store)
	if l.Stats.Gaps.Load() == 0 {
		t.Error("got no gap, want one")
	}
}

// A large entry, which is broadcast without its changes, is read from the log, and so are the entries after it.
func TestReplica_Apply_LargeEntryIsFetched(t *testing.T) {
	store := workertest.NewStore(t, schema)
	l := bound(t, store, nil)
	l.reaches(0)
	entries := fill(store, 1, 4)
	entries[1].Changes, entries[1].ChangesOmitted = nil, true
	l.broadcast(entries...)
	l.reaches(4)
	l.equals(store)
}

// Entries that arrive twice or in another order take effect once.
func TestReplica_Apply_DuplicatesAndReorderingSkipped(t *testing.T) {
	store := workertest.NewStore(t, schema)
	l := bound(t, store, nil)
	l.reaches(0)
	e := fill(store, 1, 6)
	l.broadcast(e[1], e[0], e[1], e[0], e[4], e[2], e[3], e[5], e[5], e[2])
	l.reaches(6)
	l.equals(store)
	testenv.Eventually(t, limit, func() error { // the last broadcasts may come after the log was read
		if l.Stats.Duplicates.Load() == 0 {
			return errors.New("got no duplicate, want some")
		}
		return nil
	})
}

// Schema changes and the rows around them are applied in their order.
func TestReplica_Apply_SchemaChange(t *testing.T) {
	store := workertest.NewStore(t, schema)
	l := bound(t, store, nil)
	l.reaches(0)
	l.broadcast(
		store.Write(insert(1)),
		store.Write(dbaas.Statement{SQL: "CREATE TABLE m (k TEXT NOT NULL PRIMARY KEY) STRICT"}),
		store.Write(dbaas.Statement{SQL: "ALTER TABLE n ADD COLUMN w INTEGER NOT NULL DEFAULT 7"}),
		store.Write(dbaas.Statement{SQL: "CREATE TRIGGER t AFTER INSERT ON n BEGIN INSERT INTO m VALUES (NEW.v); END"}),
		store.Write(insert(2)),
	)
	l.reaches(5)
	l.equals(store)
	if l.Stats.Diverged.Load() != 0 {
		t.Error("the replica has diverged")
	}
}

// An entry of an older epoch than the position's is refused, and the log is read instead.
func TestReplica_Apply_StaleEpochRefused(t *testing.T) {
	store := workertest.NewStore(t, schema)
	for range 3 {
		if _, err := store.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l := bound(t, store, nil)
	l.broadcast(fill(store, 1, 1)...)
	l.reaches(1)
	real := store.Write(insert(2))
	forged := real
	forged.Epoch, forged.Changes = 2, nil
	l.broadcast(forged)
	l.reaches(2)
	l.equals(store)
	if got := l.Stats.StaleEpoch.Load(); got != 1 {
		t.Errorf("got %d stale entries, want 1", got)
	}
}

// A position beyond persdb's head means that persdb went back: the replica does too.
func TestReplica_Run_FuturePositionTakesSnapshot(t *testing.T) {
	store := workertest.NewStore(t, schema)
	last := fill(store, 1, 3)[2]
	l := bound(t, store, func(c *replica.Config) { c.AntiEntropy = 5 * time.Millisecond })
	l.reaches(3)
	l.broadcast(dbaas.Entry{Cluster: last.Cluster, Seq: 4, Epoch: last.Epoch}) // persdb does not have it
	testenv.Eventually(t, limit, func() error {
		if got := l.Stats.Snapshots.Load(); got < 2 {
			return fmt.Errorf("%d snapshots, want 2", got)
		}
		return nil
	})
	l.reaches(3)
	l.equals(store)
}

// The comparison of heads makes up for a lost broadcast.
func TestReplica_Run_AntiEntropyFindsLostBroadcast(t *testing.T) {
	store := workertest.NewStore(t, schema)
	l := bound(t, store, func(c *replica.Config) { c.AntiEntropy = 5 * time.Millisecond })
	l.reaches(0)
	fill(store, 1, 3) // not broadcast
	l.reaches(3)
}

// A reader that waits for a position that was not broadcast soon gets it from the log.
func TestReplica_WaitApplied_NudgesCatchUp(t *testing.T) {
	store := workertest.NewStore(t, schema)
	l := bound(t, store, func(c *replica.Config) { c.NudgeAfter = time.Millisecond })
	l.reaches(0)
	fill(store, 1, 3) // not broadcast
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := l.WaitApplied(ctx, dbaas.Head{Seq: 3}); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

// While persdb is unreachable broadcasts are still applied, and its return ends the gap.
func TestReplica_Run_StoreAwayAppliesBroadcasts(t *testing.T) {
	store := workertest.NewStore(t, schema)
	l := bound(t, store, nil)
	l.reaches(0)
	first, lost, last := fill(store, 1, 1), fill(store, 2, 2), fill(store, 3, 3)
	_ = lost
	store.SetDown(true)
	l.broadcast(first...)
	l.broadcast(last...)
	l.reaches(1)
	store.SetDown(false)
	l.reaches(3)
	l.equals(store)
}

// A snapshot that does not match its announced head is not used.
func TestReplica_Run_DamagedSnapshotIsRefused(t *testing.T) {
	for name, damage := range map[string]func(*dbaas.Snapshot, []byte) []byte{
		"Cut":           func(_ *dbaas.Snapshot, b []byte) []byte { return b[:len(b)-100] },
		"RowChanged":    func(_ *dbaas.Snapshot, b []byte) []byte { return bytes.Replace(b, []byte("v2"), []byte("w2"), 1) },
		"OtherPosition": func(s *dbaas.Snapshot, b []byte) []byte { s.Head.Seq++; return b },
	} {
		t.Run(name, func(t *testing.T) {
			store := workertest.NewStore(t, schema)
			fill(store, 1, 3)
			tries := 0
			fault := &faultStore{Store: store, snapshot: func(s *dbaas.Snapshot) error {
				if tries++; tries > 2 {
					return nil
				}
				b, err := io.ReadAll(s.Body)
				err = errors.Join(err, s.Body.Close())
				s.Body = io.NopCloser(bytes.NewReader(damage(s, b)))
				return err
			}}
			l := bound(t, fault, nil)
			l.reaches(3)
			l.equals(store)
			if got := store.Calls("snapshot"); got != 3 {
				t.Errorf("got %d snapshots, want 3: two that are refused and a good one", got)
			}
		})
	}
}

// Files of an earlier process are never used, and no file is left at the end.
func TestReplica_Run_LeavesNoFiles(t *testing.T) {
	store := workertest.NewStore(t, schema)
	dir := t.TempDir()
	stale := filepath.Join(dir, "replica-1.db")
	if err := os.WriteFile(stale, []byte("of an earlier life"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("Life", func(t *testing.T) {
		l := bound(t, store, func(c *replica.Config) { c.Dir = dir })
		l.reaches(0)
	})
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("got %v, %v; want no files", left, err)
	}
}

// A replica's file need not survive a crash of its machine: whatever a power loss leaves of it, the next process begins
// with a snapshot and equals persdb.
func TestReplica_Run_PowerLost_EqualsPersdb(t *testing.T) {
	store := workertest.NewStore(t, schema)
	disk := disktest.New(t)
	dir := filepath.Join(disk.Dir(), "replica")
	for seed := range 4 {
		var l *live
		t.Run("Life", func(t *testing.T) {
			l = bound(t, store, func(c *replica.Config) { c.Dir = dir })
			l.reaches(dbaas.Seq(seed * 11))
			l.broadcast(fill(store, seed*11+1, seed*11+10)...)
			l.reaches(dbaas.Seq(seed*11 + 10))
			l.equals(store)
			disk.CutAfter(1)
			l.broadcast(fill(store, seed*11+11, seed*11+11)...)
			testenv.Eventually(t, limit, func() error {
				if off, _ := disk.Off(); !off {
					return errors.New("the disk is on")
				}
				return nil
			})
		})
		if err := disk.LosePower(rand.New(rand.NewPCG(uint64(seed), 0))); err != nil {
			t.Fatal(err)
		}
	}
}
