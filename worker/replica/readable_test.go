package replica_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/worker/replica"
)

// diverged is a replica that has met an entry after 3 that cannot be applied, while persdb is at 5. It gets no snapshot
// before open is called.
type diverged struct {
	*live
	open  func()
	lost  <-chan struct{} // from Serving, before the entry: closed when the replica can no longer be read
	first string          // its file
}

// diverge creates a diverged replica. Until open is called, refuse decides the error of a snapshot request.
func diverge(t *testing.T, statement string, refuse func(*dbaas.Snapshot) error, change func(*replica.Config)) diverged {
	t.Helper()
	store := workertest.NewStore(t, schema)
	last := fill(store, 1, 3)[2]
	fault, closed := closable(store, refuse)
	l := bound(t, fault, change)
	l.reaches(3)
	closed.Store(true)
	d := diverged{live: l, first: l.path(), open: func() { closed.Store(false) }}
	var err error
	if d.lost, err = l.Serving(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := workertest.NewStore(t, schema, "CREATE TABLE elsewhere (k INTEGER PRIMARY KEY) STRICT")
	other.Write(dbaas.Statement{SQL: "INSERT INTO n(i, v) VALUES (1, 'unlike')"})
	wrong := other.Write(dbaas.Statement{SQL: statement})
	wrong.Cluster, wrong.Seq = last.Cluster, 4
	l.broadcast(wrong)
	testenv.Eventually(t, limit, func() error {
		if got := l.Stats.Diverged.Load(); got != 1 || l.Following() {
			return fmt.Errorf("diverged %d times, following %t", got, l.Following())
		}
		return nil
	})
	fill(store, 4, 5) // what persdb has there
	return d
}

func away(*dbaas.Snapshot) error { return dbaas.ErrUnavailable }

// closable returns a persdb that returns snapshots, or their errors, as refuse decides while closed is true.
func closable(store *workertest.Store, refuse func(*dbaas.Snapshot) error) (fault *faultStore, closed *atomic.Bool) {
	closed = &atomic.Bool{}
	return &faultStore{Store: store, snapshot: func(s *dbaas.Snapshot) error {
		if closed.Load() {
			return refuse(s)
		}
		return nil
	}}, closed
}

// An entry that cannot be applied leaves a prefix of the log, which readers keep until there is a new file; they never
// see a part of the entry. Readers that need a later position wait.
func TestReplica_Diverged_ReadsGoOn(t *testing.T) {
	for name, statement := range map[string]string{
		"RowDiffers":   "UPDATE n SET v='other' WHERE i=1",
		"TableMissing": "INSERT INTO elsewhere VALUES (1)",
	} {
		t.Run(name, func(t *testing.T) {
			d := diverge(t, statement, away, nil)
			if got, seq := d.count(); got != `[{"c":3}]` || seq != 3 {
				t.Errorf("got %s at %d, want 3 rows at 3", got, seq)
			}
			if err := d.WaitApplied(t.Context(), dbaas.Head{Seq: 3}); err != nil {
				t.Errorf("wait for the old position: %v", err)
			}
			if _, err := d.Hashes(t.Context()); dbaas.CodeOf(err) != dbaas.CodeNotCaughtUp {
				t.Errorf("hashes: got %v, want not caught up", err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := d.WaitApplied(ended, dbaas.Head{Seq: 4}); err == nil {
				t.Error("a position that the old file does not have is there")
			}
			d.open()
			d.reaches(5)
			if got, seq := d.count(); got != `[{"c":5}]` || seq != 5 {
				t.Errorf("got %s at %d, want 5 rows at 5", got, seq)
			}
			testenv.Eventually(t, limit, func() error { // it goes after readers have the new file
				if exists(d.first) {
					return errors.New("the old file is still there")
				}
				return nil
			})
			select {
			case <-d.lost:
				t.Error("readers were sent away during the change")
			default:
			}
		})
	}
}

// Readers lose a file that cannot continue when another worker is ahead, and when the new snapshot may need its space.
func TestReplica_Diverged_ReadsStop(t *testing.T) {
	cut := func(s *dbaas.Snapshot) error {
		cutOff(s, 100)
		s.Sum = func() (uint32, bool) { return 0, true }
		return nil
	}
	for name, tc := range map[string]struct {
		refuse func(*dbaas.Snapshot) error
		ahead  bool
	}{
		"OthersAhead":     {refuse: away, ahead: true},
		"FileNotToBeMade": {refuse: cut},
	} {
		t.Run(name, func(t *testing.T) {
			var ahead atomic.Bool
			d := diverge(t, "UPDATE n SET v='other' WHERE i=1", tc.refuse, func(c *replica.Config) {
				c.AntiEntropy = 5 * time.Millisecond
				c.Ahead = func(_ context.Context, seq dbaas.Seq) bool { return seq == 3 && ahead.Load() }
			})
			ahead.Store(tc.ahead)
			select {
			case <-d.lost:
			case <-time.After(limit):
				t.Fatal("readers were not sent away")
			}
			if _, err := d.Reader(); dbaas.CodeOf(err) != dbaas.CodeNotCaughtUp {
				t.Errorf("got %v, want not caught up", err)
			}
			testenv.Eventually(t, limit, func() error {
				if exists(d.first) {
					return errors.New("the old file is there")
				}
				return nil
			})
			d.open()
			d.reaches(5)
		})
	}
}

// Readers are sent away while the log cannot be read and another worker is ahead. A page that only takes long is no reason, also after
// an earlier failure.
func TestReplica_LogNotRead_ReadsStop_SlowLog_ReadsGoOn(t *testing.T) {
	store := workertest.NewStore(t, schema)
	fill(store, 1, 3)
	var fails, slow atomic.Bool
	arrives := make(chan struct{})
	l := bound(t, &faultStore{Store: store, log: func() error {
		if fails.Load() {
			return dbaas.ErrUnavailable
		}
		if slow.Load() {
			<-arrives
		}
		return nil
	}}, func(c *replica.Config) {
		c.AntiEntropy, c.Ahead = time.Millisecond, func(context.Context, dbaas.Seq) bool { return true }
	})
	l.reaches(3)
	fails.Store(true)
	fill(store, 4, 4)
	testenv.Eventually(t, limit, func() error {
		if _, err := l.Reader(); dbaas.CodeOf(err) != dbaas.CodeNotCaughtUp {
			return fmt.Errorf("got %w, want not caught up", err)
		}
		return nil
	})
	fails.Store(false)
	l.reaches(4)
	slow.Store(true)
	fill(store, 5, 5)
	before := store.Calls("head")
	testenv.Eventually(t, limit, func() error {
		if got := store.Calls("head") - before; got < 20 {
			return fmt.Errorf("%d comparisons, want 20", got)
		}
		return nil
	})
	if got, seq := l.count(); got != `[{"c":4}]` || seq != 4 {
		t.Errorf("got %s at %d, want 4 rows at 4", got, seq)
	}
	close(arrives)
	l.reaches(5)
}

// A position after which persdb's log has no entry, or a damaged one, leads to a snapshot. A read in progress keeps its
// state, and the reason is logged.
func TestReplica_CatchUp_NoNextEntryTakesSnapshot(t *testing.T) {
	damaged := dbaas.Errorf(dbaas.CodeDamaged, "entry 4 of the log is damaged")
	for name, tc := range map[string]struct {
		lose func(s *faultStore)
		why  string
	}{
		"Trimmed": {func(s *faultStore) { s.Trim() }, "no longer has this position"},
		"Damaged": {func(s *faultStore) {
			s.log = func() error {
				s.log = nil
				return damaged
			}
		}, "entry 4 of the log is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := os.Create(filepath.Join(t.TempDir(), "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = out.Close() }()
			store := &faultStore{Store: workertest.NewStore(t, schema)}
			fill(store.Store, 1, 3)
			l := bound(t, store, func(c *replica.Config) { c.Log = slog.New(slog.NewTextHandler(out, nil)) })
			l.reaches(3)
			old, err := l.Reader()
			if err != nil {
				t.Fatal(err)
			}
			defer old.Close()
			fill(store.Store, 4, 9)
			tc.lose(store)
			l.Subscriber().Gap()
			l.reaches(9)
			l.equals(store.Store)
			if got := countRows(t, old); got != `[{"c":3}]` || old.Seq() != 3 {
				t.Errorf("old reader: got %s at %d, want 3 rows at 3", got, old.Seq())
			}
			if got := l.Stats.Snapshots.Load(); got != 2 || l.Stats.Diverged.Load() != 0 {
				t.Errorf("got %d snapshots, diverged %d; want 2, 0", got, l.Stats.Diverged.Load())
			}
			if lines, err := os.ReadFile(out.Name()); err != nil || !strings.Contains(string(lines), tc.why) {
				t.Errorf("got log %s, %v, want %q in it", lines, err, tc.why)
			}
		})
	}
}

// A replica that is ahead of persdb has rows that persdb has lost. It is no longer read, even if only the log shows
// this and no snapshot is available.
func TestReplica_CatchUp_FuturePosition_IsNotRead(t *testing.T) {
	store := workertest.NewStore(t, schema)
	last := fill(store, 1, 3)[2]
	fault, closed := closable(store, away)
	l := bound(t, fault, func(c *replica.Config) { c.AntiEntropy = time.Hour })
	l.reaches(3)
	closed.Store(true)
	lost, err := l.Serving(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []dbaas.Seq{4, 6} { // persdb has neither; the gap makes the replica ask the log
		l.broadcast(dbaas.Entry{Cluster: last.Cluster, Seq: seq, Epoch: last.Epoch})
	}
	select {
	case <-lost:
	case <-time.After(limit):
		t.Error("readers keep a position that persdb does not have")
	}
}
