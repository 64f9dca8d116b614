package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// formCase is a body of one statement, and its result on each route. "" means the result of execute.
type formCase struct {
	body                    string // FOO is the table: id INTEGER PRIMARY KEY, v; it has the row 1, 'a'
	execute, query, request string
}

const (
	readOnly = `{"error":"attempt to change database via query operation"}`
	noBegin  = `{"error":"BEGIN, COMMIT, ROLLBACK and SAVEPOINT are not supported, send the statements as one transaction"}`
)

func failed(text string) string { return `{"error":"` + text + `"}` }

// statementCases are statements, texts and parameters.
func statementCases() []formCase {
	one := func(name, kind, value string) string {
		return `{"columns":["` + name + `"],"types":["` + kind + `"],"values":[[` + value + `]]}`
	}
	return []formCase{
		{body: `"SELECT 1 AS a; SELECT 2 AS b;"`, execute: one("b", "integer", "2")},
		{body: `["SELECT ? AS a; SELECT ? AS b", 1, 2]`, execute: one("b", "integer", "2")},
		{body: `["SELECT ? AS a; SELECT ? AS b", 1]`, execute: failed("no value for parameter 1")},
		{body: `["SELECT ? AS a", 1, 2]`, execute: failed("value 2 has no parameter")},
		{body: `["SELECT :a AS a", {"b": 2}]`, execute: failed("no value for parameter :a")},
		{body: `["SELECT :a AS a", {"a": 1, "b": 2}]`, execute: failed(`value \"b\" has no parameter`)},
		{body: `["SELECT ? + :b + @c AS a", 1, {"b": 2, "@c": 3}]`, execute: one("a", "integer", "6")},
		{body: `"INSERT INTO FOO VALUES(2,'b'); INSERT INTO FOO VALUES(1,'c')"`, execute: failed("UNIQUE constraint failed: FOO.id"), query: readOnly},
		{body: `"SELECT count(*) AS n FROM FOO"`, execute: one("n", "integer", "1")},
		{body: `" -- nothing\n;/* at all */"`, execute: `{}`},
		{body: `["SELECT typeof(?) AS a", " x'68' "]`, execute: one("a", "text", `"blob"`)},
		{body: `["SELECT typeof(?) AS a", "x'6'"]`, execute: one("a", "text", `"text"`)},
		{body: `"EXPLAIN QUERY PLAN DELETE FROM FOO"`, execute: `*"detail"`},
		{body: `"EXPLAIN INSERT INTO FOO VALUES(9,'z')"`, execute: `*"opcode"`},
		{body: `"SELECT 9e999 AS a"`, execute: failed("column a holds an infinity, which JSON cannot carry")},
		{body: `"INSERT INTO FOO VALUES(3, 9e999) RETURNING v"`, execute: failed("column v holds an infinity, which JSON cannot carry"), query: readOnly},
		{body: `"SELECT id FROM FOO WHERE id > 1"`, execute: `{"columns":["id"],"types":["integer"]}`},
	}
}

// refusedCases are SQL that no route runs, and PRAGMAs.
func refusedCases() []formCase {
	var cases []formCase
	for _, sql := range []string{"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT a", "RELEASE a", "EXPLAIN BEGIN"} {
		cases = append(cases, formCase{body: `"` + sql + `"`, execute: noBegin})
	}
	for sql, text := range map[string]string{
		"ATTACH 'x' AS y": "ATTACH and DETACH are not supported", "DETACH y": "ATTACH and DETACH are not supported",
		"VACUUM": "VACUUM is not supported", "VACUUM INTO 'x'": "VACUUM is not supported", "EXPLAIN VACUUM": "VACUUM is not supported",
		"ANALYZE": "ANALYZE is not supported", "ANALYZE FOO": "ANALYZE is not supported",
		"CREATE VIRTUAL TABLE f USING fts5(a)":  "virtual tables are not supported, they cannot be replicated",
		"CREATE TEMP TABLE x(a)":                "temporary objects are not supported",
		"CREATE TEMP VIEW x AS SELECT 1":        "temporary objects are not supported",
		"CREATE TABLE x AS SELECT 1":            "CREATE TABLE AS SELECT is not supported, create the table and then insert",
		"EXPLAIN CREATE TABLE x AS SELECT 1":    "CREATE TABLE AS SELECT is not supported, create the table and then insert",
		"SELECT load_extension('x')":            "no such function: load_extension",
		"DELETE FROM sqlite_master":             "table sqlite_master may not be modified",
		"UPDATE sqlite_schema SET sql=''":       "table sqlite_master may not be modified",
		"SELECT * FROM rs_log":                  "no such table: rs_log",
		"DELETE FROM rs_log":                    "no such table: rs_log",
		"DROP TABLE rs_log":                     "no such table: rs_log",
		"CREATE TABLE rs_x(a)":                  "names that begin with rs_ are reserved",
		"SELECT * FROM dbstat":                  "no such table: dbstat",
		"SELECT * FROM sqlite_dbpage":           "no such table: sqlite_dbpage",
		"SELECT * FROM sqlite_stmt":             "no such table: sqlite_stmt",
		"SELECT * FROM bytecode('SELECT 1')":    "no such table: bytecode",
		"SELECT * FROM tables_used('SELECT 1')": "no such table: tables_used",
		"PRAGMA writable_schema":                "PRAGMA writable_schema is not supported",
		"PRAGMA writable_schema=ON":             "PRAGMA writable_schema is not supported",
		"PRAGMA user_version=3":                 "PRAGMA user_version cannot be set",
		"PRAGMA journal_mode=DELETE":            "PRAGMA journal_mode cannot be set",
		"PRAGMA foreign_keys=OFF":               "PRAGMA foreign_keys cannot be set",
		"EXPLAIN PRAGMA database_list":          "PRAGMA database_list is not supported",
		"SELECT file FROM pragma_database_list": "no such table: pragma_database_list",
		"SELECT 1; CREATE TABLE rs_x(a)":        "names that begin with rs_ are reserved",
	} {
		cases = append(cases, formCase{body: `"` + sql + `"`, execute: failed(text)})
	}
	for _, sql := range []string{"INSERT INTO FOO VALUES(1,1)", "WITH x AS (SELECT 1) INSERT INTO FOO VALUES(1,2)"} {
		cases = append(cases, formCase{body: `"` + sql + `"`, execute: `*"error"`, query: readOnly})
	}
	for pragma, answer := range map[string]string{
		"foreign_keys": "[[1]]", "journal_mode": `[["wal"]]`, "user_version": "[[0]]", "encoding": `[["UTF-8"]]`, "read_uncommitted": "[[0]]",
		"quick_check": `[["ok"]]`, "integrity_check": `[["ok"]]`, "database_list": `[[0,"main",""`,
		"compile_options": `THREADSAFE`, "table_info(FOO)": `"INTEGER"`, "table_xinfo(FOO)": `"INTEGER"`, "table_list(FOO)": `"FOO"`, "foreign_key_check": "{",
		"index_list(FOO)": `{`, "foreign_key_list(riders)": `"CASCADE"`, "foreign_keys=ON": `{`,
	} {
		cases = append(cases, formCase{body: `"PRAGMA ` + pragma + `"`, execute: "*" + answer})
	}
	return cases
}

// Each kind of statement has the same answer on the three routes, whether a slave or persdb runs it.
func TestSQLForm_EachStatement_OnEachRoute(t *testing.T) {
	sys := shared(t)
	for name, cases := range map[string][]formCase{"Statements": statementCases(), "Refused": refusedCases()} {
		table := sys.NewTable(t, "id INTEGER PRIMARY KEY, v")
		sys.Exec(t, "INSERT INTO "+table+" VALUES(1, 'a')")
		for _, c := range cases {
			for path, want := range map[string]string{"/db/execute": c.execute, "/db/query": c.query, "/db/request": c.request} {
				if want == "" {
					want = c.execute
				}
				want = strings.ReplaceAll(want, "FOO", table)
				body := "[" + strings.ReplaceAll(c.body, "FOO", table) + "]"
				a := sys.Post(t, sys.db(path), body)
				part, loose := strings.CutPrefix(want, "*")
				ok := strings.HasPrefix(a.Body, `{"results":[`+want+"]") || loose && strings.Contains(a.Body, part)
				if loose && part != `"error"` && strings.Contains(a.Body, `"error"`) {
					ok = false
				}
				if a.Status != http.StatusOK || !ok {
					t.Errorf("%s: %s %s: got %d %.300s, want %s", name, path, body, a.Status, a.Body, want)
				}
			}
		}
	}
}

// PRAGMA table_list lists the same tables on each route, and none of the system's own tables.
func TestSQLForm_TableList_OnEachRoute(t *testing.T) {
	sys := shared(t)
	sys.NewTable(t, "id INTEGER PRIMARY KEY, v")
	var first []string
	for _, path := range []string{"/db/query", "/db/query?level=strong", "/db/execute", "/db/request"} {
		a := sys.Post(t, sys.db(path), sqlBody("PRAGMA table_list")).expect(t, http.StatusOK, anyBody)
		got := decode[struct {
			Results []struct{ Values []json.RawMessage }
		}](t, a)
		var rows []string
		for _, row := range got.Results[0].Values {
			rows = append(rows, string(row))
		}
		slices.Sort(rows)
		if first == nil {
			first = rows
		}
		if !slices.Equal(rows, first) || strings.Contains(a.Body, "rs_") || !strings.Contains(a.Body, `["main","users","table",`) {
			t.Errorf("%s: got %v, want %v", path, rows, first)
		}
	}
}

// The declared type of a column decides how its values are shown, on each route alike.
func TestSQLForm_DeclaredTypes_OnEachRoute(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "k TEXT PRIMARY KEY, d DATE, b Boolean, v VARCHAR(9), x")
	sys.Exec(t, "INSERT INTO "+table+" VALUES('a', '2024-01-02 03:04', 2, x'68', x'68')")
	const want = `{"results":[{"columns":["k","d","b","v","x"],"types":["text","date","boolean","varchar(9)","blob"],"values":[["a","2024-01-02T03:04:00Z",true,"h","aA=="]]}]`
	for _, path := range []string{"/db/query", "/db/execute", "/db/request"} {
		for _, body := range []string{`["SELECT * FROM FOO"]`, `["UPDATE FOO SET b=3 RETURNING *"]`} {
			if path == "/db/query" && strings.Contains(body, "UPDATE") {
				continue
			}
			a := sys.Post(t, sys.db(path), strings.ReplaceAll(body, "FOO", table))
			if !strings.HasPrefix(a.Body, want) {
				t.Errorf("%s %s: got %s, want %s", path, body, a.Body, want)
			}
		}
	}
	a := sys.Post(t, sys.db("/db/query?qualify_columns&associative"), sqlBody("SELECT f.b, 1+1 AS two FROM "+table+" f"))
	a.expect(t, http.StatusOK, strings.ReplaceAll(`{"results":[{"types":{"FOO.b":"boolean","two":"integer"},"rows":[{"FOO.b":true,"two":2}]}]}`, "FOO", table))
	for _, sql := range []string{"INSERT INTO FOO(v) VALUES(1)", "UPDATE FOO SET k=NULL", "INSERT OR REPLACE INTO FOO VALUES('b',1,1,1,1),(NULL,1,1,1,1)"} {
		a = sys.Post(t, sys.db("/db/execute"), sqlBody(strings.ReplaceAll(sql, "FOO", table)))
		if !strings.HasPrefix(a.Body, `{"results":[{"error":"NOT NULL constraint failed: `+table+`.k"}]`) {
			t.Errorf("%s: got %s", sql, a.Body)
		}
	}
	if n := sys.QueryInt(t, "SELECT count(*) FROM "+table); n != 1 {
		t.Errorf("got %d rows, want 1", n)
	}
}

// The client's time limit of a statement, and the form of errors, on each route.
func TestSQLForm_StatementTime_OnEachRoute(t *testing.T) {
	sys := shared(t)
	endless := sqlBody("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n")
	for path, want := range map[string]string{
		"/db/query?db_timeout=50ms": failed("query timeout"), "/db/request?db_timeout=50ms": failed("execute timeout"),
		"/db/execute?db_timeout=50ms":             failed("execute timeout"),
		"/db/query?db_timeout=50ms&associative":   `{"rows":[],"error":"query timeout"}`,
		"/db/request?db_timeout=50ms&associative": failed("execute timeout"),
	} {
		if a := sys.Post(t, sys.db(path), endless); a.Status != http.StatusOK || !strings.HasPrefix(a.Body, `{"results":[`+want+"]") {
			t.Errorf("%s: got %d %s, want %s", path, a.Status, a.Body, want)
		}
	}
}

// The structured form shows values as they are stored. It refuses an infinity too.
func TestStructured_Values_AsStored(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "d DATE, b BOOLEAN, x REAL")
	sys.Exec(t, "INSERT INTO "+table+" VALUES('2024-01-02', 2, 9e999)")
	read := func(columns string) string { return `{"table":"` + table + `","columns":[` + columns + `]}` }
	sys.Post(t, sys.db("/api/v1/db/read"), read(`"d","b"`)).expect(t, http.StatusOK, `[{"d":"2024-01-02","b":2}]`)
	sys.Post(t, sys.db("/api/v1/db/read"), read(`"x"`)).expect(t, http.StatusBadRequest, "{}")
}

// After a barrier a read sees every queued write. Its sequence number is exact in JavaScript.
func TestSQLForm_Barrier_QueuedWritesAreThere(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY")
	for i := range 20 {
		sys.Post(t, sys.db("/db/execute?queue"), sqlBody("INSERT INTO "+table+" VALUES(?)", i)).expect(t, http.StatusOK, anyBody)
	}
	a := sys.Post(t, sys.db("/db/execute?queue&wait"), "").expect(t, http.StatusOK, anyBody)
	if n := sys.QueryInt(t, "SELECT count(*) FROM "+table); n != 20 {
		t.Errorf("got %d rows, want 20", n)
	}
	got := decode[struct {
		Number  int64 `json:"sequence_number"`
		Results []any `json:"results"`
	}](t, a)
	if got.Number <= 0 || got.Number >= 1<<53 || got.Results == nil {
		t.Errorf("got %s", a.Body)
	}
	foreign := sys.Post(t, sys.db("/db/execute"), "", "Sec-Fetch-Site", "cross-site").expect(t, http.StatusForbidden, anyBody)
	if a.Header.Get("X-Rqlite-Version") == "" || foreign.Header.Get("X-Rqlite-Version") == "" {
		t.Error("no X-Rqlite-Version")
	}
}
