package commitlog_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/disktest"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"

	"github.com/google/go-cmp/cmp"
)

// oneFile makes the directory of a closed store one of an older version, with the log among the tables.
func oneFile(t *testing.T, dir string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, commitlog.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // the log is attached to one connection.
	log := filepath.Join(dir, commitlog.LogFileName)
	if _, err = db.ExecContext(t.Context(), "ATTACH ? AS log", log); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"CREATE TABLE rs_epoch(one INTEGER PRIMARY KEY CHECK(one=1), cur INTEGER NOT NULL) STRICT",
		"CREATE TABLE rs_bounds(one INTEGER PRIMARY KEY CHECK(one=1), trimmed INTEGER NOT NULL) STRICT",
		"CREATE TABLE rs_log(seq INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, at INTEGER NOT NULL, sum INTEGER, ops BLOB NOT NULL, changes BLOB NOT NULL) STRICT",
		"INSERT INTO rs_epoch SELECT * FROM log.rs_epoch", "INSERT INTO rs_bounds SELECT * FROM log.rs_bounds", "INSERT INTO rs_log SELECT * FROM log.rs_log",
		"DETACH log",
	} {
		if _, err = db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if err = os.Remove(log); err != nil {
		t.Fatal(err)
	}
}

// oldFolder creates the directory of an older version, with a trimmed log of more than one chunk. It returns the content.
func oldFolder(t *testing.T, d *disktest.Disk) dbaas.TableHashes {
	t.Helper()
	r := powerRun{disk: d}
	s := reopen(t, r.config())
	epoch := storetest.Claim(t, s)
	storetest.Commit(t, s, epoch, op(0, ann))
	storetest.Commit(t, s, epoch, op(1, bob))
	r.elapsed += 2 * time.Hour
	for n := range 300 {
		storetest.Commit(t, s, epoch, seen(2+n, 2, "INSERT INTO rides(created_by,timestamp,source,destination) VALUES('ann','t',1,2)"))
	}
	trim(t, s)
	h, err := s.Hashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	oneFile(t, r.config().Dir)
	return h
}

// The log of an older version moves into its own file at the first start: epochs, bounds, results and entries stay, and
// nothing of the log is left among the tables.
func TestStore_Open_OldFolderIsSplit(t *testing.T) {
	clk := newClock()
	cfg := clk.config(t.TempDir())
	s := reopen(t, cfg)
	storetest.Claim(t, s)
	epoch := storetest.Claim(t, s)
	for n := range 4 {
		storetest.Commit(t, s, epoch, op(n, "UPDATE users SET password=''"))
		clk.advance(40 * time.Minute)
	}
	trim(t, s)
	r := storetest.NewReplica(t, s)
	storetest.Commit(t, s, epoch, seen(4, 4, ann))
	want, err := s.Log(t.Context(), 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	oneFile(t, cfg.Dir)
	write(t, filepath.Join(cfg.Dir, commitlog.LogFileName+".new"), "left by a start that died")
	s = reopen(t, cfg)
	got, err := s.Log(t.Context(), 3, 0)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("log, %v (-before +after):\n%s", err, diff)
	}
	c := storetest.Commit(t, s, epoch, seen(4, 4, ann), seen(5, 5, bob), op(0, ann))
	if got := outcome(c.Results[0]) + ", " + outcome(c.Results[1]) + ", " + outcome(c.Results[2]); c.Results[0].Seq != 5 || c.Entry.Seq != 6 || got != "ok, ok, refused expired" {
		t.Errorf("got %s: %+v", got, c)
	}
	r.Follow(t, s)
	if next := storetest.Claim(t, s); next != epoch+1 {
		t.Errorf("got epoch %d after %d", next, epoch)
	}
	closeStore(t, s)
	closeStore(t, reopen(t, cfg))
	logIsGone(t, cfg.Dir)
}

// A folder that an older version used after the split is refused, with the next step for the operator, and nothing of its
// log is dropped.
func TestStore_Open_OlderVersionWroteAfterTheSplit(t *testing.T) {
	cfg := commitlog.Config{Dir: t.TempDir()}
	path := filepath.Join(cfg.Dir, commitlog.LogFileName)
	closeStore(t, reopen(t, cfg))
	unused, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := reopen(t, cfg)
	storetest.Commit(t, s, storetest.Claim(t, s), op(1, ann))
	closeStore(t, s)
	oneFile(t, cfg.Dir)
	write(t, path, string(unused))
	for range 2 {
		if _, err = commitlog.Open(t.Context(), app(cfg)); dbaas.CodeOf(err) != dbaas.CodeInternal || !strings.Contains(err.Error(), "move log.db away") {
			t.Errorf("got %v, want the next step", err)
		}
	}
	if err = os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s = open(t, cfg)
	if _, err = s.Lookup(t.Context(), storetest.ID(1)); err != nil {
		t.Error(err)
	}
}

// logIsGone checks with an independent reader that the tables' file has no table of the log.
func logIsGone(t *testing.T, dir string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, commitlog.FileName)+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var n int
	err = db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema WHERE name IN ('rs_log','rs_epoch','rs_bounds')").Scan(&n)
	if err != nil || n != 0 {
		t.Errorf("%d tables of the log are left, %v", n, err)
	}
}
