package orchestratorapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
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
		"":             `{"results":[{"columns":["1"],"types":["integer"],"values":[[1]]}]}`,
		"&raft_index":  `{"results":[{"columns":["1"],"types":["integer"],"values":[[1]]}],"raft_index":42}`,
		"&timings":     `{"results":[{"columns":["1"],"types":["integer"],"values":[[1]]}],"time":0}`,
		"&transaction": `{"results":[{"columns":["1"],"types":["integer"],"values":[[1]]}]}`,
		"&pretty=true": "{\n    \"results\": [\n        {\n            \"columns\": [\n                \"1\"\n            ],\n            \"types\": [\n                \"integer\"\n            ],\n            \"values\": [\n                [\n                    1\n                ]\n            ]\n        }\n    ]\n}",
		"&redirect":    "", "&noparse&norwrandom&norwtime": "", "&timeout=2s": "",
	} {
		want(t, call(t, h, "GET", "/db/query?q=SELECT+1"+query, ""), http.StatusOK, body)
	}
	want(t, call(t, h, "POST", "/db/query?associative&timings&blob_array&timeout=2s", `["SELECT 1"]`, "X-Request-Id: r"), http.StatusOK, "")
	wantRead := dbaas.Read{
		RequestID: "r", Deadline: epochStart.Add(2 * time.Second), Recent: true, Format: dbaas.FormatAssociative, Timings: true, BlobArray: true,
		Statements: []dbaas.Statement{{SQL: "SELECT 1"}},
	}
	if diff := cmp.Diff(wantRead, s.lastRead(t)); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

// An option that is not supported or makes no sense is a 400 with the reason.
func TestSQLForm_Unsupported_Is400(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	for _, target := range []string{
		"GET /db/query", "GET /db/query?q=", "GET /db/query?q=SELECT+1&q=SELECT+2", "GET /db/query?q=SELECT+1&level=best", "GET /db/query?q=SELECT+1&db_timeout=1s",
		"GET /db/query?q=SELECT+1&retries=3", "GET /db/query?q=SELECT+1&Pretty", "GET /db/query?q=SELECT+1&pretty=false", "GET /db/query?q=SELECT+1&timeout=x",
		"GET /db/query?q=SELECT+1&timeout=0s", "GET /db/query?q=SELECT+1&timeout=10m", "GET /db/query?q=SELECT+1&freshness_strict", "GET /db/query?q=SELECT+1&freshness=-1s",
		"GET /db/query?q=SELECT+1&queue", "GET /db/query?q=%zz", "POST /db/query", "POST /db/query?q=SELECT+1", "POST /db/execute", "POST /db/request?queue",
	} {
		method, path, _ := strings.Cut(target, " ")
		w := call(t, h, method, path, "")
		if want(t, w, http.StatusBadRequest, ""); w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: got %s", target, w.Header().Get("Content-Type"))
		}
	}
	for _, body := range []string{`{}`, `[]`, `"SELECT 1"`, `SELECT 1`, `["SELECT 1"`, `[["SELECT ?",1,{"a":1}]]`} {
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
	}
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
	rows := `{"columns":["a","b"],"types":["integer",""],"values":[[9223372036854775807,"AQI="],[1.5,null]]},{"columns":["a"],"types":["text"]}`
	want(t, call(t, h, "POST", "/db/execute", body), http.StatusOK,
		`{"results":[{"last_insert_id":1,"rows_affected":2},{},{"error":"UNIQUE constraint failed: \"x\""},`+rows+`],"seq":43}`)
	want(t, call(t, h, "POST", "/db/execute?raft_index&timings", body), http.StatusOK,
		`{"results":[{"last_insert_id":1,"rows_affected":2,"time":0},{"time":0},{"error":"UNIQUE constraint failed: \"x\""},`+
			`{"columns":["a","b"],"types":["integer",""],"values":[[9223372036854775807,"AQI="],[1.5,null]],"time":0},{"columns":["a"],"types":["text"],"time":0}],"seq":43,"raft_index":43,"time":0}`)
	want(t, call(t, h, "POST", "/db/request?associative&blob_array", body), http.StatusOK,
		`{"results":[{"last_insert_id":1,"rows_affected":2,"rows":null},{"rows":null},{"error":"UNIQUE constraint failed: \"x\""},`+
			`{"types":{"a":"integer","b":""},"rows":[{"a":9223372036854775807,"b":[1,2]},{"a":1.5,"b":null}]},{"types":{"a":"text"},"rows":[]}],"seq":43}`)
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
