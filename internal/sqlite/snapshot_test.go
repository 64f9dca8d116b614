package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// secret is in the rows of the log, and must not be anywhere in a snapshot.
const secret = "secret-of-the-log "

// kinds of tables: each has its own kind of tree. The log's pages lie between those of the others.
var kinds = []string{
	"CREATE TABLE byrow(k INTEGER PRIMARY KEY, v)",
	"CREATE TABLE bytext(k TEXT NOT NULL PRIMARY KEY, v)",
	"CREATE TABLE bykey(k INTEGER NOT NULL PRIMARY KEY, v) WITHOUT ROWID",
	"CREATE INDEX long ON byrow(v)",
	"CREATE UNIQUE INDEX partial ON bytext(v, k DESC) WHERE k>'5'",
	"CREATE TABLE computed(k INTEGER PRIMARY KEY, v, twice AS (v||v), kept AS (k*2) STORED)",
	"CREATE TABLE rs_log(k INTEGER PRIMARY KEY, v)",
	"CREATE TABLE empty(k INTEGER PRIMARY KEY)",
}

// Whatever was done to the tables, a snapshot has the same rows in a sound, compact, writable file, and nothing of the
// log.
func TestSnapshot_SameRowsAndSoundFile(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		path, to := filepath.Join(dir, "live.db"), filepath.Join(dir, "copy.db")
		c, err := sqlite.Open(path, sqlite.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if err = replication.CreatePosition(c); err != nil {
			rt.Fatal(err)
		}
		exec(t, c, kinds...)
		for range rapid.IntRange(0, 12).Draw(rt, "steps") {
			exec(t, c, step(rt, "rs_log"))
		}
		snapshot(t, path, to)
		content, err := os.ReadFile(to)
		if err != nil {
			rt.Fatal(err)
		}
		if i := bytes.Index(content, []byte(secret)); i >= 0 {
			rt.Errorf("something of the log is at byte %d", i)
		}
		sound(t, to, len(content))
		copied, err := sqlite.Open(to, sqlite.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = copied.Close() }()
		if diff := cmp.Diff(hashes(t, c), hashes(t, copied)); diff != "" {
			rt.Errorf("content (-file +snapshot):\n%s", diff)
		}
		for range 3 {
			exec(t, copied, step(rt, "byrow"))
		}
		exec(t, copied, "PRAGMA wal_checkpoint(TRUNCATE)")
		sound(t, to, 0)
	})
}

// step is a statement that adds or removes rows, whose values are short, of the sizes at which a value no longer fits
// into a page, or many pages long.
func step(rt *rapid.T, other string) string {
	table := rapid.SampledFrom([]string{"byrow", "bytext", "bykey", "computed", other, other}).Draw(rt, "table")
	first := rapid.IntRange(1, 2000).Draw(rt, "first")
	if rapid.IntRange(0, 2).Draw(rt, "what") == 0 {
		return fmt.Sprintf("DELETE FROM %s WHERE CAST(k AS INTEGER)>=%d AND k%%%d<>0", table, first, rapid.IntRange(1, 5).Draw(rt, "every"))
	}
	rows := rapid.IntRange(1, 400).Draw(rt, "rows")
	size := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(950, 1050), rapid.IntRange(4040, 4100), rapid.IntRange(8000, 20000)).Draw(rt, "size")
	if size > 4000 {
		rows = min(rows, 60)
	}
	text := "value "
	if table == "rs_log" {
		text = secret
	}
	return fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i+1 FROM n LIMIT %d)
		INSERT OR REPLACE INTO %s(k,v) SELECT i, substr(replace(printf('%%%ds',''),' ','%s'),1,%d+i%%48)||i FROM n`, first, rows, table, size/len(text)+4, text, size)
}

// sound lets another reader check the file. Its size is not looked at if length is zero.
func sound(t *testing.T, path string, length int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var check string
	var pages, free int
	err = db.QueryRowContext(t.Context(), `SELECT (SELECT group_concat(integrity_check, ' ') FROM pragma_integrity_check),
		(SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count)`).Scan(&check, &pages, &free)
	if err != nil || check != "ok" {
		t.Errorf("check of the file: %s, %v", check, err)
	}
	if length > 0 && (free != 0 || pages*4096 != length) {
		t.Errorf("got %d pages, %d free ones, in %d bytes", pages, free, length)
	}
}

// A snapshot is of the moment at which it was opened, however long its reading takes, and can be given up.
func TestSnapshot_IsOfOneMoment(t *testing.T) {
	c, path := open(t, sqlite.Options{})
	if err := replication.CreatePosition(c); err != nil {
		t.Fatal(err)
	}
	exec(t, c, "CREATE TABLE t(k INTEGER PRIMARY KEY, v)", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 5000) INSERT INTO t SELECT i, 'value '||i FROM n")
	want := hashes(t, c)
	to := filepath.Join(t.TempDir(), "copy.db")
	s, err := replication.OpenSnapshot(path, to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the template is still there: %v", err)
	}
	b := make([]byte, 10_001) // no whole number of pages.
	if _, err = io.ReadFull(s, b); err != nil {
		t.Fatal(err)
	}
	exec(t, c, "UPDATE t SET v='later'", "DROP TABLE t", "PRAGMA wal_checkpoint(PASSIVE)")
	rest, err := io.ReadAll(s)
	if err = errors.Join(err, s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(to, append(b, rest...), 0o600); err != nil {
		t.Fatal(err)
	}
	sound(t, to, len(b)+len(rest))
	if diff := cmp.Diff(want, hashes(t, openAt(t, to, sqlite.Options{}))); diff != "" {
		t.Errorf("content (-before +snapshot):\n%s", diff)
	}
	given, err := replication.OpenSnapshot(path, to+"2")
	if err != nil {
		t.Fatal(err)
	}
	if err = given.Close(); err != nil {
		t.Error(err)
	}
}

// A live file that is damaged gives no snapshot, rather than a wrong one.
func TestSnapshot_DamagedPageIsRefused(t *testing.T) {
	c, path := open(t, sqlite.Options{})
	if err := replication.CreatePosition(c); err != nil {
		t.Fatal(err)
	}
	exec(t, c, "CREATE TABLE t(k INTEGER PRIMARY KEY, v)", "INSERT INTO t SELECT value, zeroblob(3000) FROM json_each('[1,2,3,4,5]')", "PRAGMA wal_checkpoint(TRUNCATE)")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.WriteAt([]byte{99}, 4*4096); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // not before: it would drop the engine's locks.
	s, err := replication.OpenSnapshot(path, filepath.Join(t.TempDir(), "copy.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.ReadAll(s); dbaas.CodeOf(err) != dbaas.CodeInternal {
		t.Errorf("got %v, want code %q", err, dbaas.CodeInternal)
	}
	if err = s.Close(); err != nil {
		t.Error(err)
	}
}

// No page gets the number of the one that the engine has its locks in.
func TestSnapshot_LockPageStaysUnused(t *testing.T) {
	got, err := sqlite.NumbersAfter(7, 9, 3)
	if want := []uint32{8, 10, 11}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// Pages that were the log's, and rows that are gone, leave nothing in what a snapshot's pages do not use.
func TestSnapshot_UnusedPartsAreClear(t *testing.T) {
	c, path := open(t, sqlite.Options{})
	if err := replication.CreatePosition(c); err != nil {
		t.Fatal(err)
	}
	rows := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 200) "
	exec(t, c, "CREATE TABLE rs_log(k INTEGER PRIMARY KEY, v)", "CREATE TABLE long(k INTEGER PRIMARY KEY, v)", "CREATE TABLE short(k INTEGER PRIMARY KEY, v)",
		rows+"INSERT INTO rs_log SELECT i, replace(hex(zeroblob(500)),'00','"+secret+"') FROM n", "DELETE FROM rs_log",
		rows+"INSERT INTO long SELECT i, hex(zeroblob(2200)) FROM n", rows+"INSERT INTO short SELECT i, 'row number '||i||iif(i%2,' stays',' is gone') FROM n",
		"DELETE FROM short WHERE k%2=0")
	to := filepath.Join(t.TempDir(), "copy.db")
	snapshot(t, path, to)
	content, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{secret, " is gone"} {
		if n := bytes.Count(content, []byte(text)); n != 0 {
			t.Errorf("%q is in the snapshot %d times", text, n)
		}
	}
	sound(t, to, len(content))
}
