package sqlite_test

import (
	"testing"

	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// The settings of an opened connection: only a durable one waits for the disk at each commit. A replica need not wait, since its file
// is thrown away at the next start.
func TestOpen_Settings(t *testing.T) {
	t.Parallel()
	_, path := sqlitetest.Open(t, sqlite.Options{})
	for _, c := range []struct {
		name                            string
		o                               sqlite.Options
		synchronous, queryOnly, foreign int64
	}{
		{"writer of persdb's log", sqlite.Options{Durable: true}, 2, 0, 0},
		{"writer of persdb's tables", sqlite.Options{Recoverable: true, ForeignKeys: true, Triggers: true}, 1, 0, 1},
		{"replica's writer", sqlite.Options{}, 0, 0, 0},
		{"reader", sqlite.Options{ReadOnly: true}, 2, 1, 0},
	} {
		db := sqlitetest.OpenAt(t, path, c.o)
		for pragma, want := range map[string]int64{"synchronous": c.synchronous, "query_only": c.queryOnly, "foreign_keys": c.foreign} {
			if err := db.Query("PRAGMA "+pragma, func(r sqlite.Row) error {
				if got := r.Int(0); got != want {
					t.Errorf("%s: %s is %d, want %d", c.name, pragma, got, want)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
		if err := db.Query("PRAGMA journal_mode", func(r sqlite.Row) error {
			if got := r.Text(0); got != "wal" {
				t.Errorf("%s: journal_mode is %s, want wal", c.name, got)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}
