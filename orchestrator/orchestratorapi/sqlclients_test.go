package orchestratorapi_test

import (
	"net/http"
	"strings"
	"testing"
)

// What clients of rqlite send is served. None of these requests waits in the queue, unless it is for /db/execute.
func TestSQLForm_ClientsOfRqlite(t *testing.T) {
	const jdbc = "timeout=5s&wait=true&level=linearizable&linearizable_timeout=5s&freshness=5s"
	for client, targets := range map[string][]string{
		"rqlite-js":   {"query?q=SELECT%201&level=strong&pretty=true&timings=true", "execute?atomic=true&transaction=true&timings=true"},
		"pyrqlite":    {"query?", "query?level=strong", "execute?transaction", "execute?transaction&queue&wait"},
		"rqlite-jdbc": {"query?" + jdbc, "query?queue=true&" + jdbc, "request?queue=true&" + jdbc, "execute?queue=true&transaction=true&" + jdbc, "query?queue=true&level=none"},
		"rqlite-dotnet": {
			"query?timings&q=SELECT%201&level=auto", "query?timings", "execute?timings", "execute?timings&transaction", "request?timings&transaction",
		},
		"rqdb":           {"query?level=none&freshness=5m", "query?level=weak&redirect", "execute", "execute?transaction"},
		"rqlite-go-http": {"query?associative=true&level=linearizable&linearizable_timeout=1s", "request?level=weak&transaction=true", "execute?queue=true&timeout=30s&wait=true"},
	} {
		for _, target := range targets {
			s := &system{}
			method, body := "POST", `["SELECT 1"]`
			if strings.Contains(target, "q=") {
				method, body = "GET", ""
			}
			if w := call(t, newAPI(s), method, "/db/"+target, body); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "op_id") {
				t.Errorf("%s: %s: got %d %s", client, target, w.Code, w.Body)
			}
		}
	}
}

// atomic is another name of transaction.
func TestDBExecute_Atomic_IsATransaction(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	want(t, call(t, h, "POST", "/db/execute?atomic=true", `["a"]`), http.StatusOK, "")
	if !s.lastOp(t).Atomic {
		t.Error("the operation is not atomic")
	}
	want(t, call(t, h, "POST", "/db/execute?atomic=false", `["a"]`), http.StatusBadRequest, "")
}

// With transaction the results of reads at /db/request end at the first error, as those of writes do.
func TestDBRequest_Transaction_ReadsEndAtTheError(t *testing.T) {
	const failed = `{"error":"no such column: \"}[","time":0.5}`
	for body, ends := range map[string]string{
		failed + `,{"columns":["1"],"types":["integer"],"values":[[1]]}`:                                   failed,
		`{},{"columns":["a"],"types":["text"],"values":[["{\"error\":"],["]}"]]},` + failed + "," + failed: `{},{"columns":["a"],"types":["text"],"values":[["{\"error\":"],["]}"]]},` + failed,
		`{"types":{"error":"text"},"rows":[{"error":"a"},{"error":"b"}]},{}`:                               `{"types":{"error":"text"},"rows":[{"error":"a"},{"error":"b"}]},{}`,
	} {
		h := newAPI(&system{read: answered(body)})
		for path, results := range map[string]string{"/db/request?transaction": ends, "/db/request": body, "/db/query?transaction": body} {
			want(t, call(t, h, "POST", path, `["SELECT nope","SELECT 1"]`), http.StatusOK, `{"results":[`+results+`]}`)
		}
	}
}

// A write at /db/request is never queued: its result is in the answer.
func TestDBRequest_Queue_WritesAtOnce(t *testing.T) {
	s := &system{}
	w := call(t, newAPI(s), "POST", "/db/request?queue", `["DELETE FROM t"]`)
	if want(t, w, http.StatusOK, ""); strings.Contains(w.Body.String(), "sequence_number") || !strings.Contains(w.Body.String(), `"seq":`) {
		t.Errorf("got %s", w.Body)
	}
}
