package replication_test

import (
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
)

func guarded(t *testing.T) *sqlite.Conn {
	t.Helper()
	c, _ := open(t, sqlite.Options{ForeignKeys: true, Triggers: true})
	exec(t, c, "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT)", "CREATE TABLE rs_log(seq INTEGER PRIMARY KEY)",
		"CREATE VIEW peek AS SELECT * FROM rs_log", "INSERT INTO t(v) VALUES('a')")
	return c
}

// Under either guard, a client can neither read nor change what belongs to the system.
func TestGuard_Refuses(t *testing.T) {
	c := guarded(t)
	for _, tc := range []struct {
		sql, read, write string // part of the message; "" means allowed
	}{
		{"SELECT * FROM t", "", ""},
		{"EXPLAIN QUERY PLAN SELECT * FROM t", "", ""},
		{"SELECT name FROM sqlite_master", "", ""},
		{"SELECT name FROM pragma_table_info('t')", "", ""},
		{"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n LIMIT 3", "", ""},
		{"SELECT * FROM rs_log", "no such table: rs_log", "no such table: rs_log"},
		{"SELECT count(*) FROM RS_Log", "no such table: rs_log", "no such table: rs_log"},
		{"SELECT * FROM peek", "no such table: rs_log", "no such table: rs_log"},
		{"SELECT * FROM t WHERE id IN (SELECT seq FROM rs_log)", "no such table: rs_log", "no such table: rs_log"},
		{"SELECT * FROM sqlite_dbpage", "no such table", "no such table"},
		{"SELECT load_extension('x')", "load_extension", "load_extension"},
		{"INSERT INTO t(v) VALUES('b')", "attempt to change database", ""},
		{"INSERT INTO rs_log VALUES(1)", "attempt to change database", "no such table: rs_log"},
		{"DELETE FROM rs_log", "attempt to change database", "no such table: rs_log"},
		{"UPDATE sqlite_master SET sql=''", "sqlite_master may not be modified", "sqlite_master may not be modified"},
		{"DELETE FROM sqlite_sequence WHERE name='t'", "attempt to change database", ""},
		{"UPDATE sqlite_sequence SET seq=0", "attempt to change database", ""},
		{"PRAGMA journal_mode=DELETE", "PRAGMA journal_mode is not supported", "PRAGMA journal_mode is not supported"},
		{"PRAGMA foreign_keys=0", "not supported", "not supported"},
		{"PRAGMA quick_check", "not supported", "not supported"},
		{"PRAGMA table_info(t)", "", ""},
		{"ATTACH 'x' AS y", "attempt to change", "ATTACH"},
		{"DETACH main", "attempt to change", "ATTACH"},
		{"VACUUM", "VACUUM is not supported", "VACUUM is not supported"},
		{" -- now\n/* all */ vacuum INTO 'x'", "VACUUM is not supported", "VACUUM is not supported"},
		{"BEGIN", "attempt to change", "BEGIN"},
		{"COMMIT", "attempt to change", "BEGIN"},
		{"SAVEPOINT x", "attempt to change", "BEGIN"},
		{"ANALYZE", "attempt to change", "ANALYZE"},
		{"CREATE TABLE x(id INTEGER PRIMARY KEY)", "attempt to change", ""},
		{"CREATE TABLE x AS SELECT * FROM t", "attempt to change", "CREATE TABLE AS SELECT"},
		{"CREATE TEMP TABLE x(id INTEGER PRIMARY KEY)", "attempt to change", "temporary"},
		{"CREATE TABLE rs_x(id INTEGER PRIMARY KEY)", "attempt to change", "reserved"},
		{"CREATE INDEX i ON rs_log(seq)", "attempt to change", "reserved"},
		{"CREATE INDEX rs_i ON t(v)", "attempt to change", "reserved"},
		{"CREATE TRIGGER g AFTER INSERT ON rs_log BEGIN SELECT 1; END", "attempt to change", "reserved"},
		{"DROP TABLE rs_log", "attempt to change", "reserved"},
		{"ALTER TABLE rs_log ADD COLUMN x", "attempt to change", "reserved"},
		{"CREATE VIRTUAL TABLE f USING fts5(x)", "attempt to change", "virtual tables"},
		{"CREATE INDEX i ON t(v)", "attempt to change", ""},
		{"CREATE VIEW w AS SELECT * FROM t", "attempt to change", ""},
		{"DROP TABLE t", "attempt to change", ""},
		{"ALTER TABLE t ADD COLUMN w TEXT NOT NULL DEFAULT 'x' CHECK(w<>'')", "attempt to change", ""},
		{"SELECT 1; SELECT 2", "more than one statement", "more than one statement"},
		{"INSERT INTO t(v) VALUES('x'); DROP TABLE t", "attempt to change", "more than one statement"},
		{"SELECT 1; -- done\n ; /* really */ ", "", ""},
		{"SELECT 1; nonsense", "more than one statement", "more than one statement"},
		{"  -- nothing", "no statement", "no statement"},
		{"", "no statement", "no statement"},
		{"SELECT 1\x00", "zero byte", "zero byte"},
		{"SELEC 1", "syntax error", "syntax error"},
		{"SELECT * FROM nope", "no such table: nope", "no such table: nope"},
	} {
		check := func(guard *replication.Guard, want string) {
			t.Helper()
			_, err := c.Prepare(tc.sql, guard)
			switch {
			case want == "" && err != nil:
				t.Errorf("writes %t, %s: got %v, want it allowed", guard == writes, tc.sql, err)
			case want != "" && (err == nil || dbaas.CodeOf(err) != dbaas.CodeInvalid || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want))):
				t.Errorf("writes %t, %s: got %v, want invalid with %q", guard == writes, tc.sql, err, want)
			}
		}
		check(replication.ReadGuard, tc.read)
		check(writes, tc.write)
	}
}

// A statement knows whether it reads, and whether it changes the schema.
func TestStmt_Kinds(t *testing.T) {
	c := guarded(t)
	for _, tc := range []struct {
		sql              string
		schema, readOnly bool
		rewritten        string
	}{
		{"SELECT 1", false, true, ""},
		{"EXPLAIN DROP TABLE t", false, true, ""},
		{"INSERT INTO t(v) VALUES(1) RETURNING id", false, false, ""},
		{"CREATE TABLE x(id INTEGER PRIMARY KEY)", true, false, ""},
		{"CREATE UNIQUE INDEX i ON t(v)", true, false, ""},
		{"DROP TABLE t", true, false, "t"},
		{"DROP TABLE IF EXISTS nope", false, false, ""},
		{"CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY)", true, false, ""},
		{"ALTER TABLE t RENAME TO u", true, false, "t"},
		{"CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END", true, false, ""},
		{"DROP VIEW peek", true, false, ""},
	} {
		s, err := c.Prepare(tc.sql, writes)
		if err != nil {
			t.Errorf("%s: %v", tc.sql, err)
			continue
		}
		if s.Schema() != tc.schema || s.ReadOnly() != tc.readOnly || strings.Join(s.Rewritten(), ",") != tc.rewritten {
			t.Errorf("%s: got schema %v, read only %v, rewritten %v", tc.sql, s.Schema(), s.ReadOnly(), s.Rewritten())
		}
	}
}

// The check that the engine makes for ADD COLUMN is allowed also when it belongs to
// the first schema statement of a connection, before which the reserved names are read.
func TestCapture_Schema_FirstStatementWithCheck_Runs(t *testing.T) {
	c := guarded(t)
	k := replication.NewCapture(c, writes, 1<<30)
	if err := k.Begin(); err != nil {
		t.Fatal(err)
	}
	in := dbaas.Statement{SQL: "ALTER TABLE t ADD COLUMN w INTEGER NOT NULL DEFAULT 0 CHECK (w >= 0)"}
	s, err := c.Prepare(in.SQL, writes)
	if err != nil {
		t.Fatal(err)
	}
	err = k.Schema(in.SQL, s.Rewritten(), func() error {
		_, err = s.Run(&in, 1<<20)
		return err
	})
	if err != nil {
		t.Fatalf("got %v, want nil", err)
	}
}
