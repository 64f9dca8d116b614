// Package sqlitetest opens and fills databases in the tests of the engine and of what is built on it.
package sqlitetest

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

// Open opens a new file, whose name has special characters, until the test ends. It returns the path.
func Open(tb testing.TB, o sqlite.Options) (*sqlite.Conn, string) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "t?e%s t#.db")
	return OpenAt(tb, path, o), path
}

// OpenAt opens the file at path until the test ends.
func OpenAt(tb testing.TB, path string, o sqlite.Options) *sqlite.Conn {
	tb.Helper()
	c, err := sqlite.Open(path, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// Snapshot writes a snapshot of the file at from to a new file at to.
func Snapshot(tb testing.TB, from, to string) dbaas.Head {
	tb.Helper()
	s, err := replication.OpenSnapshot(from)
	if err != nil {
		tb.Fatal(err)
	}
	f, err := os.Create(to) //nolint:gosec // a test's own file.
	if err != nil {
		tb.Fatal(err)
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, s, make([]byte, 256<<10))
	if err = errors.Join(err, f.Close(), s.Close()); err != nil {
		tb.Fatal(err)
	}
	return s.Head()
}

// Exec runs the system's own statements.
func Exec(tb testing.TB, c *sqlite.Conn, list ...string) {
	tb.Helper()
	for _, sql := range list {
		if err := c.Exec(sql); err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
	}
}
