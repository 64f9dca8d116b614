package sqlbody_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/sqlbody"
)

// Reads of the structured form become one SELECT with qualified names and bound values.
func TestParseRead_LegalBodies_MakeSelects(t *testing.T) {
	cases := []struct {
		name, body, sql string
		args            []dbaas.Value
	}{
		{
			"Point", `{"table":"users","columns":["username"],"condition":{"username":"ann"}}`,
			`SELECT "users"."username" AS "username" FROM "users" WHERE "users"."username" = ?1`,
			[]dbaas.Value{dbaas.Text("ann")},
		},
		{"NoCondition", `{"table":"t","columns":["b","a"]}`, `SELECT "t"."b" AS "b", "t"."a" AS "a" FROM "t"`, nil},
		{"EmptyCondition", `{"table":"t","columns":["a"],"condition":{}}`, `SELECT "t"."a" AS "a" FROM "t"`, nil},
		{
			"WhereIsSynonym", `{"table":"t","columns":["a"],"where":{"a":1}}`,
			`SELECT "t"."a" AS "a" FROM "t" WHERE "t"."a" = ?1`,
			[]dbaas.Value{dbaas.Integer(1)},
		},
		{
			"Null", `{"table":"t","columns":["a"],"condition":{"b":null,"a":2}}`,
			`SELECT "t"."a" AS "a" FROM "t" WHERE "t"."a" = ?1 AND "t"."b" IS NULL`,
			[]dbaas.Value{dbaas.Integer(2)},
		},
		{"Count", `{"table":"t","columns":["count(*)"]}`, `SELECT count(*) AS "count(*)" FROM "t"`, nil},
		{
			"HostileNames", `{"table":"a\"; DROP TABLE users; --","columns":["x\"y"]}`,
			`SELECT "a""; DROP TABLE users; --"."x""y" AS "x""y" FROM "a""; DROP TABLE users; --"`, nil,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := sqlbody.ParseRead([]byte(c.body))
			if err != nil {
				t.Fatalf("ParseRead(%s): %v", c.body, err)
			}
			if diff := cmp.Diff(dbaas.Statement{SQL: c.sql, Args: c.args}, got); diff != "" {
				t.Errorf("ParseRead(%s) (-want +got):\n%s", c.body, diff)
			}
		})
	}
}

// Writes of the structured form become one INSERT, UPDATE or DELETE, with the same text in whatever order the fields
// come.
func TestParseWrite_LegalBodies_MakeWrites(t *testing.T) {
	one, seven := dbaas.Integer(1), dbaas.Integer(7)
	cases := []struct {
		name, body, sql string
		args            []dbaas.Value
	}{
		{
			"Insert", `{"query":"insert","table":"users","values":{"username":"ann","password":"x"}}`,
			`INSERT INTO "users" ("password", "username") VALUES (?1, ?2)`,
			[]dbaas.Value{dbaas.Text("x"), dbaas.Text("ann")},
		},
		{
			"InsertOtherOrder", `{"values":{"password":"x","username":"ann"},"table":"users","query":"insert"}`,
			`INSERT INTO "users" ("password", "username") VALUES (?1, ?2)`,
			[]dbaas.Value{dbaas.Text("x"), dbaas.Text("ann")},
		},
		{
			"Update", `{"query":"update","table":"t","values":{"c":1},"condition":{"id":7}}`,
			`UPDATE "t" SET "c" = ?1 WHERE "t"."id" = ?2`,
			[]dbaas.Value{one, seven},
		},
		{
			"Delete", `{"query":"delete","table":"users","condition":{"username":"ann"}}`,
			`DELETE FROM "users" WHERE "users"."username" = ?1`,
			[]dbaas.Value{dbaas.Text("ann")},
		},
		{
			"Increment", `{"query":"update","table":"t","values":{"c":"c + 1"},"condition":{"id":7}}`,
			`UPDATE "t" SET "c" = CASE WHEN EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2 COLLATE NOCASE AND type LIKE '%INT%') ` +
				`THEN "t"."c" + ?3 ELSE ?4 END WHERE "t"."id" = ?5`,
			[]dbaas.Value{dbaas.Text("t"), dbaas.Text("c"), one, dbaas.Text("c + 1"), seven},
		},
		{
			"OtherColumnIsText", `{"query":"update","table":"t","values":{"c":"d + 1"},"condition":{"id":7}}`,
			`UPDATE "t" SET "c" = ?1 WHERE "t"."id" = ?2`,
			[]dbaas.Value{dbaas.Text("d + 1"), seven},
		},
		{
			"IncrementInInsertIsText", `{"query":"insert","table":"t","values":{"c":"c + 1"}}`,
			`INSERT INTO "t" ("c") VALUES (?1)`,
			[]dbaas.Value{dbaas.Text("c + 1")},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := sqlbody.ParseWrite([]byte(c.body))
			if err != nil {
				t.Fatalf("ParseWrite(%s): %v", c.body, err)
			}
			if diff := cmp.Diff(dbaas.Statement{SQL: c.sql, Args: c.args}, got); diff != "" {
				t.Errorf("ParseWrite(%s) (-want +got):\n%s", c.body, diff)
			}
		})
	}
}

// Every value keeps its kind: integers are exact to 64 bits, booleans are 0 and
// 1, text survives unchanged.
func TestParseWrite_Values_KeepTheirKind(t *testing.T) {
	cases := map[string]dbaas.Value{
		`9223372036854775807`:  dbaas.Integer(math.MaxInt64),
		`-9223372036854775808`: dbaas.Integer(math.MinInt64),
		`9223372036854775808`:  dbaas.Float(9223372036854775808),
		`0`:                    dbaas.Integer(0),
		`22.0`:                 dbaas.Float(22),
		`1e3`:                  dbaas.Float(1000),
		`-1.5E-2`:              dbaas.Float(-0.015),
		`true`:                 dbaas.Integer(1),
		`false`:                dbaas.Integer(0),
		`null`:                 dbaas.Null(),
		`""`:                   dbaas.Text(""),
		`"a\"\\\/\b\f\n\r\tü"`: dbaas.Text("a\"\\/\b\f\n\r\tü"),
		`"\u00e9\ud83d\ude00"`: dbaas.Text("é😀"),
		`"'; DROP TABLE t;--"`: dbaas.Text("'; DROP TABLE t;--"),
		`"x\u0000y"`:           dbaas.Text("x\x00y"),
	}
	for literal, want := range cases {
		got, err := sqlbody.ParseWrite([]byte(`{"query":"insert","table":"t","values":{"c":` + literal + `}}`))
		if err != nil {
			t.Errorf("value %s: %v", literal, err)
			continue
		}
		if diff := cmp.Diff([]dbaas.Value{want}, got.Args); diff != "" {
			t.Errorf("value %s (-want +got):\n%s", literal, diff)
		}
	}
}

// A body that breaks a rule of the structured form is invalid, and says why.
func TestParse_BrokenBodies_AreInvalid(t *testing.T) {
	read := func(b []byte) error { _, err := sqlbody.ParseRead(b); return err }
	write := func(b []byte) error { _, err := sqlbody.ParseWrite(b); return err }
	cases := []struct {
		parse      func([]byte) error
		body, says string
	}{
		{read, ``, "object"},
		{read, `null`, "object"},
		{read, `[]`, "object"},
		{read, `"x"`, "object"},
		{read, `{`, "malformed"},
		{read, `{"table":"t","columns":["a"]}x`, "after"},
		{read, `{"table":"t","columns":["a"]}{}`, "after"},
		{read, `{"table":"t","columns":["a"],}`, "malformed"},
		{read, `{"columns":["a"]}`, "table"},
		{read, `{"table":"t"}`, "columns"},
		{read, `{"table":"t","columns":[]}`, "columns"},
		{read, `{"table":"","columns":["a"]}`, "empty"},
		{read, `{"table":"t","columns":[""]}`, "empty"},
		{read, `{"table":1,"columns":["a"]}`, "string"},
		{read, `{"table":"t","columns":"a"}`, "array"},
		{read, `{"table":"t","columns":[1]}`, "string"},
		{read, `{"table":"t","columns":["a","a"]}`, "twice"},
		{read, `{"table":"t","columns":["7",` + strings.Repeat(`"x",`, 20) + `"8"]}`, "twice"},
		{read, `{"table":"t","columns":["a",]}`, "string"},
		{read, `{"table":"t","columns":["a" "b"]}`, "malformed"},
		{read, `{"table":"t" "columns":["a"]}`, "malformed"},
		{read, `{"table":nul}`, "malformed"},
		{read, `{"table":"t","columns":["a"],"extra":1}`, "unknown field"},
		{read, `{"Table":"t","columns":["a"]}`, "unknown field"},
		{read, `{"table":"t","table":"t","columns":["a"]}`, "duplicate"},
		{read, `{"table":"t","columns":["a"],"condition":{"a":1,"a":1}}`, "duplicate"},
		{read, `{"table":"t","columns":["a"],"condition":{"a":1},"where":{"a":1}}`, "one of them"},
		{read, `{"table":"t","columns":["a"],"where":"a=1"}`, "/db/query"},
		{read, `{"table":"t","columns":["a"],"condition":null}`, "object"},
		{read, `{"table":"t","columns":["a"],"condition":{"a":[1]}}`, "not an object or array"},
		{read, `{"table":"t","columns":["a"],"condition":{"a":{}}}`, "not an object or array"},
		{read, `{"table":"t","columns":["a"],"condition":{"a":1e999}}`, "range"},
		{read, `{"table":"t","columns":["a"],"condition":{"a":01}}`, "malformed"},
		{read, `{"table":"t","columns":["a"],"condition":{"a":+1}}`, "malformed"},
		{read, `{"table":"t","columns":["count(*)","a"]}`, "alone"},
		{read, `{"table":"t\u0000","columns":["a"]}`, "zero byte"},
		{read, `{"table":"RS_log","columns":["a"]}`, "no such table"},
		{read, `{"table":"sqlite_master","columns":["sql"]}`, "no such table"},
		{read, `{"table":"pragma_table_info","columns":["a"]}`, "no such table"},
		{read, "{\"table\":\"\xff\",\"columns\":[\"a\"]}", "UTF-8"},
		{read, `{"table":"\ud800","columns":["a"]}`, "surrogate"},
		{read, "{\"table\":\"a\nb\",\"columns\":[\"a\"]}", "malformed"},
		{read, strings.Repeat(`[`, 100_000), "object"},
		{read, `{"table":"t","columns":[[[[[[[[[["a"]]]]]]]]]]}`, "string"},
		{write, `{"table":"t","values":{"a":1}}`, "condition"},
		{write, `{"query":"INSERT","table":"t","values":{"a":1},"condition":{"a":1}}`, "query is"},
		{write, `{"query":"insert","values":{"a":1}}`, "table"},
		{write, `{"query":"insert","table":"t"}`, "values"},
		{write, `{"query":"insert","table":"t","values":{}}`, "values"},
		{write, `{"query":"insert","table":"t","values":[1]}`, "object"},
		{write, `{"query":"insert","table":"t","values":{"a":1},"condition":{}}`, "no condition"},
		{write, `{"query":"update","table":"t","values":{"a":1}}`, "condition"},
		{write, `{"query":"update","table":"t","values":{"a":1},"condition":{}}`, "condition"},
		{write, `{"query":"delete","table":"t"}`, "condition"},
		{write, `{"query":"delete","table":"t","condition":{}}`, "condition"},
		{write, `{"query":"delete","table":"t","condition":{"a":1},"values":{"a":1}}`, "no values"},
		{write, `{"insert":"x","column":"y","table":"t"}`, "/db/execute"},
		{write, `{"delete":"x","table":"t"}`, "/db/execute"},
		{write, `{"query":"delete","table":"t","where":"1=1"}`, "/db/execute"},
		{write, `{"query":"insert","table":"t","values":{"":1}}`, "empty"},
		{write, `{"query":"insert","table":"t","values":{"a":1},"columns":["a"]}`, "unknown field"},
	}
	for _, c := range cases {
		err := c.parse([]byte(c.body))
		if dbaas.CodeOf(err) != dbaas.CodeInvalid {
			t.Errorf("body %.80s: got %v, want CodeInvalid", c.body, err)
		} else if !strings.Contains(err.Error(), c.says) {
			t.Errorf("body %.80s: got message %q, want it to say %q", c.body, err, c.says)
		}
	}
}

// Only the exact pattern of older clients is arithmetic; everything near it is text.
func TestParseWrite_NearIncrements_AreText(t *testing.T) {
	for value, want := range map[string]bool{
		"c + 1": true, "c+1": true, "c  +  12": true, "c + -3": true, "c +1 ": true,
		"c ++1": false, "c + +1": false, "c - 1": false, "c + 1.5": false, "c + ": false, "c": false, "cc + 1": false,
		"C + 1": false, "c + 1; x": false, "c + 99999999999999999999": false, " c + 1": false, "c + 0x1": false, "c + 1_0": false,
	} {
		got, err := sqlbody.ParseWrite([]byte(`{"query":"update","table":"t","values":{"c":"` + value + `"},"condition":{"id":1}}`))
		if err != nil {
			t.Fatalf("value %q: %v", value, err)
		}
		if strings.Contains(got.SQL, "CASE") != want {
			t.Errorf("value %q: got %s, want arithmetic %v", value, got.SQL, want)
		}
	}
}
