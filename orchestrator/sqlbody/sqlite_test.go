package sqlbody_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // an independent witness of what the SQL text means.

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/sqlbody"
)

func openDB(t *testing.T, schema string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "witness.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if closeErr := db.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	})
	if _, err = db.ExecContext(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	return db
}

func args(st dbaas.Statement) []any {
	out := make([]any, len(st.Args))
	for i, v := range st.Args {
		switch v.Kind {
		case dbaas.KindNull:
		case dbaas.KindInteger:
			out[i] = v.Int
		case dbaas.KindFloat:
			out[i] = v.Float
		case dbaas.KindText:
			out[i] = v.Text
		case dbaas.KindBlob:
			out[i] = v.Blob
		}
	}
	return out
}

// "c + 1" is arithmetic in a column that is declared as an integer, whatever it
// holds, and a text everywhere else.
func TestParseWrite_Increment_OnlyInIntegerColumns(t *testing.T) {
	for _, c := range []struct{ declared, before, after string }{
		{"INTEGER", "41", "42"},
		{"BIGINT", "41", "42"},
		{"integer", "NULL", "NULL"},
		{"INTEGER", "-1", "0"},
		{"TEXT", "'41'", "'c + 1'"},
		{"TEXT", "NULL", "'c + 1'"},
		{"VARCHAR(9)", "'c'", "'c + 1'"},
		{"REAL", "1.5", "'c + 1'"},
		{"", "41", "'c + 1'"},
	} {
		t.Run(c.declared+c.before, func(t *testing.T) {
			db := openDB(t, `CREATE TABLE t(id INTEGER PRIMARY KEY, c `+c.declared+`); INSERT INTO t VALUES(7, `+c.before+`), (8, `+c.before+`)`)
			st, err := sqlbody.ParseWrite([]byte(`{"query":"update","table":"t","values":{"c":"c + 1"},"condition":{"id":7}}`))
			if err != nil {
				t.Fatal(err)
			}
			if _, err = db.ExecContext(t.Context(), st.SQL, args(st)...); err != nil {
				t.Fatalf("%s: %v", st.SQL, err)
			}
			var got, other string
			row := db.QueryRowContext(t.Context(), `SELECT (SELECT quote(c) FROM t WHERE id=7), (SELECT quote(c) FROM t WHERE id=8)`)
			if err = row.Scan(&got, &other); err != nil {
				t.Fatal(err)
			}
			if got != c.after || other != c.before {
				t.Errorf("column %q: got %s and %s, want %s and %s", c.declared, got, other, c.after, c.before)
			}
		})
	}
}

// A name that the schema does not have is an error of SQLite, never a text that
// happens to compare equal.
func TestParse_UnknownNames_AreErrors(t *testing.T) {
	db := openDB(t, `CREATE TABLE t(id INTEGER PRIMARY KEY, c TEXT); INSERT INTO t VALUES(1, 'nope')`)
	read, write := sqlbody.ParseRead, sqlbody.ParseWrite
	for _, c := range []struct {
		parse func([]byte) (dbaas.Statement, error)
		body  string
		says  string
	}{
		{read, `{"table":"t","columns":["nope"]}`, "no such column"},
		{read, `{"table":"t","columns":["c"],"condition":{"nope":"nope"}}`, "no such column"},
		{read, `{"table":"nope","columns":["c"]}`, "no such table"},
		{read, `{"table":"t","columns":["*"]}`, "no such column"},
		{read, `{"table":"t\" --","columns":["c"]}`, "no such table"},
		{write, `{"query":"delete","table":"t","condition":{"nope":"nope"}}`, "no such column"},
		{write, `{"query":"delete","table":"nope","condition":{"c":"nope"}}`, "no such table"},
		{write, `{"query":"update","table":"t","values":{"nope":1},"condition":{"id":1}}`, "no such column"},
		{write, `{"query":"update","table":"t","values":{"nope":"nope + 1"},"condition":{"id":1}}`, "no such column"},
		{write, `{"query":"update","table":"t","values":{"c":1},"condition":{"nope":"nope"}}`, "no such column"},
		{write, `{"query":"insert","table":"t","values":{"nope":1}}`, "no column named"},
		{write, `{"query":"insert","table":"nope","values":{"c":1}}`, "no such table"},
	} {
		st, err := c.parse([]byte(c.body))
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		if _, err = db.ExecContext(t.Context(), st.SQL, args(st)...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want it to say %q", st.SQL, err, c.says)
		}
	}
}

// A value is never SQL: hostile texts come back as they went in.
func TestParseWrite_HostileValues_SurviveUnchanged(t *testing.T) {
	db := openDB(t, `CREATE TABLE "we""ird"("a b" TEXT PRIMARY KEY)`)
	for _, value := range []string{`'; DROP TABLE x; --`, `\"`, "line\nbreak", `😀`, `?1`, `a b + 1`, strings.Repeat("x", 100_000)} {
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value)
		st, err := sqlbody.ParseWrite([]byte(`{"query":"insert","table":"we\"ird","values":{"a b":"` + quoted + `"}}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = db.ExecContext(t.Context(), st.SQL, args(st)...); err != nil {
			t.Fatalf("%s: %v", st.SQL, err)
		}
		st, err = sqlbody.ParseRead([]byte(`{"table":"we\"ird","columns":["a b"],"condition":{"a b":"` + quoted + `"}}`))
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err = db.QueryRowContext(t.Context(), st.SQL, args(st)...).Scan(&got); err != nil || got != value {
			t.Errorf("value %.40q: got %.40q, %v", value, got, err)
		}
	}
}
