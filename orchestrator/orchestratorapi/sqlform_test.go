package orchestratorapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/orchestrator/orchestratorapi"
)

// answered makes every read return body.
func answered(body string) func(dbaas.Read) (dbaas.ReadResult, error) {
	return func(dbaas.Read) (dbaas.ReadResult, error) { return dbaas.ReadResult{Seq: 42, Body: []byte(body)}, nil }
}

// The read level decides whether a slave or the master answers, and which position the answer must have.
func TestDBQuery_Level_SaysWhoAnswers(t *testing.T) {
	for query, c := range map[string]struct {
		linearizable, recent bool
	}{
		"": {false, true}, "&level=weak": {false, true}, "&level=auto": {false, true}, "&level=none": {false, false},
		"&level=linearizable": {true, false}, "&level=strong": {true, false}, "&level=STRONG": {true, false},
		"&level=none&freshness=1s": {true, false}, "&level=none&freshness=1s&freshness_strict": {true, false},
		"&level=none&freshness=0s": {false, false}, "&freshness=1s": {false, true},
	} {
		s := &system{}
		w := call(t, newAPI(s), "GET", "/db/query?q=SELECT+1"+query, "", "X-Min-Seq: 3")
		want(t, w, http.StatusOK, "")
		if got := s.lastRead(t); got.Linearizable != c.linearizable || got.Recent != c.recent || got.MinSeq != 3 {
			t.Errorf("query %q: got linearizable %v, recent %v from %d, want %+v from 3", query, got.Linearizable, got.Recent, got.MinSeq, c)
		}
		if w.Header().Get("X-Seq") != "42" {
			t.Errorf("query %q: got X-Seq %q", query, w.Header().Get("X-Seq"))
		}
	}
}

// Options are passed on to the read and change the format of the answer.
func TestDBQuery_Options_ShapeTheAnswer(t *testing.T) {
	s := &system{read: answered(`{"columns":["1"],"types":["integer"],"values":[[1]]}`)}
	h := newAPI(s)
	for query, body := range map[string]string{
		"":                        `{"results":[{"columns":["1"],"types":["integer"],"values":[[1]]}]}`,
		"&raft_index":             `{"results":[{"columns":["1"],"types":["integer"],"values":[[1]]}],"raft_index":42}`,
		"&timings":                `{"results":[{"columns":["1"],"types":["integer"],"values":[[1]]}],"time":0}`,
		"&transaction":            `{"results":[{"columns":["1"],"types":["integer"],"values":[[1]]}]}`,
		"&pretty=true":            "{\n    \"results\": [\n        {\n            \"columns\": [\n                \"1\"\n            ],\n            \"types\": [\n                \"integer\"\n            ],\n            \"values\": [\n                [\n                    1\n                ]\n            ]\n        }\n    ]\n}",
		"&pretty=off&redirect=no": "", "&wait": "", "&retries=-3&noleader": "", "&freshness_strict": "",
		"&redirect": "", "&noparse&norwrandom&norwtime": "", "&timeout=2s": "",
	} {
		want(t, call(t, h, "GET", "/db/query?q=SELECT+1"+query, ""), http.StatusOK, body)
	}
	want(t, call(t, h, "POST", "/db/query?associative&timings&blob_array&timeout=2s", `["SELECT 1"]`, "X-Request-Id: r"), http.StatusOK, "")
	wantRead := dbaas.Read{
		RequestID: "r", User: "default", Deadline: epochStart.Add(2 * time.Second), Recent: true, Format: dbaas.FormatAssociative, Timings: true, BlobArray: true, AsQuery: true,
		Statements: []dbaas.Statement{{SQL: "SELECT 1"}},
	}
	if diff := cmp.Diff(wantRead, s.lastRead(t)); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

// Time limits and the names of columns reach the read. Only linearizable reads have the linearizable timeout.
func TestDBQuery_Limits_ReachTheRead(t *testing.T) {
	for query, timeout := range map[string]time.Duration{
		"": 5 * time.Second, "&linearizable_timeout=1s": 5 * time.Second, "&linearizable_timeout=1s&level=strong": time.Second,
		"&linearizable_timeout=9s&level=linearizable": 5 * time.Second, "&timeout=2s&linearizable_timeout=3s&level=linearizable": 2 * time.Second,
	} {
		s := &system{}
		want(t, call(t, newAPI(s), "GET", "/db/query?q=SELECT+1&db_timeout=30ms&qualify_columns"+query, ""), http.StatusOK, "")
		got := s.lastRead(t)
		if got.Deadline.Sub(epochStart) != timeout || got.StatementTime != 30*time.Millisecond || !got.QualifyColumns || !got.AsQuery {
			t.Errorf("query %q: got %+v", query, got)
		}
	}
	s := &system{}
	h := newAPI(s)
	want(t, call(t, h, "POST", "/db/request?db_timeout=1s", `["SELECT 1"]`), http.StatusOK, "")
	if got := s.lastRead(t); got.AsQuery || got.StatementTime != time.Second {
		t.Errorf("got %+v", got)
	}
	want(t, call(t, h, "POST", "/db/execute?db_timeout=1s&qualify_columns", `["INSERT INTO t VALUES(1)"]`), http.StatusOK, "")
	if got := s.lastOp(t); got.StatementTime != time.Second || !got.QualifyColumns {
		t.Errorf("got %+v", got)
	}
}

// A request of empty texts has no results, and nothing runs.
func TestSQLForm_EmptyTexts_NoResults(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	for _, path := range []string{"/db/query", "/db/execute", "/db/execute?transaction", "/db/request", "/db/query?level=strong"} {
		want(t, call(t, h, "POST", path, `["",""]`), http.StatusOK, `{"results":[]}`)
	}
	if len(s.reads)+len(s.ops) != 0 {
		t.Errorf("got %d reads and %d operations, want none", len(s.reads), len(s.ops))
	}
}

// A barrier waits for every write that was queued before it. Then reads see them.
func TestDBExecute_Barrier_WaitsForQueuedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &system{}
		h := newAPI(s)
		asked := map[dbaas.OpID]int{}
		s.lookup = func(id dbaas.OpID) (dbaas.OperationResult, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if asked[id]++; asked[id] < 3 {
				return dbaas.OperationResult{}, dbaas.Errorf(dbaas.CodeNotFound, "not found")
			}
			return dbaas.OperationResult{ID: id, Seq: 99}, nil
		}
		want(t, call(t, h, "POST", "/db/execute?queue", `["a"]`), http.StatusOK, "")
		want(t, call(t, h, "POST", "/db/execute", `["b"]`, "Prefer: respond-async"), http.StatusAccepted, "")
		w := call(t, h, "POST", "/db/execute?queue&wait", "")
		if user := s.lastOp(t).User; user != "default" {
			t.Errorf("the barrier's write is of user %q", user)
		}
		var got struct {
			Results  []any `json:"results"`
			Sequence int64 `json:"sequence_number"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || got.Results == nil || got.Sequence <= 0 || got.Sequence >= 1<<53 {
			t.Errorf("got %d %s, %v", w.Code, w.Body, err)
		}
		if len(asked) != 2 || s.seen != 99 {
			t.Errorf("got %d operations looked up, newest position %d, want 2 and 99", len(asked), s.seen)
		}
		want(t, call(t, h, "POST", "/db/execute?queue&wait", ""), http.StatusOK, "") // nothing is left
		if len(asked) != 2 {
			t.Errorf("got %d operations looked up, want 2", len(asked))
		}
		for _, path := range []string{"/db/execute", "/db/execute?queue", "/db/execute?wait"} {
			want(t, call(t, h, "POST", path, ""), http.StatusBadRequest, "")
		}
	})
}

// A barrier that does not see the end of all queued writes in time says so.
func TestDBExecute_Barrier_TooLate_504(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &system{}
		h := newAPI(s)
		want(t, call(t, h, "POST", "/db/execute?queue", `["a"]`), http.StatusOK, "")
		want(t, call(t, h, "POST", "/db/execute?queue&wait&timeout=20ms", ""), http.StatusGatewayTimeout, "")
		s.lookup = func(id dbaas.OpID) (dbaas.OperationResult, error) { return dbaas.OperationResult{ID: id}, nil }
		want(t, call(t, h, "POST", "/db/execute?queue&wait", ""), http.StatusOK, "")
	})
}

// Every answer of rqlite's API has its headers. OPTIONS needs no credentials.
func TestRqliteHeaders(t *testing.T) {
	creds, err := httpapi.ParseCredentials(strings.NewReader("bearer secret\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := newAPI(&system{}, func(c *orchestratorapi.Config) {
		c.Version, c.AllowOrigin, c.Credentials = "v1", "https://a.example", creds
	})
	for _, path := range []string{"/db/query", "/db/execute", "/db/request", "/status", "/nodes", "/readyz", "/db/nope", "/livez"} {
		w := call(t, h, "PUT", path, "")
		served := path != "/livez"
		if got := w.Header().Get("X-Rqlite-Version"); (got == "v1") != served {
			t.Errorf("%s: got version %q", path, got)
		}
		if path == "/db/nope" || !served {
			continue
		}
		if want(t, w, http.StatusMethodNotAllowed, ""); strings.Count(w.Header().Get("Allow"), "OPTIONS") != 1 {
			t.Errorf("%s: got Allow %q", path, w.Header().Get("Allow"))
		}
		w = call(t, h, "OPTIONS", path, "")
		want(t, w, http.StatusOK, "")
		for name, value := range map[string]string{
			"X-Rqlite-Version": "v1", "Access-Control-Allow-Origin": "https://a.example",
			"Access-Control-Allow-Methods": "OPTIONS, GET, POST", "Access-Control-Allow-Headers": "Content-Type, Authorization",
		} {
			if got := w.Header().Get(name); got != value || w.Body.Len() > 0 {
				t.Errorf("%s %s: got %q and body %q, want %q", path, name, got, w.Body, value)
			}
		}
	}
}

// An option that is not supported or makes no sense is a 400 with the reason.
func TestSQLForm_Unsupported_Is400(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	for _, target := range []string{
		"GET /db/query", "GET /db/query?q=", "GET /db/query?q=SELECT+1&q=SELECT+2", "GET /db/query?q=SELECT+1&level=best", "GET /db/query?q=SELECT+1&db_timeout=1",
		"GET /db/query?q=SELECT+1&retries=x", "GET /db/query?q=SELECT+1&Pretty", "POST /db/execute?transaction=false", "POST /db/execute?queue=0", "GET /db/query?q=SELECT+1&timeout=x",
		"GET /db/query?q=SELECT+1&timeout=0s", "GET /db/query?q=SELECT+1&timeout=10m", "GET /db/query?q=SELECT+1&linearizable_timeout=x", "GET /db/query?q=SELECT+1&freshness=-1s",
		"GET /db/query?q=%zz", "POST /db/query", "POST /db/query?q=SELECT+1", "POST /db/execute",
	} {
		method, path, _ := strings.Cut(target, " ")
		w := call(t, h, method, path, "")
		if want(t, w, http.StatusBadRequest, ""); w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: got %s", target, w.Header().Get("Content-Type"))
		}
	}
	for _, body := range []string{`{}`, `[]`, `"SELECT 1"`, `SELECT 1`, `["SELECT 1"`, `["SELECT 1"]x`} {
		for _, path := range []string{"/db/query", "/db/execute", "/db/request"} {
			want(t, call(t, h, "POST", path, body), http.StatusBadRequest, "")
		}
	}
	want(t, call(t, h, "GET", "/db/query?q=SELECT+1", "", "X-Min-Seq: x"), http.StatusBadRequest, "")
	if len(s.reads)+len(s.ops) != 0 {
		t.Errorf("got %d reads and %d operations, want none", len(s.reads), len(s.ops))
	}
}

// A text/plain body is one statement. JSON is parsed as JSON whatever the Content-Type.
func TestSQLForm_PlainText_IsOneStatement(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	for _, kind := range []string{"text/plain", "text/plain; charset=utf-8"} {
		want(t, call(t, h, "POST", "/db/execute", "DELETE FROM t", "Content-Type: "+kind), http.StatusOK, "")
		if got := s.lastOp(t).Statements[0].SQL; got != "DELETE FROM t" {
			t.Errorf("got %q", got)
		}
		want(t, call(t, h, "POST", "/db/execute", `["DELETE FROM u"]`, "Content-Type: "+kind), http.StatusOK, "")
		if got := s.lastOp(t).Statements[0].SQL; got != "DELETE FROM u" {
			t.Errorf("got %q", got)
		}
		want(t, call(t, h, "POST", "/db/request", "DELETE FROM t", "Content-Type: "+kind), http.StatusBadRequest, "")
		want(t, call(t, h, "POST", "/db/request", `["DELETE FROM t"]`, "Content-Type: "+kind), http.StatusOK, "")
	}
}

// With X-Plain-Text: true a string that looks like a BLOB is a text.
func TestSQLForm_PlainTextHeader(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	for value, want := range map[string]dbaas.Value{"": dbaas.Blob([]byte("h")), "false": dbaas.Blob([]byte("h")), "true": dbaas.Text("x'68'")} {
		call(t, h, "POST", "/db/execute", `[["INSERT INTO t VALUES(?)","x'68'"]]`, "X-Plain-Text: "+value)
		if got := s.lastOp(t).Statements[0].Args; !cmp.Equal(got, []dbaas.Value{want}) {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
	want(t, call(t, h, "POST", "/db/execute", `["DELETE FROM t"]`, "X-Plain-Text: 1"), http.StatusBadRequest, "")
}

// Results of writes are in rqlite's format.
func TestDBExecute_Results_AreRqlites(t *testing.T) {
	s := &system{write: func(op dbaas.Operation) (dbaas.OperationResult, error) {
		return dbaas.OperationResult{ID: op.ID, Seq: 43, Statements: []dbaas.StatementResult{
			{LastInsertID: 1, RowsAffected: 2},
			{},
			{Code: dbaas.CodeConstraint, Message: `UNIQUE constraint failed: "x"`},
			{Columns: []string{"a", "b"}, Types: []string{"integer", ""}, Rows: []dbaas.Row{
				{dbaas.Integer(9223372036854775807), dbaas.Blob([]byte{1, 2})}, {dbaas.Float(1.5), dbaas.Null()},
			}},
			{Columns: []string{"a"}, Types: []string{"text"}},
		}}, nil
	}}
	h := newAPI(s)
	body := `["a","b","c","d","e"]`
	rows := `{"columns":["a","b"],"types":["integer","blob"],"values":[[9223372036854775807,"AQI="],[1.5,null]]},{"columns":["a"],"types":["text"]}`
	want(t, call(t, h, "POST", "/db/execute", body), http.StatusOK,
		`{"results":[{"last_insert_id":1,"rows_affected":2},{},{"error":"UNIQUE constraint failed: \"x\""},`+rows+`],"seq":43}`)
	want(t, call(t, h, "POST", "/db/execute?raft_index&timings", body), http.StatusOK,
		`{"results":[{"last_insert_id":1,"rows_affected":2,"time":0},{"time":0},{"error":"UNIQUE constraint failed: \"x\""},`+
			`{"columns":["a","b"],"types":["integer","blob"],"values":[[9223372036854775807,"AQI="],[1.5,null]],"time":0},{"columns":["a"],"types":["text"],"time":0}],"seq":43,"raft_index":43,"time":0}`)
	want(t, call(t, h, "POST", "/db/request?associative&blob_array", body), http.StatusOK,
		`{"results":[{"last_insert_id":1,"rows_affected":2,"rows":null},{"rows":null},{"error":"UNIQUE constraint failed: \"x\""},`+
			`{"types":{"a":"integer","b":"blob"},"rows":[{"a":9223372036854775807,"b":[1,2]},{"a":1.5,"b":null}]},{"types":{"a":"text"},"rows":[]}],"seq":43}`)
	if w := call(t, h, "POST", "/db/execute?pretty", body); !json.Valid(w.Body.Bytes()) || !strings.Contains(w.Body.String(), "\n    \"seq\": 43") {
		t.Errorf("pretty: got %s", w.Body)
	}
}

// transaction makes an operation atomic, timeout sets its deadline.
func TestDBExecute_Options_ReachTheOperation(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	want(t, call(t, h, "POST", "/db/execute?transaction&timeout=1s", `["a",["b",1]]`), http.StatusOK, "")
	if op := s.lastOp(t); !op.Atomic || len(op.Statements) != 2 || !op.Deadline.Equal(epochStart.Add(time.Second)) {
		t.Errorf("got %+v", op)
	}
	want(t, call(t, h, "POST", "/db/execute?level=weak&wait", `["a"]`), http.StatusOK, "")
	if op := s.lastOp(t); op.Atomic || !op.Deadline.Equal(epochStart.Add(5*time.Second)) {
		t.Errorf("got %+v", op)
	}
}

// A request that only reads is a read. One statement that may not be a read makes it a write.
func TestDBRequest_OnlyReads_IsARead(t *testing.T) {
	s := &system{read: answered(`{},{}`)}
	h := newAPI(s)
	want(t, call(t, h, "POST", "/db/request", `["SELECT 1",["WITH x AS (VALUES(?)) SELECT * FROM x",1]]`), http.StatusOK, `{"results":[{},{}]}`)
	if got := s.lastRead(t); !got.Recent || got.Format != dbaas.FormatArrays {
		t.Errorf("got %+v", got)
	}
	want(t, call(t, h, "POST", "/db/request?transaction", `["SELECT 1","INSERT INTO t VALUES(1)"]`), http.StatusOK, "")
	if op := s.lastOp(t); !op.Atomic || len(op.Statements) != 2 {
		t.Errorf("got %+v", op)
	}
	if s.count.reads != 1 {
		t.Errorf("got %d reads counted, want 1", s.count.reads)
	}
}

// Queued writes are answered immediately with 200, a growing number and the operation's id.
// With wait the answer waits for the result.
func TestDBExecute_Queue_Answers200(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	type answer struct {
		Results  []any  `json:"results"`
		Sequence int64  `json:"sequence_number"`
		OpID     string `json:"op_id"`
	}
	var last int64
	for range 3 {
		w := call(t, h, "POST", "/db/execute?queue", `["a"]`)
		want(t, w, http.StatusOK, "")
		var got answer
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Results == nil || len(got.Results) != 0 || got.Sequence <= last || got.OpID != s.lastOp(t).ID.String() {
			t.Errorf("got %s after number %d", w.Body, last)
		}
		last = got.Sequence
	}
	s.enqueue = func(dbaas.Operation) error { t.Error("a waiting write was enqueued"); return nil }
	w := call(t, h, "POST", "/db/execute?queue&wait&timeout=10s", `["a"]`)
	if want(t, w, http.StatusOK, ""); !strings.Contains(w.Body.String(), `"sequence_number":`) || !strings.Contains(w.Body.String(), `"seq":43`) {
		t.Errorf("got %s", w.Body)
	}
}

// The SQL form accepts bodies up to 64 MiB.
func TestSQLForm_BodyLimit_Is64MiB(t *testing.T) {
	h := newAPI(&system{})
	large := `[["INSERT INTO t VALUES(?)","` + strings.Repeat("x", 2<<20) + `"]]`
	want(t, call(t, h, "POST", "/db/execute", large), http.StatusOK, "")
	want(t, call(t, h, "POST", "/db/execute", strings.Repeat(" ", 64<<20)+large), http.StatusRequestEntityTooLarge, "")
}
