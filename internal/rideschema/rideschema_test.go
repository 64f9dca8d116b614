package rideschema_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/rideschema"
	"rideshare/internal/sqlite"
)

// create returns a database with the tables.
func create(t *testing.T) *sqlite.Conn {
	t.Helper()
	c, err := sqlite.Open(filepath.Join(t.TempDir(), "app.db"), sqlite.Options{ForeignKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, sql := range rideschema.Create() {
		exec(t, c, sql)
	}
	return c
}

func exec(t *testing.T, c *sqlite.Conn, sql string) {
	t.Helper()
	if err := c.Exec(sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// texts returns the first column of all rows.
func texts(t *testing.T, c *sqlite.Conn, sql string) []string {
	t.Helper()
	var list []string
	if err := c.Query(sql, func(r sqlite.Row) error { list = append(list, r.Text(0)); return nil }); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return list
}

// Every table and index that Create makes is protected, and nothing else.
func TestProtected_IsAllOfCreate(t *testing.T) {
	got := texts(t, create(t), "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
	want := slices.Sorted(slices.Values(rideschema.Protected()))
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Present reads every table and column that Create makes.
func TestPresent_FailsWithoutAnyColumn(t *testing.T) {
	none := func(sqlite.Row) error { return nil }
	if err := create(t).Query(rideschema.Present, none); err != nil {
		t.Errorf("all tables are there: %v", err)
	}
	columns := texts(t, create(t), "SELECT 'ALTER TABLE '||t.name||' RENAME COLUMN '||c.name||' TO gone' FROM pragma_table_list t, pragma_table_info(t.name) c WHERE t.name NOT LIKE 'sqlite_%'")
	if len(columns) != 12 {
		t.Errorf("got %d columns, want 12", len(columns))
	}
	for _, rename := range columns {
		c := create(t)
		exec(t, c, rename)
		if err := c.Query(rideschema.Present, none); dbaas.CodeOf(err) != dbaas.CodeInvalid {
			t.Errorf("%s: got %v, want code %q", rename, err, dbaas.CodeInvalid)
		}
	}
}

// Clear empties all tables but the counters, and ride ids begin at 1 again.
func TestClear_KeepsCounters(t *testing.T) {
	c := create(t)
	fill := func() {
		exec(t, c, "INSERT INTO users VALUES('ann', 'x')")
		exec(t, c, "INSERT INTO rides(created_by, timestamp, source, destination) VALUES('ann', 't', 1, 2)")
		exec(t, c, "INSERT INTO riders SELECT rideId, 'ann' FROM rides")
	}
	exec(t, c, "INSERT INTO apicount VALUES('users', 7)")
	fill()
	var errs []error
	for _, s := range rideschema.Clear() {
		errs = append(errs, c.Exec(s.SQL))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	const counts = "SELECT (SELECT count(*) FROM users)||(SELECT count(*) FROM rides)||(SELECT count(*) FROM riders)||(SELECT sum(count) FROM apicount)"
	if got := texts(t, c, counts)[0]; got != "0007" {
		t.Errorf("got users, rides, riders and counters %s, want 0007", got)
	}
	fill()
	if got := texts(t, c, "SELECT rideId FROM rides")[0]; got != "1" {
		t.Errorf("got ride %s, want 1", got)
	}
}
