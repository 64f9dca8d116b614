package sqlite_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
)

// writes is the guard of statements that write.
var writes = replication.WriteGuard(nil)

func open(t *testing.T, o sqlite.Options) (*sqlite.Conn, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t?e%s t#.db")
	return openAt(t, path, o), path
}

func openAt(t *testing.T, path string, o sqlite.Options) *sqlite.Conn {
	t.Helper()
	c, err := sqlite.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// snapshot writes a snapshot of the file at from to a new file at to.
func snapshot(tb testing.TB, from, to string) dbaas.Head {
	tb.Helper()
	s, err := replication.OpenSnapshot(from)
	if err != nil {
		tb.Fatal(err)
	}
	f, err := os.Create(to)
	if err != nil {
		tb.Fatal(err)
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, s, make([]byte, 256<<10))
	if err = errors.Join(err, f.Close(), s.Close()); err != nil {
		tb.Fatal(err)
	}
	return s.Head()
}

func exec(t *testing.T, c *sqlite.Conn, list ...string) {
	t.Helper()
	for _, sql := range list {
		if err := c.Exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func statements(list ...string) []dbaas.Statement {
	out := make([]dbaas.Statement, len(list))
	for i, sql := range list {
		out[i].SQL = sql
	}
	return out
}

func read(t *testing.T, c *sqlite.Conn, r dbaas.Read) string {
	t.Helper()
	b, err := c.AppendRead([]byte("x"), &r, replication.ReadGuard)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[1:])
}

func hashes(t *testing.T, c *sqlite.Conn) map[string]string {
	t.Helper()
	h, err := replication.Hashes(c, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
