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
	for i, limit := range []time.Duration{time.Minute, 2 * time.Second} {
		r := dbaas.Read{Format: dbaas.FormatArrays, Statements: list[i : i+1], Deadline: time.Now().Add(limit)}
		if _, err := c.AppendRead(nil, &r, replication.ReadGuard); err != nil && i == 0 {
			t.Fatal(err)
		}
	}
	if got := <-said; got != "SELECT 2, block()" {
		t.Errorf("got %q", got)
	}
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("after %s, before the least allowed time and a second", took)
	}
}

// The engine counts all rows of a table in one loop, which looks only at the interrupt. Such a statement ends soon after
// its deadline, and the next one runs.
func TestOptions_OnStuck_CountOfALargeTable(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{OnStuck: func(sql string) { t.Error(sql) }})
	sqlitetest.Exec(t, c, "PRAGMA page_size=512", "VACUUM", "CREATE TABLE t(a)")
	count := func(within time.Duration) (time.Duration, error) {
		began := time.Now()
		r := dbaas.Read{Format: dbaas.FormatArrays, Statements: statements("SELECT count(*) FROM t"), Deadline: began.Add(within)}
		_, err := c.AppendRead(nil, &r, replication.ReadGuard)
		return time.Since(began), err
	}
	for least := time.Duration(0); least < 3*sqlite.WatchEvery; { // the watchdog must see the count run after its deadline
		sqlitetest.Exec(t, c, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<200000) INSERT INTO t SELECT zeroblob(300) FROM n")
		least = time.Minute
		for range 2 {
			took, err := count(time.Minute)
			if err != nil {
				t.Fatalf("with much time: %v", err)
			}
			least = min(least, took)
		}
	}
	if _, err := count(sqlite.WatchEvery / 5); dbaas.CodeOf(err) != dbaas.CodeTimeout {
		t.Errorf("with little time: got %v, want %s", err, dbaas.CodeTimeout)
	}
	if _, err := count(time.Minute); err != nil {
		t.Errorf("with much time, after the interrupt: %v", err)
	}
}

// Only a running statement is watched. A prepared statement may never run, and its connection may stay idle.
func TestOptions_OnStuck_IdleStatement(t *testing.T) {
	t.Parallel()
	c, _ := sqlitetest.Open(t, sqlite.Options{OnStuck: func(string) {}})
	sqlitetest.Exec(t, c, "CREATE TABLE t(a UNIQUE)")
	one := []dbaas.Value{dbaas.Integer(1)}
	for _, tc := range []struct {
		name string
		in   dbaas.Statement
		runs bool
		fail bool
	}{
		{"prepared", dbaas.Statement{SQL: "SELECT ?"}, false, false},
		{"prepared again", dbaas.Statement{SQL: "SELECT ?"}, false, false},
		{"schema change, prepared", dbaas.Statement{SQL: "CREATE TABLE x(a)"}, false, false},
		{"done", dbaas.Statement{SQL: "INSERT INTO t VALUES(?)", Args: one}, true, false},
		{"failed", dbaas.Statement{SQL: "INSERT INTO t VALUES(?)", Args: one}, true, true},
		{"no value", dbaas.Statement{SQL: "INSERT INTO t VALUES(?)"}, true, true},
		{"no value for a schema change", dbaas.Statement{SQL: "CREATE TABLE IF NOT EXISTS t(a CHECK(a>?))"}, true, true},
		{"value of no kind", dbaas.Statement{SQL: "INSERT INTO t VALUES(?)", Args: []dbaas.Value{{Kind: 99}}}, true, true},
		{"infinity", dbaas.Statement{SQL: "VALUES(9e999)"}, true, true},
	} {
		err := c.Until(time.Now().Add(time.Minute), func() error {
			s, err := c.Prepare(tc.in.SQL, writes)
			if err == nil && tc.runs {
				_, err = s.Run(&tc.in, 1<<20)
			}
			return err
		})
		if (err != nil) != tc.fail {
			t.Errorf("%s: %v", tc.name, err)
		}
		if sql := sqlite.Watched(c); sql != "" {
			t.Errorf("%s: %q is watched", tc.name, sql)
		}
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
