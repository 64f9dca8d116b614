package sqlite_test

import (
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

// The statements of a text run one after another. Each takes as many values by position as it has parameters.
func TestConn_AppendRead_SeveralStatements(t *testing.T) {
	c := fooTable(t)
	named := []dbaas.NamedValue{{Name: "a", Value: dbaas.Integer(1)}, {Value: dbaas.Integer(5)}, {Name: "b", Value: dbaas.Integer(2)}}
	for _, tc := range []struct {
		in   dbaas.Statement
		want string
	}{
		{dbaas.Statement{SQL: "SELECT 1; SELECT 2 AS b;;"}, `{"columns":["b"],"types":["integer"],"values":[[2]]}`},
		{dbaas.Statement{SQL: "SELECT 1; /* a **/ /*/ b */ -- c\nSELECT 3 AS b"}, `{"columns":["b"],"types":["integer"],"values":[[3]]}`},
		{dbaas.Statement{SQL: "SELECT 4 AS b; /* a */ /* b **"}, `{"columns":["b"],"types":["integer"],"values":[[4]]}`},
		{dbaas.Statement{SQL: "SELECT nope; SELECT 2"}, `{"error":"no such column: nope"}`},
		{dbaas.Statement{SQL: "SELECT 1; DELETE FROM foo; SELECT 2"}, `{"error":"attempt to change database via query operation"}`},
		{dbaas.Statement{SQL: "SELECT id FROM foo WHERE abs(-9223372036854775807-id) ; SELECT 2"}, `{"error":"integer overflow"}`},
		{dbaas.Statement{SQL: " -- no\n;"}, `{}`},
		{dbaas.Statement{SQL: "/*", Args: []dbaas.Value{dbaas.Null()}}, `{"error":"near \"/\": syntax error"}`},
		{dbaas.Statement{SQL: ";", Args: []dbaas.Value{dbaas.Null()}}, `{"error":"value 1 has no parameter"}`},
		{dbaas.Statement{SQL: "SELECT ?; SELECT ?, ?", Args: []dbaas.Value{dbaas.Integer(1), dbaas.Integer(2), dbaas.Integer(3)}}, `{"columns":["?","?"],"types":["integer","integer"],"values":[[2,3]]}`},
		{dbaas.Statement{SQL: "SELECT ?; SELECT ?", Args: []dbaas.Value{dbaas.Integer(1)}}, `{"error":"no value for parameter 1"}`},
		{dbaas.Statement{SQL: "SELECT ?; SELECT 2", Args: []dbaas.Value{dbaas.Integer(1), dbaas.Integer(2)}}, `{"error":"value 2 has no parameter"}`},
		{dbaas.Statement{SQL: "SELECT :a, ?; SELECT :b AS b, :a AS a", Named: named}, `{"columns":["b","a"],"types":["integer","integer"],"values":[[2,1]]}`},
		{dbaas.Statement{SQL: "SELECT '" + strings.Repeat("x", 70_000) + "'; SELECT 1 AS a"}, `{"columns":["a"],"types":["integer"],"values":[[1]]}`},
		{dbaas.Statement{SQL: strings.Repeat("SELECT 1;", 70_000) + "SELECT 2 AS a"}, `{"columns":["a"],"types":["integer"],"values":[[2]]}`},
		{dbaas.Statement{SQL: "EXPLAIN QUERY PLAN DELETE FROM foo; SELECT count(*) AS n FROM foo"}, `{"columns":["n"],"types":["integer"],"values":[[2]]}`},
		{dbaas.Statement{SQL: "SELECT 9e999 AS a"}, `{"error":"column a holds an infinity, which JSON cannot carry"}`},
	} {
		if got := read(t, c, dbaas.Read{Format: dbaas.FormatArrays, Statements: []dbaas.Statement{tc.in}}); got != tc.want {
			t.Errorf("%.80s: got %s, want %s", tc.in.SQL, got, tc.want)
		}
	}
}

// Columns have the real names of their tables if the client asks for that.
func TestConn_AppendRead_QualifiedColumns(t *testing.T) {
	c := fooTable(t)
	in := statements("SELECT f.id, name AS n, 1+1 AS two FROM foo f WHERE id=1")
	for format, want := range map[dbaas.Format]string{
		dbaas.FormatArrays:      `{"columns":["foo.id","foo.n","two"],"types":["integer","text","integer"],"values":[[1,"fiona",2]]}`,
		dbaas.FormatAssociative: `{"types":{"foo.id":"integer","foo.n":"text","two":"integer"},"rows":[{"foo.id":1,"foo.n":"fiona","two":2}]}`,
	} {
		if got := read(t, c, dbaas.Read{Format: format, QualifyColumns: true, Statements: in}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A statement that takes longer than the client's limit fails alone. Errors have the form of the route.
func TestConn_AppendRead_StatementTime(t *testing.T) {
	c := fooTable(t)
	in := statements("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n", "SELECT 1 AS a")
	for _, tc := range []struct {
		query  bool
		format dbaas.Format
		want   string
	}{
		{true, dbaas.FormatArrays, `{"error":"query timeout"},{"columns":["a"],"types":["integer"],"values":[[1]]}`},
		{false, dbaas.FormatArrays, `{"error":"execute timeout"},{"columns":["a"],"types":["integer"],"values":[[1]]}`},
		{true, dbaas.FormatAssociative, `{"rows":[],"error":"query timeout"},{"types":{"a":"integer"},"rows":[{"a":1}]}`},
		{false, dbaas.FormatAssociative, `{"error":"execute timeout"},{"types":{"a":"integer"},"rows":[{"a":1}]}`},
	} {
		got := read(t, c, dbaas.Read{Format: tc.format, AsQuery: tc.query, StatementTime: 300 * time.Millisecond, Deadline: time.Now().Add(time.Minute), Statements: in})
		if got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

// The limit of a statement's length is for each statement of a text.
func TestConn_AppendRead_LengthOfAStatement(t *testing.T) {
	_, path := sqlitetest.Open(t, sqlite.Options{})
	c := sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true, Limits: sqlite.Limits{Length: 100_000}})
	long := func(n int) string { return "SELECT '" + strings.Repeat(";", n-len("SELECT '';")) + "';" }
	const one = `{"columns":["a"],"types":["integer"],"values":[[1]]}`
	for name, tc := range map[string]struct{ sql, want string }{
		"many":            {strings.Repeat(long(1000), 200) + "SELECT 1 AS a", one},
		"over the window": {strings.Repeat(long(70_000), 3) + "SELECT 1 AS a", one},
		"longest":         {"SELECT 2;" + long(100_000) + "SELECT 1 AS a", one},
		"too long":        {"SELECT 2;" + long(100_001) + "SELECT 1 AS a", `{"error":"statement too long"}`},
		"comment":         {"SELECT 1 AS a /*" + strings.Repeat("x", 100_000) + "*/", `{"error":"statement too long"}`},
		"comment after":   {"SELECT 1 AS a; /*" + strings.Repeat("x", 100_000) + "*/", one},
		"wrong":           {"SELEC 1;" + strings.Repeat(long(1000), 200), `{"error":"near \"SELEC\": syntax error"}`},
	} {
		if got := read(t, c, dbaas.Read{Format: dbaas.FormatArrays, Statements: statements(tc.sql)}); got != tc.want {
			t.Errorf("%s: got %.300s, want %s", name, got, tc.want)
		}
	}
}
