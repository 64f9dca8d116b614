package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// A checkpoint empties the WAL unless a reader needs it. A reader that was stopped fails until it is resumed, and keeps its state.
func TestConn_CheckpointAndStop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	w, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	sqlitetest.Exec(t, w, "CREATE TABLE t(k INTEGER PRIMARY KEY, v)", "INSERT INTO t VALUES(1,'a')")
	r, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	sqlitetest.Exec(t, r, "BEGIN", "SELECT * FROM t")
	sqlitetest.Exec(t, w, "INSERT INTO t VALUES(2,'b')")
	if done, failed := w.Checkpoint(time.Millisecond); done || failed != nil {
		t.Errorf("with a reader: got %t, %v; want false, nil", done, failed)
	}
	r.Stop()
	const long = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c LIMIT 1000000) SELECT count(*) FROM c"
	if got := dbaas.CodeOf(r.Exec(long)); got != dbaas.CodeTimeout {
		t.Errorf("stopped: got %q, want %q", got, dbaas.CodeTimeout)
	}
	r.Resume()
	sqlitetest.Exec(t, r, "SELECT * FROM t")
	if err = r.End(); err != nil {
		t.Fatal(err)
	}
	if done, failed := w.Checkpoint(time.Millisecond); !done || failed != nil {
		t.Errorf("without a reader: got %t, %v; want true, nil", done, failed)
	}
}
