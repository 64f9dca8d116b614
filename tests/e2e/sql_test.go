package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The SQL form answers in rqlite's documented shapes.
func TestSQL_EachForm_AnswersInTheDocumentedShape(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY, name TEXT, age INTEGER")
	const rows = `{"results":[{"columns":["id","name","age"],"types":["integer","text","integer"],"values":[[1,"fiona",20],[2,"sinead",null]]}]}`
	post := func(name, path, body string, status int, answer string) exchange {
		body = strings.ReplaceAll(body, "FOO", table)
		return exchange{name: name, method: "POST", url: sys.db(path), body: body, status: status, answer: strings.ReplaceAll(answer, "FOO", table)}
	}
	sys.playSQL(t, []exchange{
		post("ExecutePlain", "/db/execute", `["INSERT INTO FOO(name, age) VALUES('fiona', 20)"]`, 200, `{"results":[{"last_insert_id":1,"rows_affected":1}]}`),
		post("ExecuteByPosition", "/db/execute", `[["INSERT INTO FOO(name, age) VALUES(?, ?)", "sinead", null]]`, 200, `{"results":[{"last_insert_id":2,"rows_affected":1}]}`),
		post("ExecuteByName", "/db/execute", `[["UPDATE FOO SET name = :n WHERE id = :id", {"n":"x","id":99}]]`, 200, anyBody),
		{name: "QueryByGet", method: "GET", url: sys.db("/db/query?q=" + url.QueryEscape("SELECT * FROM "+table+" ORDER BY id")), status: 200, answer: rows},
		post("QueryByPost", "/db/query", `["SELECT * FROM FOO ORDER BY id"]`, 200, rows),
		post("QueryPretty", "/db/query?pretty", `["SELECT * FROM FOO ORDER BY id"]`, 200, rows),
		post("QueryByPosition", "/db/query", `[["SELECT name FROM FOO WHERE id = ?", 1]]`, 200, `{"results":[{"columns":["name"],"types":["text"],"values":[["fiona"]]}]}`),
		post("QueryByName", "/db/query", `[["SELECT name FROM FOO WHERE id = :id", {"id":1}]]`, 200, `{"results":[{"columns":["name"],"types":["text"],"values":[["fiona"]]}]}`),
		post("QueryNothing", "/db/query", `["SELECT name FROM FOO WHERE id = 99"]`, 200, `{"results":[{"columns":["name"],"types":["text"]}]}`),
		post("QueryTwo", "/db/query", `["SELECT 1 AS a", "SELECT count(*) AS c FROM FOO"]`, 200, anyBody),
		post("Associative", "/db/query?associative", `["SELECT * FROM FOO WHERE id = 1"]`, 200, `{"results":[{"types":{"id":"integer","name":"text","age":"integer"},"rows":[{"id":1,"name":"fiona","age":20}]}]}`),
		post("ErrorAlone", "/db/query", `["SELECT * FROM nope"]`, 200, `{"results":[{"error":"no such table: nope"}]}`),
		post("ErrorBesideAResult", "/db/execute", `["INSERT INTO FOO(id) VALUES(1)", "INSERT INTO FOO(id) VALUES(50)"]`, 200, `{"results":[{"error":"UNIQUE constraint failed: FOO.id"},{"last_insert_id":50,"rows_affected":1}]}`),
		post("TransactionUndone", "/db/execute?transaction", `["INSERT INTO FOO(id) VALUES(60)", "INSERT INTO FOO(id) VALUES(1)", "INSERT INTO FOO(id) VALUES(61)"]`, 200, `{"results":[{"last_insert_id":60,"rows_affected":1},{"error":"UNIQUE constraint failed: FOO.id"}]}`),
		post("NothingOfItIsThere", "/db/query", `["SELECT count(*) AS n FROM FOO WHERE id >= 60"]`, 200, anyBody),
		post("RequestBoth", "/db/request", `["INSERT INTO FOO(id) VALUES(70)", "SELECT id FROM FOO WHERE id = 70"]`, 200, `{"results":[{"last_insert_id":70,"rows_affected":1},{"columns":["id"],"types":["integer"],"values":[[70]]}]}`),
		post("WriteAsQuery", "/db/query", `["DELETE FROM FOO"]`, 200, anyBody),
		post("NothingWasDeleted", "/db/query", `["SELECT id FROM FOO WHERE id = 1"]`, 200, `{"results":[{"columns":["id"],"types":["integer"],"values":[[1]]}]}`),
	})
	sys.Post(t, sys.db("/db/request?transaction"), `["SELECT nope", "SELECT 1"]`).expect(t, http.StatusOK, `{"results":[{"error":"no such column: nope"}]}`)
	if n := sys.QueryInt(t, "SELECT count(*) FROM "+table+" WHERE id IN (60, 61)"); n != 0 {
		t.Errorf("rows of the undone transaction: got %d, want 0", n)
	}
}

// playSQL is play for the SQL form, whose write answers carry their position in
// the body as well.
func (s *system) playSQL(t *testing.T, exchanges []exchange) {
	t.Helper()
	for _, x := range exchanges {
		t.Run(x.name, func(t *testing.T) {
			a := s.Call(t, x.method, x.url, x.body)
			if x.answer != anyBody && !strings.Contains(x.url, "/db/query") {
				x.answer = strings.TrimSuffix(x.answer, "}") + `,"seq":` + a.Header.Get("X-Seq") + "}"
			}
			a.expect(t, x.status, x.answer)
		})
	}
}

// Each option of rqlite's API works as documented.
func TestSQL_Options_DoWhatTheySay(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY, b BLOB")
	sys.Exec(t, "INSERT INTO "+table+" VALUES(1, x'000aff')")
	query := sqlBody("SELECT b FROM " + table)
	blob := func(value string) string {
		return `{"results":[{"columns":["b"],"types":["blob"],"values":[[` + value + `]]}]}`
	}
	sys.Post(t, sys.db("/db/query"), query).expect(t, http.StatusOK, blob(`"AAr/"`))
	sys.Post(t, sys.db("/db/query?blob_array"), query).expect(t, http.StatusOK, blob(`[0,10,255]`))
	for _, level := range []string{"none", "weak", "auto", "linearizable", "strong"} {
		sys.Post(t, sys.db("/db/query?level="+level), query).expect(t, http.StatusOK, blob(`"AAr/"`))
	}
	sys.Post(t, sys.db("/db/query?level=none&freshness=10s"), query).expect(t, http.StatusOK, blob(`"AAr/"`))
	pretty := sys.Post(t, sys.db("/db/query?pretty"), query).expect(t, http.StatusOK, blob(`"AAr/"`))
	if !strings.Contains(pretty.Body, "\n    ") {
		t.Errorf("pretty: got %s, want it indented", pretty.Body)
	}
	for _, path := range []string{"/db/query?timings", "/db/execute?timings", "/db/request?timings"} {
		a := sys.Post(t, sys.db(path), query).expect(t, http.StatusOK, anyBody)
		got := decode[struct {
			Time    *float64
			Results []struct{ Time *float64 }
		}](t, a)
		if got.Time == nil || len(got.Results) != 1 || got.Results[0].Time == nil {
			t.Errorf("%s: got %s, want a time for the statement and for all", path, a.Body)
		}
	}
	a := sys.Post(t, sys.db("/db/execute?raft_index"), sqlBody("DELETE FROM "+table+" WHERE id = 99")).expect(t, http.StatusOK, anyBody)
	if got := decode[map[string]json.RawMessage](t, a)["raft_index"]; string(got) != a.Header.Get("X-Seq") {
		t.Errorf("raft_index: got %s, want X-Seq, %s", got, a.Header.Get("X-Seq"))
	}
}

// A queued write is answered with a sequence number, and is applied soon. With wait it is applied before the answer.
// The sequence numbers grow.
func TestSQL_Queue_AppliesLater(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY")
	var last int64
	for i, path := range []string{"/db/execute?queue", "/db/execute?queue&wait", "/db/execute?queue&wait&timeout=10s"} {
		a := sys.Post(t, sys.db(path), sqlBody("INSERT INTO "+table+" VALUES(?)", i)).expect(t, http.StatusOK, anyBody)
		got := decode[struct {
			SequenceNumber int64             `json:"sequence_number"`
			Results        []json.RawMessage `json:"results"`
		}](t, a)
		if got.SequenceNumber <= last || got.Results == nil {
			t.Errorf("%s: got %s, want results and a number above %d", path, a.Body, last)
		}
		last = got.SequenceNumber
		if strings.Contains(path, "wait") {
			if n := sys.QueryInt(t, "SELECT count(*) FROM "+table+" WHERE id = ?", i); n != 1 {
				t.Errorf("%s: got %d rows after the answer, want 1", path, n)
			}
		}
	}
	eventually(t, againLimit, func() error {
		if n := sys.QueryInt(t, "SELECT count(*) FROM "+table); n != 3 {
			return fmt.Errorf("got %d rows, want 3", n)
		}
		return nil
	})
}

// Unsupported or malformed requests get 400 with a reason, and are never ignored.
func TestSQL_UnsupportedOrMalformed_Refused(t *testing.T) {
	sys := shared(t)
	const fine = `["SELECT 1"]`
	for _, c := range []struct{ path, body string }{
		{"/db/query?nosuchoption", fine},
		{"/db/query?level=sometimes", fine},
		{"/db/query?level=none&freshness=soon", fine},
		{"/db/query?timeout=soon", fine},
		{"/db/execute?nosuchoption=1", fine},
		{"/db/query", ``},
		{"/db/query", `{`},
		{"/db/query", `{}`},
		{"/db/query", `"SELECT 1"`},
		{"/db/query", `["SELECT 1"`},
		{"/db/query", `["SELECT 1"] x`},
		{"/db/query", `[1]`},
		{"/db/query", `[[]]`},
		{"/db/query", `[[1]]`},
		{"/db/query", `[["SELECT ?", {"a":{}}]]`},
		{"/db/execute", `[null]`},
		{"/db/execute", `[["SELECT :a", {"a":1,"a":2}]]`},
	} {
		a := sys.Post(t, sys.db(c.path), c.body)
		if err := a.check(http.StatusBadRequest, anyBody); err != nil {
			t.Errorf("%s %s: %v", c.path, c.body, err)
			continue
		}
		if got := decode[struct{ Detail string }](t, a); got.Detail == "" {
			t.Errorf("%s %s: got %s, want a detail that says what is wrong", c.path, c.body, a.Body)
		}
	}
	sys.Get(t, sys.db("/db/query")).expect(t, http.StatusBadRequest, anyBody)
}

// No statement can reach files, settings or the system's own tables, not even if it follows another statement in the
// same text.
func TestSQL_ForbiddenStatements_FailAndDoNothing(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY")
	for _, sql := range []string{
		"ATTACH 'x.db' AS x", "DETACH main", "PRAGMA journal_mode=DELETE", "VACUUM INTO 'x.db'", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a",
		"SELECT load_extension('x')", "CREATE VIRTUAL TABLE v USING fts5(a)", "CREATE TABLE c AS SELECT 1", "DELETE FROM sqlite_master",
		"INSERT INTO " + table + " VALUES(1); DROP TABLE rs_log", "DROP TABLE rs_log", "SELECT * FROM rs_log", "nonsense",
	} {
		for _, path := range []string{"/db/execute", "/db/request", "/db/query"} {
			a := sys.Post(t, sys.db(path), sqlBody(sql))
			if a.Status == http.StatusBadRequest {
				continue
			}
			got := decode[sqlResults](t, a).Results
			if a.Status != http.StatusOK || len(got) != 1 || got[0].Error == "" {
				t.Errorf("%s %s: got %d %s, want an error", path, sql, a.Status, a.Body)
			}
		}
	}
	if n := sys.QueryInt(t, "SELECT count(*) FROM "+table); n != 0 {
		t.Errorf("rows after refused statements only: got %d, want 0", n)
	}
}
