package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // the witness: another way to the same file.
	"pgregory.net/rapid"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

func run(t *testing.T, c *sqlite.Conn, in dbaas.Statement) (dbaas.StatementResult, error) {
	t.Helper()
	s, err := c.Prepare(in.SQL, writes)
	if err != nil {
		return dbaas.StatementResult{}, err
	}
	return s.Run(&in, 1<<20)
}

// A value comes back exactly as it was bound, whatever it is.
func TestStmt_Run_ValuesRoundTrip(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	values := rapid.Custom(func(t *rapid.T) dbaas.Value {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return dbaas.Null()
		case 1:
			return dbaas.Integer(rapid.Int64().Draw(t, "int"))
		case 2:
			return dbaas.Float(rapid.Float64().Draw(t, "float"))
		case 3:
			return dbaas.Text(rapid.String().Draw(t, "text"))
		default:
			return dbaas.Blob(append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "blob")...))
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		args := rapid.SliceOfN(values, 1, 8).Draw(rt, "args")
		marks := strings.TrimSuffix(strings.Repeat("?,", len(args)), ",")
		r, err := run(t, c, dbaas.Statement{SQL: "SELECT " + marks, Args: args})
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff([]dbaas.Row{args}, r.Rows); diff != "" {
			rt.Errorf("values (-bound +read):\n%s", diff)
		}
	})
}

// A value binds a parameter by its place or by its name. What is left over is refused by its name.
func TestStmt_Run_Parameters(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	one, two := dbaas.Integer(1), dbaas.Text("two")
	named := func(list ...any) []dbaas.NamedValue {
		var out []dbaas.NamedValue
		for i := 0; i < len(list); i += 2 {
			out = append(out, dbaas.NamedValue{Name: fmt.Sprint(list[i]), Value: list[i+1].(dbaas.Value)})
		}
		return out
	}
	for _, tc := range []struct {
		in   dbaas.Statement
		want string
	}{
		{dbaas.Statement{SQL: "SELECT ?, ?", Args: []dbaas.Value{one, two}}, "1 two"},
		{dbaas.Statement{SQL: "SELECT ?2, ?1", Args: []dbaas.Value{one, two}}, "two 1"},
		{dbaas.Statement{SQL: "SELECT :a, @b, $a2, :a", Named: named("a", one, "b", two, "a2", one)}, "1 two 1 1"},
		{dbaas.Statement{SQL: "SELECT :a, :b", Args: []dbaas.Value{one, two}}, "1 two"},
		{dbaas.Statement{SQL: "SELECT ?, :b", Named: named("", one, "b", two)}, "1 two"},
		{dbaas.Statement{SQL: "SELECT :b, ?", Named: named("b", two, "", one)}, "two 1"},
		{dbaas.Statement{SQL: "SELECT ?"}, "no value for parameter 1"},
		{dbaas.Statement{SQL: "SELECT 1", Args: []dbaas.Value{one}}, "value 1 has no parameter"},
		{dbaas.Statement{SQL: "SELECT :a", Named: named("b", one)}, "no value for parameter :a"},
		{dbaas.Statement{SQL: "SELECT ?", Named: named("a", one)}, "no value for parameter 1"},
		{dbaas.Statement{SQL: "SELECT :a", Named: named("a", one, "b", one)}, `value "b" has no parameter`},
		{dbaas.Statement{SQL: "SELECT :a", Named: named("a", one, "", one)}, "value 2 has no parameter"},
		{dbaas.Statement{SQL: "SELECT :a", Named: named("", one, "a", one)}, "parameter :a has two values"},
	} {
		r, err := run(t, c, tc.in)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			for i, v := range r.Rows[0] {
				if i > 0 {
					got += " "
				}
				if v.Kind == dbaas.KindText {
					got += v.Text
				} else {
					got += fmt.Sprint(v.Int)
				}
			}
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.in.SQL, got, tc.want)
		}
	}
}

// Errors have the code that says what the caller can do, in SQLite's own words.
func TestStmt_Run_ErrorCodes(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{ForeignKeys: true})
	sqlitetest.Exec(t, c, "CREATE TABLE p(id INTEGER PRIMARY KEY)", "CREATE TABLE k(id INTEGER NOT NULL PRIMARY KEY, p REFERENCES p, n TEXT NOT NULL DEFAULT '' CHECK(n<>'bad') UNIQUE)", "INSERT INTO k(id) VALUES(1)")
	for sql, want := range map[string]*dbaas.Error{
		"INSERT INTO k(id,n) VALUES(1,'a')":     dbaas.Errorf(dbaas.CodeConstraint, "UNIQUE constraint failed: k.id"),
		"INSERT INTO k(id) VALUES(2)":           dbaas.Errorf(dbaas.CodeConstraint, "UNIQUE constraint failed: k.n"),
		"INSERT INTO k(id,n) VALUES(2,NULL)":    dbaas.Errorf(dbaas.CodeConstraint, "NOT NULL constraint failed: k.n"),
		"INSERT INTO k(id,n) VALUES(2,'bad')":   dbaas.Errorf(dbaas.CodeConstraint, "CHECK constraint failed: n<>'bad'"),
		"INSERT INTO k(id,p,n) VALUES(2,9,'a')": dbaas.Errorf(dbaas.CodeConstraint, "FOREIGN KEY constraint failed"),
		"INSERT INTO k(id,n) VALUES('x','a')":   dbaas.Errorf(dbaas.CodeInvalid, "datatype mismatch"),
		"SELECT nope FROM k":                    dbaas.Errorf(dbaas.CodeInvalid, "no such column: nope"),
		"SELECT abs(-9223372036854775808)":      dbaas.Errorf(dbaas.CodeInvalid, "integer overflow"),
		"SELECT zeroblob(100000000)":            dbaas.Errorf(dbaas.CodeTooLarge, "string or blob too big"),
		"SELECT hex(zeroblob(1000000))":         dbaas.Errorf(dbaas.CodeTooLarge, "the answer is over the limit of 1048576 bytes"),
	} {
		if _, err := run(t, c, dbaas.Statement{SQL: sql}); !cmp.Equal(error(want), err) {
			t.Errorf("%s: got %v (%s), want %v", sql, err, dbaas.CodeOf(err), want)
		}
	}
}

// A message with a whole value in it is cut between two characters.
func TestStmt_Run_LongMessage(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	want := "bad JSON path: 'x" + strings.Repeat("é", 2039) + "..."
	if _, err := run(t, c, dbaas.Statement{SQL: "SELECT json_extract('{}', 'x'||replace(hex(zeroblob(3000)),'00','é'))"}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Only rows that the statement itself changed are counted, and only its own new id.
func TestStmt_Run_Counts(t *testing.T) {
	c, _ := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
	for _, tc := range []struct {
		sql         string
		last, count int64
	}{
		{"INSERT INTO t(v) VALUES(1),(2),(3)", 3, 3},
		{"SELECT * FROM t", 0, 0},
		{"UPDATE t SET v=0 WHERE id>1", 0, 2},
		{"CREATE TABLE u(id INTEGER PRIMARY KEY)", 0, 0},
		{"DELETE FROM t", 0, 3},
	} {
		c.ForgetLastInsertID()
		r, err := run(t, c, dbaas.Statement{SQL: tc.sql})
		if err != nil || r.LastInsertID != tc.last || r.RowsAffected != tc.count {
			t.Errorf("%s: got id %d, %d rows, %v, want %d, %d", tc.sql, r.LastInsertID, r.RowsAffected, err, tc.last, tc.count)
		}
	}
}

const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n"

// A statement without an end is ended by the deadline of its read or by the
// context, and the connection works on.
func TestConn_Interrupts(t *testing.T) {
	c, path := sqlitetest.Open(t, sqlite.Options{})
	reader := sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true})
	r := dbaas.Read{Format: dbaas.FormatArrays, Deadline: time.Now().Add(20 * time.Millisecond), Statements: statements("SELECT 1", endless)}
	b, err := reader.AppendRead([]byte("kept"), &r, replication.ReadGuard)
	if dbaas.CodeOf(err) != dbaas.CodeTimeout || string(b) != "kept" {
		t.Errorf("deadline: got %q, %v", b, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Within(ctx, func() error { return c.Exec(endless) }); dbaas.CodeOf(err) != dbaas.CodeTimeout {
		t.Errorf("context: got %v", err)
	}
	sqlitetest.Exec(t, c, "SELECT 1")
	if got := read(t, reader, dbaas.Read{Format: dbaas.FormatArrays, Statements: statements("SELECT 2")}); !strings.Contains(got, "[[2]]") {
		t.Errorf("after the deadline: got %s", got)
	}
}

// In the structured form an error fails the read, and more than one statement is one.
func TestConn_AppendRead_ObjectsErrors(t *testing.T) {
	c := fooTable(t)
	for _, list := range [][]dbaas.Statement{statements("SELECT nope FROM foo"), statements("SELECT 1", "SELECT 2"), nil, statements("DELETE FROM foo")} {
		if b, err := c.AppendRead(nil, &dbaas.Read{Format: dbaas.FormatObjects, Statements: list}, replication.ReadGuard); dbaas.CodeOf(err) != dbaas.CodeInvalid || len(b) != 0 {
			t.Errorf("%v: got %q, %v", list, b, err)
		}
	}
}

// An answer over the limit is refused in every format; in those of the SQL form the statement alone fails.
func TestConn_AppendRead_LimitIsKept(t *testing.T) {
	_, path := sqlitetest.Open(t, sqlite.Options{})
	c := sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true, Limits: sqlite.Limits{Answer: 1000}})
	many := strings.Replace(endless, "count(*)", "i", 1)
	for _, f := range []dbaas.Format{dbaas.FormatObjects, dbaas.FormatArrays, dbaas.FormatAssociative} {
		b, err := c.AppendRead(nil, &dbaas.Read{Format: f, Statements: statements(many)}, replication.ReadGuard)
		const text = "the answer is over the limit of 1000 bytes"
		if f == dbaas.FormatObjects {
			if dbaas.CodeOf(err) != dbaas.CodeTooLarge || err.Error() != text || len(b) != 0 {
				t.Errorf("format %d: got %q, %v", f, b, err)
			}
		} else if want := `{"error":"` + text + `"}`; err != nil || string(b) != want {
			t.Errorf("format %d: got %q, %v, want %s", f, b, err, want)
		}
	}
}

// The limit counts failures and the names of columns, too.
func TestConn_AppendRead_LimitWithoutRows(t *testing.T) {
	_, path := sqlitetest.Open(t, sqlite.Options{})
	c := sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true, Limits: sqlite.Limits{Answer: 1000}})
	name := strings.Repeat("n", 960)
	for sql, single := range map[string]string{
		"SELECT " + name:                                `{"error":"no such column: ` + name + `"}`,
		"SELECT 1 AS " + name + " WHERE 0":              `{"columns":["` + name + `"],"types":[""]}`,
		"SELECT 1 AS " + name + "1" + name + " WHERE 0": `{"error":"the answer is over the limit of 1000 bytes"}`,
	} {
		r := dbaas.Read{Format: dbaas.FormatArrays, Statements: statements(sql)}
		if got := read(t, c, r); got != single {
			t.Errorf("got %s, want %s", got, single)
		}
		for len(r.Statements)*len(single) <= 1000 {
			r.Statements = append(r.Statements, r.Statements[0])
		}
		if b, err := c.AppendRead(nil, &r, replication.ReadGuard); dbaas.CodeOf(err) != dbaas.CodeTooLarge || len(b) != 0 {
			t.Errorf("%d times: got %d bytes, %v, want code %q", len(r.Statements), len(b), err, dbaas.CodeTooLarge)
		}
	}
}

// With timings each statement says how long it took, failed ones too.
func TestConn_AppendRead_Timings(t *testing.T) {
	c := fooTable(t)
	got := read(t, c, dbaas.Read{Format: dbaas.FormatArrays, Timings: true, Statements: statements("SELECT 1", "nonsense")})
	if strings.Count(got, `,"time":0.`) != 2 {
		t.Errorf("got %s", got)
	}
}

// A kept statement sees a schema that has changed since, columns included.
func TestConn_AppendRead_SchemaChanges(t *testing.T) {
	w, path := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, w, "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES(1,'a')")
	c := sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true})
	all := dbaas.Read{Format: dbaas.FormatArrays, Statements: statements("SELECT * FROM t")}
	for _, tc := range []struct{ change, want string }{
		{"SELECT 1", `{"columns":["id","v"],"types":["integer","text"],"values":[[1,"a"]]}`},
		{"ALTER TABLE t ADD COLUMN w REAL DEFAULT 0.5", `{"columns":["id","v","w"],"types":["integer","text","real"],"values":[[1,"a",0.5]]}`},
		{"ALTER TABLE t RENAME COLUMN v TO x", `{"columns":["id","x","w"],"types":["integer","text","real"],"values":[[1,"a",0.5]]}`},
		{"ALTER TABLE t DROP COLUMN x", `{"columns":["id","w"],"types":["integer","real"],"values":[[1,0.5]]}`},
		{"DROP TABLE t", `{"error":"no such table: t"}`},
	} {
		sqlitetest.Exec(t, w, tc.change)
		if got := read(t, c, all); got != tc.want {
			t.Errorf("after %s:\ngot  %s\nwant %s", tc.change, got, tc.want)
		}
	}
}

// Many different statements do not grow the cache without bound, and hot ones still work.
func TestConn_Prepare_CacheIsBounded(t *testing.T) {
	c := fooTable(t)
	for i := range 3000 {
		want := fmt.Sprintf(`[{"n":%d}]`, i)
		if got := read(t, c, dbaas.Read{Format: dbaas.FormatObjects, Statements: statements(fmt.Sprintf("SELECT %d AS n", i))}); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	if n := sqlite.Kept(c); n > 512 {
		t.Errorf("%d statements are kept", n)
	}
}

// A snapshot has the next AUTOINCREMENT value, and the file is read by others.
func TestSnapshot_KeepsSequenceAndIsPlainFile(t *testing.T) {
	c, path := sqlitetest.Open(t, sqlite.Options{ForeignKeys: true, Triggers: true})
	if err := replication.CreatePosition(c); err != nil {
		t.Fatal(err)
	}
	sqlitetest.Exec(t, c, `CREATE TABLE "odd ""name"(id INTEGER PRIMARY KEY AUTOINCREMENT, v)`, `INSERT INTO "odd ""name"(v) VALUES(1),(2),(3)`, `DELETE FROM "odd ""name" WHERE id>1`,
		`CREATE TRIGGER g AFTER INSERT ON "odd ""name" BEGIN DELETE FROM "odd ""name"; END`, `CREATE VIEW v AS SELECT * FROM "odd ""name"`)
	if err := replication.SetPosition(c, dbaas.Head{Seq: 5, Epoch: 2}); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy.db")
	if head, want := sqlitetest.Snapshot(t, path, to), (dbaas.Head{Seq: 5, Epoch: 2}); head != want {
		t.Fatalf("got %v, want %v", head, want)
	}
	if files, bad := filepath.Glob(to + "*"); bad != nil || len(files) != 1 {
		t.Errorf("got files %v, %v, want one", files, bad)
	}
	db, err := sql.Open("sqlite", to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var check, names string
	var next int
	err = db.QueryRowContext(t.Context(), `SELECT (SELECT group_concat(integrity_check) FROM pragma_integrity_check), (SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_master ORDER BY name)),
		(SELECT seq FROM sqlite_sequence)`).Scan(&check, &names, &next)
	if want := `g odd "name rs_applied sqlite_sequence v`; err != nil || check != "ok" || names != want || next != 3 {
		t.Errorf("got check %q, objects %q, sequence %d, %v", check, names, next, err)
	}
	if diff := cmp.Diff(hashes(t, c), hashes(t, sqlitetest.OpenAt(t, to, sqlite.Options{}))); diff != "" {
		t.Errorf("content (-file +snapshot):\n%s", diff)
	}
}

// A read-only connection writes nothing, and does not make a file.
func TestOpen_ReadOnly(t *testing.T) {
	c, path := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "CREATE TABLE t(id INTEGER PRIMARY KEY)")
	r := sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true})
	if err := r.Exec("INSERT INTO t VALUES(1)"); dbaas.CodeOf(err) != dbaas.CodeInvalid {
		t.Errorf("insert: got %v", err)
	}
	missing := filepath.Join(t.TempDir(), "missing.db")
	if _, err := sqlite.Open(missing, sqlite.Options{ReadOnly: true}); err == nil {
		t.Error("a missing file was opened")
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a missing file was made")
	}
}
