package commitlog_test

import (
	"path/filepath"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/persdb/commitlog"
)

// Close interrupts a read that would run forever, and returns only when the read has ended. Later reads are refused.
func TestReaders_Close_EndsRunningReads(t *testing.T) {
	cfg := commitlog.Config{Dir: t.TempDir()}
	open(t, cfg)
	r, err := commitlog.OpenReaders(filepath.Join(cfg.Dir, commitlog.FileName), 2)
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		_ = r.Use(t.Context(), func(c *sqlite.Conn) error {
			defer close(ended)
			close(began)
			return c.Query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n", func(sqlite.Row) error { return nil })
		})
	}()
	<-began
	if err = r.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	default:
		t.Error("Close returned while a read was running")
	}
	err = r.Use(t.Context(), func(*sqlite.Conn) error { return nil })
	if got := dbaas.CodeOf(err); got != dbaas.CodeUnavailable {
		t.Errorf("a read after Close: got %v, want %q", err, dbaas.CodeUnavailable)
	}
}
