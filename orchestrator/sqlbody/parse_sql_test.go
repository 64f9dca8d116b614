package sqlbody_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/sqlbody"
)

// Every documented shape of the SQL form is read, mixed shapes too.
func TestParseSQL_DocumentedShapes_AreRead(t *testing.T) {
	body := `["SELECT 1",
		["SELECT 2"],
		["INSERT INTO foo(name, age) VALUES(?, ?)", "fiona", 20],
		["SELECT * FROM foo WHERE name=:name AND x=$x", {"name": "fiona", "$x": 1.5}],
		["INSERT INTO b VALUES(?, ?, ?, ?)", null, true, [0, 255], 1676555296046783000],
		"", ["", 1], " ",
		["SELECT ?, :a, ?", 1, {"a": 2}, 3],
		["SELECT :a", {"a": " x'68' "}],
		["VALUES(?, ?, ?, ?, ?)", "X'6869'", "x''", "x'6'", "x'6g'", "x'68"]]`
	want := []dbaas.Statement{
		{SQL: "SELECT 1"},
		{SQL: "SELECT 2"},
		{SQL: "INSERT INTO foo(name, age) VALUES(?, ?)", Args: []dbaas.Value{dbaas.Text("fiona"), dbaas.Integer(20)}},
		{SQL: "SELECT * FROM foo WHERE name=:name AND x=$x", Named: []dbaas.NamedValue{
			{Name: "name", Value: dbaas.Text("fiona")}, {Name: "x", Value: dbaas.Float(1.5)},
		}},
		{SQL: "INSERT INTO b VALUES(?, ?, ?, ?)", Args: []dbaas.Value{
			dbaas.Null(), dbaas.Integer(1), dbaas.Blob([]byte{0, 255}), dbaas.Integer(1676555296046783000),
		}},
		{SQL: " "},
		{SQL: "SELECT ?, :a, ?", Named: []dbaas.NamedValue{{Value: dbaas.Integer(1)}, {Name: "a", Value: dbaas.Integer(2)}, {Value: dbaas.Integer(3)}}},
		{SQL: "SELECT :a", Named: []dbaas.NamedValue{{Name: "a", Value: dbaas.Blob([]byte("h"))}}},
		{SQL: "VALUES(?, ?, ?, ?, ?)", Args: []dbaas.Value{
			dbaas.Blob([]byte("hi")), dbaas.Blob([]byte{}), dbaas.Text("x'6'"), dbaas.Text("x'6g'"), dbaas.Text("x'68"),
		}},
	}
	got, err := sqlbody.ParseSQL([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statements (-want +got):\n%s", diff)
	}
}

// With PlainText a string stays a text.
func TestParseSQL_PlainText(t *testing.T) {
	got, err := sqlbody.Limits{PlainText: true}.ParseSQL([]byte(`[["SELECT ?", "x'68'"], ["SELECT :a", {"a": " X'68' "}]]`))
	want := []dbaas.Statement{
		{SQL: "SELECT ?", Args: []dbaas.Value{dbaas.Text("x'68'")}}, {SQL: "SELECT :a", Named: []dbaas.NamedValue{{Name: "a", Value: dbaas.Text(" X'68' ")}}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, statements (-want +got):\n%s", err, diff)
	}
}

// What is no statement, or could be read in two ways, is invalid.
func TestParseSQL_BrokenBodies_AreInvalid(t *testing.T) {
	for body, says := range map[string]string{
		``: "array", `{}`: "array", `"SELECT 1"`: "array", `[]`: "no statements", `[[]]`: "no statements",
		`[1]`: "string", `[[1]]`: "SQL text", `[null]`: "string", `[{}]`: "string", `["SELECT 1"`: "malformed", `["SELECT 1"]]`: "after",
		`["SELECT 1",]`: "string", `["",{}]`: "string", `["", "\u0000"]`: "zero byte",
		`[["SELECT :a", {"a":1,"a":2}]]`: "duplicate", `[["SELECT :a", {"a":1}, {"a":2}]]`: "twice", `[["SELECT :a", {":a":1,"$a":2}]]`: "twice",
		`[["SELECT :a", {"":1}]]`: "empty", `[["SELECT ?", [256]]]`: "blob", `[["SELECT ?", [-1]]]`: "blob", `[["SELECT ?", ["a"]]]`: "blob",
		`[["SELECT ?", [1.5]]]`: "blob", `[["SELECT :a", {"a":{}}]]`: "not an object", `["SELECT 1\u0000"]`: "zero byte",
		`["SELECT 1" "SELECT 2"]`: "malformed", `["SELECT 1"}`: "malformed", `[["SELECT ?", 1,]]`: "malformed", `[["SELECT ?", [1 2]]]`: "malformed",
		`[["SELECT ?", [-0]]]`: "blob", `[["SELECT ?", [1,]]]`: "blob", `[["SELECT :a", {"a":1,}]]`: "malformed", `[["SELECT ?", nul]]`: "malformed",
		`[["SELECT :a", {` + named(30) + `}, {"$7":1}]]`: "twice", strings.Repeat(`[`, 1_000_000): "SQL text",
	} {
		_, err := sqlbody.ParseSQL([]byte(body))
		if dbaas.CodeOf(err) != dbaas.CodeInvalid {
			t.Errorf("body %.60s: got %v, want CodeInvalid", body, err)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("body %.60s: got message %q, want it to say %q", body, err, says)
		}
	}
}

// A plain text body is one statement; JSON never is.
func TestParseText_JSON_IsNoText(t *testing.T) {
	got, ok := sqlbody.ParseText([]byte(" SELECT 1 \n"))
	if !ok || got.SQL != "SELECT 1" {
		t.Errorf("got %q, %v, want the statement", got.SQL, ok)
	}
	for _, body := range []string{``, ` `, `["SELECT 1"]`, ` {"a":1}`, `"SELECT 1"`} {
		if _, ok = sqlbody.ParseText([]byte(body)); ok {
			t.Errorf("body %q was taken for plain text", body)
		}
	}
}

// Only a statement that is certainly a read is taken for a read.
func TestOnlyReads_Doubt_IsAWrite(t *testing.T) {
	for sql, want := range map[string]bool{
		"SELECT 1": true, " \n select*from t": true, "SELECT(1)": true, "SELECT\n1": true, "VALUES(1)": true, "values (1),(2)": true,
		"-- c\nSELECT 1": true, "/* a */ /* b */select 1": true, "--c": true, "/* SELECT 1": true, "SELECTED": false, "": true, ";": true, " ;;": true, "select_1": false,
		"WITH x AS (SELECT 1) SELECT * FROM x": true, "WITH RECURSIVE x(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM x) SELECT i FROM x": true,
		"WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x": false, "with x as (select 1)insert into t select 1": false,
		"WITH x AS (SELECT 1)/**/UPDATE t SET a=1": false, "WITH x AS (SELECT 1) DELETE FROM t": false,
		"WITH x AS (SELECT 1) REPLACE INTO t SELECT 1": false, "WITH x AS (SELECT 1) REPLACE -- c\nINTO t SELECT 1": false,
		"WITH x AS (SELECT replace(a,'b','c') FROM t) SELECT * FROM x":                                                  true,
		"WITH x AS (SELECT 'it''s' || ' DELETE ', \"UPDATE\", [INSERT], `DELETE` -- UPDATE\n) SELECT updated_at FROM x": true,
		"WITH x AS (SELECT '''') DELETE FROM t WHERE a='":                                                               false, "WITH x AS (SELECT 1) SELECT 1 /* ; */; DELETE FROM t": false,
		"EXPLAIN SELECT 1": true, "EXPLAIN QUERY PLAN SELECT 1": true, "EXPLAIN QUERY PLAN WITH x AS (SELECT 1) SELECT * FROM x": true,
		"EXPLAIN DELETE FROM t": true, "EXPLAIN QUERY PLAN DELETE FROM t": true, "EXPLAIN DELETE FROM t; DELETE FROM t": false,
		"SELECT 1; SELECT ';'; -- DELETE\n": true, "SELECT 1; DELETE FROM t": false, "SELECT ';';DELETE FROM t": false, "VALUES(1);PRAGMA x": false,
		"WITH x AS (SELECT 1) SELECT 1; SELECT 2": true, "WITH x AS (SELECT 1) SELECT 1; DELETE FROM t": false,
		"INSERT INTO t VALUES(1)": false, "PRAGMA table_info(t)": false, "(SELECT 1)": false, ";SELECT 1": true, ";DELETE FROM t": false, "'SELECT'": false, "CREATE TABLE t(a)": false,
	} {
		if got := sqlbody.OnlyReads([]dbaas.Statement{{SQL: "SELECT 1"}, {SQL: sql}}); got != want {
			t.Errorf("%q: got %v, want %v", sql, got, want)
		}
	}
}
