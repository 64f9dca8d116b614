package commitlog_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// tablesOf reads with an independent reader how many bytes tables and indexes take.
func tablesOf(t *testing.T, dir string) (tables int64) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, commitlog.FileName)+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err = db.QueryRowContext(t.Context(), "SELECT sum(pgsize) FROM dbstat").Scan(&tables); err != nil {
		t.Fatal(err)
	}
	return tables
}

func sizes(t *testing.T, s *commitlog.Store) dbaas.Sizes {
	t.Helper()
	out, err := s.Sizes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The store's size of the tables is correct, whatever the sizes of the entries are, after trimming and after a restart.
func TestStore_Sizes_Tables(t *testing.T) {
	for name, size := range map[string]int{"Small": 10, "Half": 1700, "Page": 3900, "Overflow": 4500, "Large": 50_000} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			cfg := clk.config(t.TempDir())
			s := reopen(t, cfg)
			check := func(when string) {
				t.Helper()
				if got, want := sizes(t, s).Tables, tablesOf(t, cfg.Dir); got != want {
					t.Errorf("%s: the store says %d, the tables have %d", when, got, want)
				}
			}
			epoch := storetest.Claim(t, s)
			write := func(from int) {
				t.Helper()
				for n := range 200 {
					storetest.Commit(t, s, epoch, seen(from+n, 1<<30, fmt.Sprintf("INSERT INTO users VALUES('%d', printf('%%.*c', %d, 'x'))", from+n, size)))
				}
				clk.advance(40 * time.Minute)
			}
			write(0)
			check("written")
			write(200)
			if n := trim(t, s); n != 200 {
				t.Fatalf("trimmed %d", n)
			}
			check("trimmed")
			storetest.Commit(t, s, epoch, seen(1000, 1<<30, "DELETE FROM users WHERE username>'3'"))
			check("deleted")
			closeStore(t, s)
			s = reopen(t, cfg)
			check("opened")
			closeStore(t, s)
		})
	}
}

// At its limit the database refuses growth, with an error that says how to make room, and accepts everything else.
func TestStore_Commit_DatabaseIsFull(t *testing.T) {
	const mib = 1 << 20
	var lines bytes.Buffer
	s := open(t, commitlog.Config{MaxTables: 2 * mib, Log: slog.New(slog.NewTextHandler(&lines, nil))})
	epoch := storetest.Claim(t, s)
	insert := func(n, size int) dbaas.Operation {
		return op(n, fmt.Sprintf("INSERT INTO users VALUES('%d', printf('%%.*c', %d, 'x'))", n, size))
	}
	run := func(o dbaas.Operation) string {
		t.Helper()
		r := storetest.Commit(t, s, epoch, o).Results[0]
		if r.Code == dbaas.CodeFull && !strings.HasSuffix(r.Message, ": 2 of 2 MiB; delete rows or raise MAX_DATABASE_MIB") {
			t.Errorf("message %q", r.Message)
		}
		return outcome(r)
	}
	n := 0
	for ; run(insert(n, 50_000)) == "ok"; n++ {
		if n > 100 {
			t.Fatal("it does not get full")
		}
	}
	if got := sizes(t, s).Tables; got > 2*mib || got < 2*mib-100_000 {
		t.Errorf("full at %d bytes", got)
	}
	if !sizes(t, s).Full {
		t.Error("the store does not say that it is full")
	}
	if got := run(op(1000, "CREATE INDEX more ON users(password)")); got != "refused full" {
		t.Errorf("CREATE INDEX: %s", got)
	}
	for i, statement := range []string{
		"UPDATE users SET password=printf('%.*c', 49000, 'y') WHERE username='1'", "DELETE FROM users WHERE username='2'",
		"INSERT INTO users VALUES('2', printf('%.*c', 40000, 'z'))",
	} {
		if got := run(op(2000+i, statement)); got != "ok" {
			t.Errorf("%s: %s", statement, got)
		}
	}
	c := storetest.Commit(t, s, epoch, op(3000, "DELETE FROM users WHERE username='3'"), insert(3001, 900_000), op(3002, "DELETE FROM users WHERE username='4'"))
	if got := outcome(c.Results[0]) + ", " + outcome(c.Results[1]); got != "ok, refused again" {
		t.Errorf("a delete and an insert that is too large: %s", got)
	}
	if got := run(insert(3001, 900_000)); got != "refused full" {
		t.Errorf("the insert again: %s", got)
	}
	storetest.NewReplica(t, s).Follow(t, s)
	if got := run(op(4000, "DELETE FROM users")); got != "ok" {
		t.Errorf("DELETE of all: %s", got)
	}
	if got := run(insert(4001, 50_000)); got != "ok" {
		t.Errorf("an insert after that: %s", got)
	}
	if got := sizes(t, s); got.Tables > 200_000 || got.Full || got.Limit != 2*mib || got.Log < 2*mib || got.File < got.Log || got.DiskFree <= 0 {
		t.Errorf("afterwards: %+v", got)
	}
}

// A write that is larger than what is left does not make a database full that has room for others.
func TestStore_Commit_WriteTooLarge_DatabaseIsNotFull(t *testing.T) {
	s := open(t, commitlog.Config{MaxTables: 2 << 20})
	epoch := storetest.Claim(t, s)
	insert := func(n, size int) dbaas.OperationResult {
		return storetest.Commit(t, s, epoch, op(n, fmt.Sprintf("INSERT INTO users VALUES('%d', printf('%%.*c', %d, 'x'))", n, size))).Results[0]
	}
	if got := insert(1, 3<<20); got.Code != dbaas.CodeFull || !strings.HasPrefix(got.Message, "the write needs more room than the database has left: 1 of 2 MiB") {
		t.Errorf("a write of 3 MiB: got %v", got)
	}
	if sizes(t, s).Full {
		t.Error("the store says that it is full")
	}
	if got := outcome(insert(2, 50_000)); got != "ok" {
		t.Errorf("a small write: got %s", got)
	}
}

// One warning is logged when the database comes near its limit, and another only after it was smaller.
func TestStore_Watch_WarnsOnce(t *testing.T) {
	var lines bytes.Buffer
	s := open(t, commitlog.Config{MaxTables: 1 << 20, Log: slog.New(slog.NewTextHandler(&lines, nil))})
	epoch := storetest.Claim(t, s)
	for i, step := range []struct {
		statement string
		want      int
	}{
		{"INSERT INTO users VALUES('a', printf('%.*c', 700000, 'x'))", 0},
		{"INSERT INTO users VALUES('b', printf('%.*c', 150000, 'x'))", 1},
		{"INSERT INTO users VALUES('c', printf('%.*c', 20000, 'x'))", 1},
		{"DELETE FROM users WHERE username='b'", 1},
		{"INSERT INTO users VALUES('b', printf('%.*c', 150000, 'x'))", 2},
	} {
		storetest.Commit(t, s, epoch, op(i, step.statement))
		s.Watch(t.Context())
		s.Watch(t.Context())
		if n := strings.Count(lines.String(), "near its limit"); n != step.want {
			t.Errorf("after step %d: %d warnings, want %d", i, n, step.want)
		}
	}
}
