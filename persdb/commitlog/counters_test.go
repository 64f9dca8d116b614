package commitlog_test

import (
	"strings"
	"testing"

	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// A statement that would make every later entry with a counter large is undone.
func TestStore_Commit_LargeCounters(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
	for n, tc := range []struct{ sql, want string }{
		{"CREATE TABLE x(id INTEGER PRIMARY KEY AUTOINCREMENT)", "ok"},
		{"INSERT INTO sqlite_sequence(name, seq) VALUES('a', zeroblob(600000))", "ok"},
		{"INSERT INTO sqlite_sequence(name, seq) VALUES('b', zeroblob(600000))", "too_large: sqlite_sequence would have more than 1048576 bytes"},
		{"INSERT INTO x DEFAULT VALUES", "ok"},
		{"CREATE TABLE y(v)", "ok"},
		{"INSERT INTO y VALUES(1)", "ok"}, // stays prepared
		{"CREATE TRIGGER g AFTER INSERT ON y BEGIN INSERT INTO sqlite_sequence(name, seq) VALUES('b', zeroblob(600000)); END", "ok"},
		{"INSERT INTO y VALUES(1)", "too_large: sqlite_sequence would have more than 1048576 bytes"},
	} {
		if got := outcome(storetest.Commit(t, s, epoch, op(n, tc.sql)).Results[0]); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.sql, got, tc.want)
		}
	}
	r.Follow(t, s)
	if n := count(t, r, "sqlite_sequence"); n != 2 {
		t.Errorf("got %d counters, want those of a and x", n)
	}
}

// Tables with AUTOINCREMENT whose names would make every later entry with a counter large are refused, at their creation and at a
// new name.
func TestStore_Commit_LongNamesOfCounters(t *testing.T) {
	s := open(t, commitlog.Config{})
	epoch, r := storetest.Claim(t, s), storetest.NewReplica(t, s)
	const refused = "too_large: the names of tables with AUTOINCREMENT would have more than 1048576 bytes"
	a, b := strings.Repeat("a", 600_000), strings.Repeat("b", 600_000)
	for n, tc := range []struct{ sql, want string }{
		{"CREATE TABLE " + a + "(id INTEGER PRIMARY KEY AUTOINCREMENT)", "ok"},
		{"CREATE TABLE " + b + "(id INTEGER PRIMARY KEY AUTOINCREMENT)", refused},
		{"CREATE TABLE " + b + "(id INTEGER PRIMARY KEY)", "ok"},
		{"CREATE TABLE x(id INTEGER PRIMARY KEY AUTOINCREMENT)", "ok"},
		{"INSERT INTO x DEFAULT VALUES", "ok"},
		{"ALTER TABLE x RENAME TO x" + b, refused},
		{"DROP TABLE " + a, "ok"},
		{"ALTER TABLE x RENAME TO x" + b, "ok"},
	} {
		if got := outcome(storetest.Commit(t, s, epoch, op(n, tc.sql)).Results[0]); got != tc.want {
			t.Errorf("%.40s: got %.200s, want %s", tc.sql, got, tc.want)
		}
	}
	r.Follow(t, s)
}
