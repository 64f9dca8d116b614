package sqlbody_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/sqlbody"
)

// Whatever the body, the parsers do not panic, accept only valid JSON in valid
// UTF-8, fail only with CodeInvalid, and are deterministic.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{"table":"users","columns":["username"],"condition":{"username":"ann"}}`,
		`{"query":"update","table":"t","values":{"c":"c + 1"},"condition":{"id":7.5e1}}`,
		`["SELECT 1",["SELECT ?",1,"x",[1,2],null,true],["SELECT :a",{"a":"\ud83d\ude00"}]]`,
		`{"table":"\u0000","columns":[""],"where":"x"}`, `[[[[[[[[[[`, `{"a":1,"a":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, readErr := sqlbody.ParseRead(body)
		_, writeErr := sqlbody.ParseWrite(body)
		sql, sqlErr := sqlbody.ParseSQL(body)
		for _, err := range []error{readErr, writeErr, sqlErr} {
			if err != nil && dbaas.CodeOf(err) != dbaas.CodeInvalid {
				t.Fatalf("got %v, want CodeInvalid", err)
			}
			if err == nil && (!json.Valid(body) || !utf8.Valid(body)) {
				t.Fatalf("accepted a body that is not JSON: %q", body)
			}
		}
		if sqlErr == nil {
			again, err := sqlbody.ParseSQL(bytes.Clone(body))
			if err != nil || len(again) != len(sql) {
				t.Fatalf("second parse: %v", err)
			}
		}
	})
}

// Whatever the names and values, the SQL text holds the names only inside quotes
// and the values not at all.
func FuzzNames(f *testing.F) {
	f.Add("users", "username", "ann")
	f.Add(`a"b`, `"; DROP TABLE x; --`, `c + 1`)
	f.Fuzz(func(t *testing.T, table, column, value string) {
		if !utf8.ValidString(table) || !utf8.ValidString(column) || !utf8.ValidString(value) {
			return
		}
		body, err := json.Marshal(map[string]any{
			"query": "update", "table": table, "values": map[string]any{column: value}, "condition": map[string]any{column: value},
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := sqlbody.ParseWrite(body)
		if err != nil {
			return
		}
		quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
		own := quote(table) + "." + quote(column)
		plain := "UPDATE " + quote(table) + " SET " + quote(column) + " = ?1 WHERE " + own + " = ?2"
		counted := "UPDATE " + quote(table) + " SET " + quote(column) + " = CASE WHEN EXISTS (SELECT 1 FROM pragma_table_info(?1) " +
			"WHERE name = ?2 COLLATE NOCASE AND type LIKE '%INT%') THEN " + own + " + ?3 ELSE ?4 END WHERE " + own + " = ?5"
		if got.SQL != plain && got.SQL != counted {
			t.Fatalf("got %s", got.SQL)
		}
		if last := got.Args[len(got.Args)-1]; last.Text != value {
			t.Fatalf("got value %q, want %q", last.Text, value)
		}
	})
}
