package sqlite_test

import (
	"path/filepath"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

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
	b, err := c.AppendRead([]byte("x"), &r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[1:])
}
