package ladder

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/sqlite"
)

// startBare returns a database with the table of the benchmark and its first rows, and the path of its file.
func startBare(t *testing.T, rows int) (*bare, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bare.db")
	b, err := newBare(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := b.execute(t.Context(), []byte(`["`+createTable+`", "`+createIndex+`"]`)); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if _, err := b.execute(t.Context(), []byte(`[["INSERT INTO bench (k, g, v) VALUES (?, 0, '')", "`+string(appendKey(nil, i))+`"]]`)); err != nil {
			t.Fatal(err)
		}
	}
	return b, file
}

// number returns the number that a statement answers.
func number(t *testing.T, c *sqlite.Conn, sql string) (n int64) {
	t.Helper()
	if err := c.Query(sql, func(r sqlite.Row) error { n = r.Int(0); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// The reference has the options that the product's databases have: commits wait for the disk.
func TestBare_Databases_OptionsOfTheirConnections(t *testing.T) {
	b, _ := startBare(t, 0)
	for pragma, want := range map[string]int64{"synchronous": 2, "foreign_keys": 1, "query_only": 0} {
		if got := number(t, b.writer, "PRAGMA "+pragma); got != want {
			t.Errorf("writer: got %s=%d, want %d", pragma, got, want)
		}
	}
	for range cap(b.readers) {
		reader := <-b.readers
		for pragma, want := range map[string]int64{"query_only": 1, "mmap_size": 256 << 20} {
			if got := number(t, reader, "PRAGMA "+pragma); got != want {
				t.Errorf("reader: got %s=%d, want %d", pragma, got, want)
			}
		}
		b.readers <- reader
	}
}

// A write is committed when it is answered, and neither it nor a read waits for anything.
func TestBare_Request_IsCommittedAndTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, file := startBare(t, 0)
		began := time.Now()
		if _, err := b.write(t.Context(), []byte(`{"query":"insert","table":"bench","values":{"k":"a","g":1,"v":""}}`)); err != nil {
			t.Fatal(err)
		}
		other, err := sqlite.Open(file, sqlite.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Close() }() // read only: nothing to lose.
		if got := number(t, other, "SELECT count(*) FROM bench"); got != 1 {
			t.Errorf("got %d rows on another connection, want 1", got)
		}
		got, err := b.read(t.Context(), []byte(`{"table":"bench","columns":["k"],"condition":{"g":1}}`))
		if err != nil || string(got) != `[{"k":"a"}]` || time.Since(began) != 0 {
			t.Errorf("got %s, %v, after %v, want the row in no time", got, err, time.Since(began))
		}
	})
}
