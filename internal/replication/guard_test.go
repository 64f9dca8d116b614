package replication_test

import (
	"slices"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

func guarded(t *testing.T) *sqlite.Conn {
	t.Helper()
	c, _ := sqlitetest.Open(t, sqlite.Options{ForeignKeys: true, Triggers: true})
	sqlitetest.Exec(t, c, "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT)", "CREATE TABLE rs_log(seq INTEGER PRIMARY KEY)",
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
		{"SELECT load_extension('x')", "no such function: load_extension", "no such function: load_extension"},
		{"SELECT geopoly_overlap('[[0,0],[1,0],[1,1],[0,0]]', v) FROM t", "no such function: geopoly_overlap", "no such function: geopoly_overlap"},
		{"SELECT Geopoly_Area(v) FROM t", "no such function: Geopoly_Area", "no such function: Geopoly_Area"},
		{"SELECT rtreecheck('t')", "no such function: rtreecheck", "no such function: rtreecheck"},
		{"SELECT rtreedepth(x'00')", "no such function: rtreedepth", "no such function: rtreedepth"},
		{"SELECT sqlite_offset(v) FROM t", "no such function: sqlite_offset", "no such function: sqlite_offset"},
		{"ALTER TABLE t ADD CHECK(SQLite_Offset(v)>=0)", "no such function: sqlite_offset", "no such function: sqlite_offset"},
		{"CREATE TABLE x(a, b AS (sqlite_offset(a)))", "no such function: sqlite_offset", "no such function: sqlite_offset"},
		{"INSERT INTO t(v) VALUES('b')", "attempt to change database", ""},
		{"INSERT INTO rs_log VALUES(1)", "no such table: rs_log", "no such table: rs_log"},
		{"DELETE FROM rs_log", "no such table: rs_log", "no such table: rs_log"},
		{"UPDATE sqlite_master SET sql=''", "sqlite_master may not be modified", "sqlite_master may not be modified"},
		{"DELETE FROM sqlite_sequence WHERE name='t'", "attempt to change database", ""},
		{"UPDATE sqlite_sequence SET seq=0", "attempt to change database", ""},
		{"PRAGMA journal_mode=DELETE", "PRAGMA journal_mode cannot be set", "PRAGMA journal_mode cannot be set"},
		{"PRAGMA user_version=''", "PRAGMA user_version cannot be set", "PRAGMA user_version cannot be set"},
		{"PRAGMA foreign_keys=0", "PRAGMA foreign_keys cannot be set", "PRAGMA foreign_keys cannot be set"},
		{"PRAGMA writable_schema", "PRAGMA writable_schema is not supported", "PRAGMA writable_schema is not supported"},
		{"PRAGMA Writable_Schema=1", "PRAGMA Writable_Schema is not supported", "PRAGMA Writable_Schema is not supported"},
		{"PRAGMA foreign_keys=ON", "", ""},
		{"PRAGMA foreign_keys", "", ""},
		{"PRAGMA journal_mode", "", ""},
		{"PRAGMA quick_check", "", ""},
		{"PRAGMA integrity_check(t)", "", ""},
		{"PRAGMA foreign_key_check", "", ""},
		{"PRAGMA database_list", "", ""},
		{"PRAGMA table_info(t)", "", ""},
		{"\ufeffEXPLAIN PRAGMA database_list", "PRAGMA database_list is not supported", "PRAGMA database_list is not supported"},
		{" \vEXPLAIN PRAGMA database_list", "PRAGMA database_list is not supported", "PRAGMA database_list is not supported"},
		{"EXPLAIN \vPRAGMA database_list", "PRAGMA database_list is not supported", "PRAGMA database_list is not supported"},
		{"EXPLAIN QUERY PLAN PRAGMA database_list", "PRAGMA database_list is not supported", "PRAGMA database_list is not supported"},
		{"EXPLAIN PRAGMA database_list", "PRAGMA database_list is not supported", "PRAGMA database_list is not supported"},
		{"PRAGMA table_list", "", ""},
		{"EXPLAIN PRAGMA table_list", "PRAGMA table_list is not supported", "PRAGMA table_list is not supported"},
		{"SELECT name FROM Pragma_Table_List", "no such table: pragma_table_list", "no such table: pragma_table_list"},
		{"SELECT file FROM pragma_database_list", "no such table: pragma_database_list", "no such table: pragma_database_list"},
		{"ALTER TABLE t ALTER COLUMN v SET NOT NULL", "attempt to change database", ""},
		{"ALTER TABLE t ALTER v DROP NOT NULL", "attempt to change database", ""},
		{"ATTACH 'x' AS y", "ATTACH and DETACH", "ATTACH and DETACH"},
		{"DETACH main", "ATTACH and DETACH", "ATTACH and DETACH"},
		{"VACUUM", "VACUUM is not supported", "VACUUM is not supported"},
		{" -- now\n/* all */ vacuum INTO 'x'", "VACUUM is not supported", "VACUUM is not supported"},
		{"\n\vVACUUM", "VACUUM is not supported", "VACUUM is not supported"},
		{"explain\t\vquery\r\vplan\f\vvacuum", "VACUUM is not supported", "VACUUM is not supported"},
		{"\vVACUUM", "unrecognized token", "unrecognized token"},
		{"explain query plan vacuum", "VACUUM is not supported", "VACUUM is not supported"},
		{"BEGIN", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction"},
		{"COMMIT", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction"},
		{"END", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction"},
		{"ROLLBACK", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction"},
		{"SAVEPOINT x", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction"},
		{"RELEASE x", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction"},
		{"EXPLAIN BEGIN", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction", "BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction"},
		{"ANALYZE", "ANALYZE is not supported", "ANALYZE is not supported"},
		{"CREATE TABLE x(id INTEGER PRIMARY KEY)", "attempt to change database via query operation", ""},
		{"EXPLAIN CREATE TABLE x(id INTEGER PRIMARY KEY)", "", ""},
		{"EXPLAIN QUERY PLAN INSERT INTO t(v) VALUES('b')", "", ""},
		{"/* how */ EXPLAIN DELETE FROM rs_log", "no such table: rs_log", "no such table: rs_log"},
		{"CREATE TABLE x AS SELECT * FROM t", "CREATE TABLE AS SELECT is not supported", "CREATE TABLE AS SELECT is not supported"},
		{"EXPLAIN CREATE TABLE x AS SELECT * FROM t", "CREATE TABLE AS SELECT is not supported", "CREATE TABLE AS SELECT is not supported"},
		{"CREATE TEMP TABLE x(id INTEGER PRIMARY KEY)", "temporary objects are not supported", "temporary objects are not supported"},
		{"CREATE TABLE rs_x(id INTEGER PRIMARY KEY)", "names that begin with rs_ are reserved", "names that begin with rs_ are reserved"},
		{"CREATE INDEX i ON rs_log(seq)", "no such table: rs_log", "no such table: rs_log"},
		{"CREATE INDEX rs_i ON t(v)", "names that begin with rs_ are reserved", "names that begin with rs_ are reserved"},
		{"CREATE TRIGGER g AFTER INSERT ON rs_log BEGIN SELECT 1; END", "no such table: rs_log", "no such table: rs_log"},
		{"DROP TABLE rs_log", "no such table: rs_log", "no such table: rs_log"},
		{"ALTER TABLE rs_log ADD COLUMN x", "no such table: rs_log", "no such table: rs_log"},
		{"CREATE VIRTUAL TABLE f USING fts5(x)", "virtual tables are not supported, they cannot be replicated", "virtual tables are not supported, they cannot be replicated"},
		{"CREATE INDEX i ON t(v)", "attempt to change database via query operation", ""},
		{"CREATE VIEW w AS SELECT * FROM t", "attempt to change database via query operation", ""},
		{"DROP TABLE t", "attempt to change database via query operation", ""},
		{"ALTER TABLE t ADD COLUMN w TEXT NOT NULL DEFAULT 'x' CHECK(w<>'')", "attempt to change database via query operation", ""},
		{"SELECT 1; nonsense", "", ""},
		{"INSERT INTO t(v) VALUES('x'); DROP TABLE t", "attempt to change database via query operation", ""},
		{"SELECT 1; -- done\n ; /* really */ ", "", ""},
		{"  -- nothing", "no statement", "no statement"},
		{"", "no statement", "no statement"},
		{" \v", "no statement", "no statement"},
		{";;/* x", "no statement", "no statement"},
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

// PRAGMA table_list shows the tables of clients only, to reads and to writes.
func TestGuard_TableList_WithoutTheSystemsTables(t *testing.T) {
	c := guarded(t)
	in := dbaas.Statement{SQL: "PRAGMA table_list"}
	b, err := c.AppendRead(nil, &dbaas.Read{Format: dbaas.FormatArrays, Statements: []dbaas.Statement{in}}, replication.ReadGuard)
	if err != nil || strings.Contains(string(b), "rs_") || !strings.Contains(string(b), `["main","t","table",2,0,0]`) {
		t.Errorf("got %s, %v", b, err)
	}
	s, err := c.Prepare(in.SQL, writes)
	if err != nil {
		t.Fatal(err)
	}
	result, err := s.Run(&in, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range result.Rows {
		names = append(names, row[1].Text)
	}
	slices.Sort(names)
	if want := []string{"peek", "sqlite_schema", "sqlite_sequence", "sqlite_temp_schema", "t"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
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
	sqlitetest.Exec(t, c, "DROP VIEW peek") // which is refused beside a change of the schema
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
