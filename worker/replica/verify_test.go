package replica_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/workertest"
	"rideshare/worker/replica"
)

// alter runs a statement on the replica's file without the replica's knowledge, as only a bug or a broken disk would.
func (l *live) alter(statement string) {
	l.t.Helper()
	db, err := sql.Open("sqlite", "file:"+l.path()+"?_pragma=busy_timeout(5000)")
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // Exec reports errors.
	if _, err = db.ExecContext(l.t.Context(), statement); err != nil {
		l.t.Fatal(err)
	}
}

// repairLimit is long because comparisons take at most a fiftieth of the time: one that takes 100 ms on a busy machine
// is followed by a pause of 5 s.
const repairLimit = time.Minute

// repaired waits until the replica has taken its second snapshot and may be read.
func (l *live) repaired(seq dbaas.Seq) {
	l.t.Helper()
	testenv.Eventually(l.t, repairLimit, func() error {
		if n := l.Stats.Snapshots.Load(); n != 2 {
			return fmt.Errorf("got %d snapshots, want 2", n)
		}
		return nil
	})
	l.reaches(seq)
}

// Whatever was altered in the file, the comparison names the tables, and the replica is rebuilt.
func TestReplica_Verify_AlteredFileIsRepaired(t *testing.T) {
	for name, tc := range map[string]struct {
		statement string
		differ    []string
	}{
		"RowChanged":   {"UPDATE n SET v='other' WHERE i=3", []string{"n"}},
		"RowMissing":   {"DELETE FROM n WHERE i=5", []string{"n"}},
		"RowAdded":     {"INSERT INTO n VALUES(99, 'x')", []string{"n"}},
		"TableMissing": {"DROP TABLE n", []string{"(schema)", "n"}},
		"TableAdded":   {"CREATE TABLE m (k INTEGER PRIMARY KEY)", []string{"(schema)", "m"}},
		"IndexAdded":   {"CREATE INDEX nv ON n(v)", []string{"(schema)"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := workertest.NewStore(t, schema)
			fill(store, 1, 5)
			l := bound(t, store, nil)
			l.reaches(5)
			l.alter(tc.statement)
			v, err := l.Verify(t.Context())
			if err != nil || v.Seq != 5 || !slices.Equal(v.Differ, tc.differ) {
				t.Errorf("got %+v, %v; want %v at 5", v, err, tc.differ)
			}
			l.repaired(5)
			l.equals(store)
			if got := l.Stats.Diverged.Load(); got != 1 {
				t.Errorf("got diverged %d, want 1", got)
			}
		})
	}
}

// A replica that equals persdb stays as it is.
func TestReplica_Verify_EqualStays(t *testing.T) {
	store := workertest.NewStore(t, schema)
	fill(store, 1, 3)
	l := bound(t, store, nil)
	l.reaches(3)
	l.broadcast(fill(store, 4, 9)...)
	v, err := l.Verify(t.Context())
	if err != nil || v.Seq != 9 || len(v.Differ) != 0 {
		t.Errorf("got %+v, %v; want none at 9", v, err)
	}
	l.reaches(9)
	if s, d := l.Stats.Snapshots.Load(), l.Stats.Diverged.Load(); s != 1 || d != 0 {
		t.Errorf("got %d snapshots, diverged %d; want 1, 0", s, d)
	}
}

// The replica also compares itself periodically, without a request.
func TestReplica_Run_FindsAnAlteredRowByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // The pause after a comparison that took long is long.
		store := workertest.NewStore(t, schema)
		fill(store, 1, 5)
		l := bound(t, store, func(c *replica.Config) { c.VerifyEvery = 100 * time.Millisecond })
		l.reaches(5)
		l.alter("UPDATE n SET v='other' WHERE i=3")
		l.repaired(5)
		l.equals(store)
	})
}

// inParts is a persdb whose parts are small: some ten rows.
type inParts struct{ *workertest.Store }

func (s inParts) HashPart(_ context.Context, from dbaas.HashFrom) (p dbaas.HashPart, err error) {
	c, err := sqlite.Open(s.Path(), sqlite.Options{ReadOnly: true})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err = c.Begin(); err != nil {
		return p, err
	}
	at, err := replication.Position(c)
	if err != nil {
		return p, err
	}
	p.Seq, p.Limit = at.Seq, 200
	p.Tables, p.Next, err = replication.HashPart(c, from, p.Limit, func() {})
	return p, err
}

// A database larger than one part is compared part by part, periodically and on request, wherever the difference is.
// The replica pauses after each part, for long on a slow machine.
func TestReplica_Verify_PartByPart(t *testing.T) {
	for _, row := range []int{1, 50, 100} {
		for _, byItself := range []bool{false, true} {
			t.Run(fmt.Sprint(row, byItself), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { verifyParts(t, row, byItself) })
			})
		}
	}
}

func verifyParts(t *testing.T, row int, byItself bool) {
	t.Helper()
	store := workertest.NewStore(t, schema)
	fill(store, 1, 100)
	l := bound(t, inParts{store}, func(c *replica.Config) {
		if byItself {
			c.VerifyEvery = 100 * time.Millisecond
		}
	})
	l.reaches(100)
	l.alter(fmt.Sprintf("UPDATE n SET v='other' WHERE i=%d", row))
	if !byItself {
		if v, err := l.Verify(t.Context()); err != nil || !slices.Equal(v.Differ, []string{"n"}) {
			t.Errorf("got %+v, %v; want n", v, err)
		}
	}
	l.repaired(100)
	l.equals(store)
}

// A write between the two queries is no difference: the replica is compared at persdb's position.
func TestReplica_Verify_WriteInBetweenIsFollowed(t *testing.T) {
	store := workertest.NewStore(t, schema)
	fill(store, 1, 2)
	fault := &faultStore{Store: store}
	l := bound(t, fault, nil)
	l.reaches(2)
	fault.asked = func() {
		fault.asked = nil
		l.broadcast(fill(store, 3, 3)...)
	}
	if v, err := l.Verify(t.Context()); err != nil || v.Seq != 3 || len(v.Differ) != 0 {
		t.Errorf("got %+v, %v; want none at 3", v, err)
	}
	if got := store.Calls("hashes"); got != 1 {
		t.Errorf("got %d looks at persdb, want 1", got)
	}
}

// Without persdb's answer for the replica's position there is no result, and the file is not discarded.
func TestReplica_Verify_NoResultKeepsTheReplica(t *testing.T) {
	for name, hashes := range map[string]func(*dbaas.TableHashes) error{
		"PersdbDown": func(*dbaas.TableHashes) error { return dbaas.ErrUnavailable },
		"PersdbBug":  func(*dbaas.TableHashes) error { return errors.New("bug") },
		"NeverAtOnePosition": func(h *dbaas.TableHashes) error {
			h.Seq, h.Tables = h.Seq-1, nil
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := workertest.NewStore(t, schema)
			fill(store, 1, 2)
			l := bound(t, &faultStore{Store: store, hashes: hashes}, nil)
			l.reaches(2)
			l.alter("DELETE FROM n")
			if _, err := l.Verify(t.Context()); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
				t.Errorf("got %v, want unavailable", err)
			}
			l.broadcast(fill(store, 3, 3)...)
			l.reaches(3)
			if s, e := l.Stats.Snapshots.Load(), l.Stats.VerifyErrors.Load(); s != 1 || e != 1 {
				t.Errorf("got %d snapshots, %d errors; want 1, 1", s, e)
			}
		})
	}
}

// Before the replica has caught up there is nothing to compare, and Verify returns without waiting.
func TestReplica_Verify_NotCaughtUp(t *testing.T) {
	store := workertest.NewStore(t, schema)
	l := run(t, store, nil)
	if _, err := l.Verify(t.Context()); dbaas.CodeOf(err) != dbaas.CodeNotCaughtUp {
		t.Errorf("got %v, want not caught up", err)
	}
}

// While persdb hashes, the replica continues to apply entries and to answer reads.
func TestReplica_Verify_HoldsNothingUp(t *testing.T) {
	store := workertest.NewStore(t, schema)
	fill(store, 1, 2)
	asked, goOn := make(chan struct{}), make(chan struct{})
	fault := &faultStore{Store: store, hashes: func(*dbaas.TableHashes) error {
		close(asked)
		<-goOn
		return nil
	}}
	l := bound(t, fault, nil)
	l.reaches(2)
	done := make(chan error, 1)
	go func() {
		v, err := l.Verify(t.Context())
		if err == nil && (v.Seq != 2 || len(v.Differ) != 0) {
			err = fmt.Errorf("got %+v, want none at 2", v)
		}
		done <- err
	}()
	<-asked
	l.broadcast(fill(store, 3, 4)...)
	l.reaches(4)
	if got, seq := l.count(); got != `[{"c":4}]` || seq != 4 {
		t.Errorf("got %s at %d, want 4 rows at 4", got, seq)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
