package commitlog_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"

	"github.com/google/go-cmp/cmp"
)

// reopen opens a store without closing any other; the caller closes it.
func reopen(t *testing.T, cfg commitlog.Config) *commitlog.Store {
	t.Helper()
	cfg.TrimEvery = -1
	s, err := commitlog.Open(t.Context(), unhurried(app(cfg)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Rows that have passed a CHECK are not checked again when the log is replayed or followed: a check may call random().
func TestStore_Open_ChecksAreNotRepeated(t *testing.T) {
	cfg := commitlog.Config{Dir: t.TempDir()}
	s := reopen(t, cfg)
	epoch := storetest.Claim(t, s)
	storetest.Commit(t, s, epoch, op(1, "CREATE TABLE x(v CHECK(random()<0))"))
	s.FailBeforeTables(func() error { return errors.New("disk failed") })
	storetest.Commit(t, s, epoch, op(2, "INSERT OR IGNORE INTO x WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<200) SELECT i FROM n"))
	closeStore(t, s)

	s = reopen(t, cfg)
	defer closeStore(t, s)
	storetest.NewReplica(t, s).Follow(t, s)
	if h, err := s.Hashes(t.Context()); err != nil || len(h.Damaged) > 0 {
		t.Errorf("got damaged tables %v, %v, want none", h.Damaged, err)
	}
}

func closeStore(t *testing.T, s io.Closer) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Results, epochs and positions are the same after closing and reopening, and an operation that failed stays failed
// though it would succeed now.
func TestStore_Open_KnowsEverythingAgain(t *testing.T) {
	cfg := commitlog.Config{Dir: t.TempDir()}
	s := reopen(t, cfg)
	epoch := storetest.Claim(t, s)
	batch := []dbaas.Operation{op(1, ann), op(2, ann), op(1, ann), op(3, "SELECT 7 AS seven")}
	first := storetest.Commit(t, s, epoch, batch...)
	storetest.Commit(t, s, epoch, op(4, "DELETE FROM users"))
	closeStore(t, s)

	s = reopen(t, cfg)
	again := storetest.Commit(t, s, epoch, batch...)
	if diff := cmp.Diff(first.Results, again.Results); diff != "" || again.Entry != nil {
		t.Errorf("second delivery (-first +second), entry %v:\n%s", again.Entry, diff)
	}
	if next := storetest.Claim(t, s); next != epoch+1 {
		t.Errorf("got epoch %d after %d", next, epoch)
	}
	head, err := s.Head(t.Context())
	if want := (dbaas.Head{Cluster: head.Cluster, Seq: 2, Epoch: epoch + 1}); err != nil || head != want {
		t.Errorf("got head %v, %v, want %v", head, err, want)
	}
	closeStore(t, s)
	storetest.Witness(t, filepath.Join(cfg.Dir, commitlog.FileName))
}

// A directory can be opened by only one store at a time.
func TestStore_Open_SecondIsRefused(t *testing.T) {
	cfg := commitlog.Config{Dir: t.TempDir()}
	s := reopen(t, cfg)
	if _, err := commitlog.Open(t.Context(), app(cfg)); dbaas.CodeOf(err) != dbaas.CodeConflict {
		t.Errorf("got %v, want code %q", err, dbaas.CodeConflict)
	}
	closeStore(t, s)
	closeStore(t, reopen(t, cfg))
}

// A file that is not a database is not opened, and not overwritten.
func TestStore_Open_DamagedFileIsRefused(t *testing.T) {
	cfg := commitlog.Config{Dir: t.TempDir()}
	path := filepath.Join(cfg.Dir, commitlog.FileName)
	garbage := []byte("this is no database, but it is long enough to have a header of one: " + fmt.Sprint(make([]int, 500)))
	if err := os.WriteFile(path, garbage, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := commitlog.Open(t.Context(), app(cfg)); dbaas.CodeOf(err) != dbaas.CodeInternal {
		t.Errorf("got %v, want code %q", err, dbaas.CodeInternal)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(garbage) {
		t.Errorf("the file was changed, %v", err)
	}
}

// A batch that fails before the append is certainly not done, one whose tables cannot be committed after the append is
// done, and the outcome of one that fails after that is unknown. In all cases the same batch sent again takes effect
// once.
func TestStore_Commit_FailureAtEachStep(t *testing.T) {
	broken := errors.New("broken here")
	once := func() func() error {
		failed := false
		return func() error {
			if failed {
				return nil
			}
			failed = true
			return broken
		}
	}
	for name, tc := range map[string]struct {
		arm  func(*commitlog.Store)
		want dbaas.Code
		done bool
	}{
		"BeforeAppend": {func(s *commitlog.Store) { s.FailBeforeAppend(once()) }, dbaas.CodeUnavailable, false},
		"BeforeTables": {func(s *commitlog.Store) { s.FailBeforeTables(once()) }, dbaas.CodeOK, true},
		"AfterCommit":  {func(s *commitlog.Store) { s.FailAfterCommit(once()) }, dbaas.CodeUnknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, commitlog.Config{})
			epoch := storetest.Claim(t, s)
			storetest.Commit(t, s, epoch, op(1, ann))
			tc.arm(s)
			_, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op(2, bob)})
			if dbaas.CodeOf(err) != tc.want || err != nil && !errors.Is(err, broken) {
				t.Fatalf("got %v, want code %q", err, tc.want)
			}
			_, err = s.Lookup(t.Context(), storetest.ID(2))
			if done := err == nil; done != tc.done {
				t.Errorf("done: %v (%v), want %v", done, err, tc.done)
			}
			c := storetest.Commit(t, s, epoch, op(2, bob), op(3, bob))
			if got := outcome(c.Results[0]) + " | " + outcome(c.Results[1]); got != "ok | constraint: UNIQUE constraint failed: users.username" {
				t.Errorf("sent again: %s", got)
			}
			r := storetest.NewReplica(t, s)
			r.Follow(t, s)
			if n := count(t, r, "users"); n != 2 {
				t.Errorf("got %d users, want 2", n)
			}
		})
	}
}

// A full disk makes batches fail with a code of its own and loses nothing, and writes are accepted again as soon as
// there is room.
func TestStore_Commit_FullDiskHeals(t *testing.T) {
	cfg := commitlog.Config{Dir: t.TempDir()}
	s := reopen(t, cfg)
	epoch := storetest.Claim(t, s)
	if err := s.SetMaxPages(40, 40); err != nil {
		t.Fatal(err)
	}
	n, full := 0, false
	for ; n < 1000 && !full; n++ {
		big := op(n, fmt.Sprintf("INSERT INTO users VALUES('u%d', hex(randomblob(1000)))", n))
		_, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{big})
		if full = err != nil; full && dbaas.CodeOf(err) != dbaas.CodeFull {
			t.Fatalf("got %v, want code %q", err, dbaas.CodeFull)
		}
	}
	if !full {
		t.Fatal("the disk did not get full")
	}
	if h, err := s.Hashes(t.Context()); err != nil || int(h.Seq) != n-1 {
		t.Errorf("reads while it is full: seq %d, %v, want %d", h.Seq, err, n-1)
	}
	if err := s.SetMaxPages(4000, 4000); err != nil {
		t.Fatal(err)
	}
	storetest.Commit(t, s, epoch, op(n, ann))
	storetest.NewReplica(t, s).Follow(t, s)
	closeStore(t, s)
	storetest.Witness(t, filepath.Join(cfg.Dir, commitlog.FileName))
	logIsDense(t, cfg.Dir, n)
}

// logIsDense reads log and position through database/sql: entries 1 to want, no hole.
func logIsDense(t *testing.T, dir string, want int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, commitlog.LogFileName))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // the file is attached to one connection.
	if _, err = db.ExecContext(t.Context(), "ATTACH ? AS state", filepath.Join(dir, commitlog.FileName)); err != nil {
		t.Fatal(err)
	}
	var n, low, high, position int
	err = db.QueryRowContext(t.Context(), "SELECT count(*), min(seq), max(seq), (SELECT seq FROM state.rs_applied) FROM rs_log").Scan(&n, &low, &high, &position)
	if err != nil || n != want || low != 1 || high != want || position != want {
		t.Errorf("log has %d entries from %d to %d, position %d, %v; want 1 to %d", n, low, high, position, err, want)
	}
}

// Each snapshot taken during writes is exactly one state of the log.
func TestStore_Snapshot_UnderConstantWrites(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch := storetest.Claim(t, s)
	storetest.Commit(t, s, epoch, op(1, "CREATE TABLE seqs(seq INTEGER PRIMARY KEY, pad TEXT)"))
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 2; ctx.Err() == nil; n++ {
			_, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op(n, fmt.Sprintf("INSERT INTO seqs VALUES(%d, hex(randomblob(300)))", n))})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 5 {
		r := storetest.NewReplica(t, s)
		at, err := replication.Position(r.Conn)
		if err != nil {
			t.Fatal(err)
		}
		if n := count(t, r, "seqs"); n != int(at.Seq)-1 {
			t.Errorf("snapshot at %d has %d rows, want %d", at.Seq, n, at.Seq-1)
		}
	}
	stop()
	writer.Wait()
	storetest.NewReplica(t, s).Follow(t, s)
}

// A snapshot makes no file in the data directory, and does not hold up the end of the store.
func TestStore_Snapshot_LeavesNoFile(t *testing.T) {
	cfg := commitlog.Config{Dir: t.TempDir()}
	s := reopen(t, cfg)
	names := func() []string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(cfg.Dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	before := names()
	snapshot, err := s.Snapshot(t.Context())
	if diff := cmp.Diff(before, names()); err != nil || diff != "" {
		t.Fatalf("files while a snapshot is open, %v (-before +now):\n%s", err, diff)
	}
	if _, whole := snapshot.Sum(); whole {
		t.Error("the snapshot is whole before it was read")
	}
	closeStore(t, s) // the snapshot is still open.
	if err := snapshot.Body.Close(); err != nil {
		t.Error(err)
	}
}

// A snapshot contains none of the log's own tables.
func TestStore_Snapshot_HasNoLog(t *testing.T) {
	s := open(t, commitlog.Config{})
	storetest.Commit(t, s, storetest.Claim(t, s), op(1, "SELECT 'find-me-in-the-log'", ann))
	r := storetest.NewReplica(t, s)
	raw, err := os.ReadFile(r.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"rs_log", "rs_epoch", "find-me-in-the-log"} {
		if i := indexOf(raw, text); i >= 0 {
			t.Errorf("%q is in the snapshot, at byte %d", text, i)
		}
	}
}

// A snapshot tells its length before it is read.
func TestStore_Snapshot_TellsItsLength(t *testing.T) {
	s := open(t, commitlog.Config{})
	storetest.Commit(t, s, storetest.Claim(t, s), op(1, ann))
	snapshot, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, snapshot.Body)
	if err = errors.Join(err, snapshot.Body.Close()); err != nil || n == 0 || snapshot.Bytes != n {
		t.Errorf("got %d bytes, want %d; %v", n, snapshot.Bytes, err)
	}
}

func indexOf(b []byte, text string) int {
	for i := range len(b) - len(text) {
		if string(b[i:i+len(text)]) == text {
			return i
		}
	}
	return -1
}

// Concurrent callers each get their own result, and every entry once.
func TestStore_Commit_Concurrent(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch := storetest.Claim(t, s)
	const callers, each = 8, 25
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				n := c*each + i
				out, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op(n, fmt.Sprintf("INSERT INTO apicount VALUES('s%d', 1)", n))})
				if err != nil || outcome(out.Results[0]) != "ok" {
					t.Errorf("operation %d: %v, %v", n, out, err)
				}
				if _, err := s.Log(t.Context(), out.Entry.Seq-1, time.Second); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r := storetest.NewReplica(t, s)
	r.Follow(t, s)
	if n := count(t, r, "apicount"); n != callers*each {
		t.Errorf("got %d rows, want %d", n, callers*each)
	}
}
