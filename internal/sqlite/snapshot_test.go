package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// kinds of tables: each has its own kind of tree.
var kinds = []string{
	"CREATE TABLE byrow(k INTEGER PRIMARY KEY, v)",
	"CREATE TABLE bytext(k TEXT NOT NULL PRIMARY KEY, v)",
	"CREATE TABLE bykey(k INTEGER NOT NULL PRIMARY KEY, v) WITHOUT ROWID",
	"CREATE INDEX long ON byrow(v)",
	"CREATE UNIQUE INDEX partial ON bytext(v, k DESC) WHERE k>'5'",
	"CREATE TABLE computed(k INTEGER PRIMARY KEY, v, twice AS (v||v), kept AS (k*2) STORED)",
	"CREATE TABLE empty(k INTEGER PRIMARY KEY)",
}

// Whatever was done to the tables, a snapshot has the same rows in a sound, writable file.
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
		sqlitetest.Exec(t, c, kinds...)
		for range rapid.IntRange(0, 12).Draw(rt, "steps") {
			sqlitetest.Exec(t, c, step(rt))
		}
		sqlitetest.Snapshot(t, path, to)
		content, err := os.ReadFile(to)
		if err != nil {
			rt.Fatal(err)
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
			sqlitetest.Exec(t, copied, step(rt))
		}
		sqlitetest.Exec(t, copied, "PRAGMA wal_checkpoint(TRUNCATE)")
		sound(t, to, 0)
	})
}

// step is a statement that adds or removes rows, whose values are short, of the sizes at which a value no longer fits
// into a page, or many pages long.
func step(rt *rapid.T) string {
	table := rapid.SampledFrom([]string{"byrow", "bytext", "bykey", "computed"}).Draw(rt, "table")
	first := rapid.IntRange(1, 2000).Draw(rt, "first")
	if rapid.IntRange(0, 2).Draw(rt, "what") == 0 {
		return fmt.Sprintf("DELETE FROM %s WHERE CAST(k AS INTEGER)>=%d AND k%%%d<>0", table, first, rapid.IntRange(1, 5).Draw(rt, "every"))
	}
	rows := rapid.IntRange(1, 400).Draw(rt, "rows")
	size := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(950, 1050), rapid.IntRange(4040, 4100), rapid.IntRange(8000, 20000)).Draw(rt, "size")
	if size > 4000 {
		rows = min(rows, 60)
	}
	const text = "value "
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
	var pages int
	err = db.QueryRowContext(t.Context(), `SELECT (SELECT group_concat(integrity_check, ' ') FROM pragma_integrity_check),
		(SELECT page_count FROM pragma_page_count)`).Scan(&check, &pages)
	if err != nil || check != "ok" {
		t.Errorf("check of the file: %s, %v", check, err)
	}
	if length > 0 && pages*sqlite.PageSize != length {
		t.Errorf("got %d pages in %d bytes", pages, length)
	}
}

// A snapshot is of the moment at which it was opened, however long its reading takes, and can be given up.
func TestSnapshot_IsOfOneMoment(t *testing.T) {
	c, path := sqlitetest.Open(t, sqlite.Options{})
	if err := replication.CreatePosition(c); err != nil {
		t.Fatal(err)
	}
	sqlitetest.Exec(t, c, "CREATE TABLE t(k INTEGER PRIMARY KEY, v)", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 5000) INSERT INTO t SELECT i, 'value '||i FROM n")
	want := hashes(t, c)
	to := filepath.Join(t.TempDir(), "copy.db")
	s, err := replication.OpenSnapshot(path)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10_001) // no whole number of pages.
	if _, err = io.ReadFull(s, b); err != nil {
		t.Fatal(err)
	}
	sqlitetest.Exec(t, c, "UPDATE t SET v='later'", "DROP TABLE t", "PRAGMA wal_checkpoint(PASSIVE)")
	rest, err := io.ReadAll(s)
	if err = errors.Join(err, s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(to, append(b, rest...), 0o600); err != nil {
		t.Fatal(err)
	}
	sound(t, to, len(b)+len(rest))
	if diff := cmp.Diff(want, hashes(t, sqlitetest.OpenAt(t, to, sqlite.Options{}))); diff != "" {
		t.Errorf("content (-before +snapshot):\n%s", diff)
	}
	given, err := replication.OpenSnapshot(path)
	if err != nil {
		t.Fatal(err)
	}
	if err = given.Close(); err != nil {
		t.Error(err)
	}
}
