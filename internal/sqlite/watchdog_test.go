package sqlite_test

import (
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// The watchdog speaks up once about a statement that nothing stops, and not about others.
func TestOptions_OnStuck(t *testing.T) {
	release := make(chan struct{})
	said := make(chan string, 10)
	c, _ := sqlitetest.Open(t, sqlite.Options{OnStuck: func(sql string) {
		said <- sql
		close(release) // a second time would panic
	}})
	if err := sqlite.DefineBlock(c, release); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	list := statements("SELECT 1", "SELECT 2, block()")
	for i, limit := range []time.Duration{time.Minute, 200 * time.Millisecond} {
		r := dbaas.Read{Format: dbaas.FormatArrays, Statements: list[i : i+1], Deadline: time.Now().Add(limit)}
		if _, err := c.AppendRead(nil, &r, replication.ReadGuard); err != nil && i == 0 {
			t.Fatal(err)
		}
	}
	if got := <-said; got != "SELECT 2, block()" {
		t.Errorf("got %q", got)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("after %s, before twice the limit and a second", took)
	}
}

// A process that was stopped, or got no processor, has no stuck statement for that.
func TestOptions_OnStuck_ProcessStopped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		intervals []time.Duration
		want      time.Duration
	}{
		{"never", nil, 3100 * time.Millisecond},
		{"before the deadline", []time.Duration{time.Minute}, 61 * time.Second},
		{"after the deadline", []time.Duration{2 * time.Second, time.Minute}, 63 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := sqlite.StuckAfter(2*time.Second, c.intervals...); got != c.want {
				t.Errorf("after %s, want %s", got, c.want)
			}
		})
	}
}
