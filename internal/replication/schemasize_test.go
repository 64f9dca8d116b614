package replication_test

import (
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// wideView is a view whose text has more than 1.6 MB.
func wideView(name string) string {
	return "CREATE VIEW " + name + " AS SELECT /*" + strings.Repeat("é", 800_000) + "*/ 1 AS v"
}

// A change that would make the schema too large is refused, whatever it consists of. A schema that is larger than the limit
// can become smaller.
func TestCapture_Schema_Size(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "CREATE TABLE t(v)", wideView("a"), wideView("b"), wideView("c"), wideView("d"))
	k := replication.NewCapture(c, writes, 1<<30)
	const refused = "the schema would have more than 4194304 bytes"
	long := strings.Repeat("n", 250_000)
	for _, tc := range []struct{ sql, want string }{
		{"CREATE TABLE x(v)", refused},
		{"DROP VIEW d", ""},
		{"CREATE TABLE x(v)", refused},
		{"DROP VIEW c", ""},
		{"CREATE TABLE x(v)", ""},
		{wideView("c"), refused},
		{"ALTER TABLE t RENAME TO " + strings.Repeat("n", 500_000), refused},
		{"CREATE TABLE " + long + "(v)", ""},
		{"DROP TABLE " + long, ""},
		{"CREATE TABLE " + long + "(a UNIQUE, b UNIQUE)", refused}, // each index has a name of its own
		{"DROP VIEW b", ""},
		{wideView("c"), ""},
	} {
		if err := c.BeginWrite(); err != nil {
			t.Fatal(err)
		}
		if err := k.Begin(); err != nil {
			t.Fatal(err)
		}
		err := k.Schema(tc.sql, nil, func() error { return c.ChangeSchema(tc.sql) })
		if tc.want == "" && err != nil || tc.want != "" && (dbaas.CodeOf(err) != dbaas.CodeTooLarge || err.Error() != tc.want) {
			t.Errorf("%.40s: got %v, want %q", tc.sql, err, tc.want)
		}
		if err == nil {
			err = c.Commit()
		} else {
			err = c.End()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A file of a client has the same limit.
func TestCheckForeignSchema_Size(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, wideView("a"), wideView("b"))
	if err := replication.CheckForeignSchema(c, nil); err != nil {
		t.Errorf("3.2 MB: %v", err)
	}
	sqlitetest.Exec(t, c, wideView("c"))
	if err := replication.CheckForeignSchema(c, nil); dbaas.CodeOf(err) != dbaas.CodeTooLarge {
		t.Errorf("4.8 MB: got %v, want code %q", err, dbaas.CodeTooLarge)
	}
}
