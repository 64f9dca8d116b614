package sqlite_test

import (
	"fmt"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlitetest"
)

func fooTable(t *testing.T) *sqlite.Conn {
	t.Helper()
	c, path := sqlitetest.Open(t, sqlite.Options{})
	sqlitetest.Exec(t, c, "CREATE TABLE foo (id INTEGER NOT NULL PRIMARY KEY, name TEXT, data BLOB, size REAL)",
		`INSERT INTO foo VALUES(1,'fiona',x'00ff10',1.5),(2,NULL,NULL,1e300)`)
	return sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true})
}

// Each format renders rows as rqlite documents it.
func TestConn_AppendRead_Formats(t *testing.T) {
	c := fooTable(t)
	all := "SELECT id, name FROM foo ORDER BY id"
	for _, tc := range []struct {
		name string
		read dbaas.Read
		want string
	}{
		{"Objects", dbaas.Read{Format: dbaas.FormatObjects, Statements: statements(all)}, `[{"id":1,"name":"fiona"},{"id":2,"name":null}]`},
		{"ObjectsNone", dbaas.Read{Format: dbaas.FormatObjects, Statements: statements(all + " LIMIT 0")}, `[]`},
		{"Arrays", dbaas.Read{Format: dbaas.FormatArrays, Statements: statements(all)}, `{"columns":["id","name"],"types":["integer","text"],"values":[[1,"fiona"],[2,null]]}`},
		{"ArraysNone", dbaas.Read{Format: dbaas.FormatArrays, Statements: statements(all + " LIMIT 0")}, `{"columns":["id","name"],"types":["integer","text"]}`},
		{"Associative", dbaas.Read{Format: dbaas.FormatAssociative, Statements: statements(all)}, `{"types":{"id":"integer","name":"text"},"rows":[{"id":1,"name":"fiona"},{"id":2,"name":null}]}`},
		{"AssociativeNone", dbaas.Read{Format: dbaas.FormatAssociative, Statements: statements(all + " LIMIT 0")}, `{"types":{"id":"integer","name":"text"},"rows":[]}`},
		{
			"Several",
			dbaas.Read{Format: dbaas.FormatArrays, Statements: statements("SELECT count(*) FROM foo", "SELECT nope FROM foo", "SELECT 1 FROM foo WHERE 0")},
			`{"columns":["count(*)"],"types":["integer"],"values":[[2]]},{"error":"no such column: nope"},{"columns":["1"],"types":[""]}`,
		},
		{"Blob", dbaas.Read{Format: dbaas.FormatArrays, Statements: statements("SELECT data, size FROM foo")}, `{"columns":["data","size"],"types":["blob","real"],"values":[["AP8Q",1.5],[null,1e+300]]}`},
		{"BlobArray", dbaas.Read{Format: dbaas.FormatArrays, BlobArray: true, Statements: statements("SELECT data FROM foo WHERE id=1")}, `{"columns":["data"],"types":["blob"],"values":[[[0,255,16]]]}`},
		{"BigInteger", dbaas.Read{Format: dbaas.FormatObjects, Statements: statements("SELECT 9223372036854775807 AS a, -9007199254740993 AS b")}, `[{"a":9223372036854775807,"b":-9007199254740993}]`},
		{"SameNames", dbaas.Read{Format: dbaas.FormatArrays, Statements: statements("SELECT 1 AS a, 'x' AS a")}, `{"columns":["a","a"],"types":["integer","text"],"values":[[1,"x"]]}`},
		{"SameNamesObjects", dbaas.Read{Format: dbaas.FormatObjects, Statements: statements("SELECT 1 AS a, 'x' AS a")}, `[{"a":"x"}]`},
		{"Escapes", dbaas.Read{Format: dbaas.FormatObjects, Statements: statements(`SELECT 'a"\' || char(10,0,31,955,128512) || CAST(x'ff41' AS TEXT) AS "<q>"""`)}, "[{\"<q>\\\"\":\"a\\\"\\\\\\n\\u0000\\u001fλ😀\uFFFDA\"}]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := read(t, c, tc.read); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// A result that passes the limit by a few bytes is an error in its place, and the results before it stay.
func TestConn_AppendRead_LimitToTheByte(t *testing.T) {
	_, path := sqlitetest.Open(t, sqlite.Options{})
	for _, sql := range []string{"SELECT 1.5 AS " + strings.Repeat("n", 100), "SELECT '" + strings.Repeat("x", 100) + "' AS a", "SELECT 1 AS " + strings.Repeat("n", 100) + " WHERE 0"} {
		for _, f := range []dbaas.Format{dbaas.FormatArrays, dbaas.FormatAssociative} {
			r := dbaas.Read{Format: f, Statements: statements("SELECT 7 AS first", sql)}
			full := read(t, sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true}), r)
			first := full[:strings.Index(full, "},{")+1]
			for limit := len(full) - 40; limit <= len(full); limit++ {
				c := sqlitetest.OpenAt(t, path, sqlite.Options{ReadOnly: true, Limits: sqlite.Limits{Answer: limit}})
				want := full
				if limit < len(full) {
					want = fmt.Sprintf(`%s,{"error":"the answer is over the limit of %d bytes"}`, first, limit)
				}
				if b, err := c.AppendRead([]byte("x"), &r, replication.ReadGuard); err != nil || string(b) != "x"+want {
					t.Errorf("%s with %d bytes: got %s, %v, want %s", sql, limit, b, err, want)
				}
			}
		}
	}
}
