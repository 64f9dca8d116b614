package orchestratorapi_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/orchestrator/orchestratorapi"
)

// A large answer has the same form as a small one, with a Content-Length: a client takes an answer without one for a very
// large one. It is indented if there is room for that.
func TestAnswer_Long_SameAsShort(t *testing.T) {
	for _, n := range []int{10, 1_000, 30_000, 200_000} {
		rows := `{"columns":["a"],"types":[""],"values":[[1]` + strings.Repeat(`,[1]`, n) + `]}`
		s := &system{read: func(dbaas.Read) (dbaas.ReadResult, error) { return dbaas.ReadResult{Seq: 42, Body: []byte(rows)}, nil }}
		h := newAPI(s, func(c *orchestratorapi.Config) { c.Budget = httpapi.NewBudget(8 << 20) })
		whole := `{"results":[` + rows + `],"raft_index":42}`
		w := call(t, h, "POST", "/db/query?raft_index", `["SELECT 1"]`)
		if want(t, w, http.StatusOK, ""); w.Body.String() != whole || w.Header().Get("X-Seq") != "42" {
			t.Errorf("%d rows: got %.100s, want %.100s", n, w.Body, whole)
		}
		if length := w.Header().Get("Content-Length"); n > 100 && length != strconv.Itoa(len(whole)) {
			t.Errorf("%d rows: got length %s, want %d", n, length, len(whole))
		}
		w = call(t, h, "POST", "/db/query?pretty&raft_index", `["SELECT 1"]`)
		var got, wanted any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || json.Unmarshal([]byte(whole), &wanted) != nil || len(w.Body.Bytes()) < len(whole) {
			t.Errorf("%d rows, pretty: got %.100s, %v", n, w.Body, err)
		}
		if indented := strings.Contains(w.Body.String(), "\n"); indented != (n < 100_000) {
			t.Errorf("%d rows, pretty: indented %v", n, indented)
		}
		if length := w.Header().Get("Content-Length"); n > 100 && length != strconv.Itoa(w.Body.Len()) {
			t.Errorf("%d rows, pretty: got length %s, want %d", n, length, w.Body.Len())
		}
		w = call(t, h, "POST", "/api/v1/db/read", `{"table":"t","columns":["a"]}`)
		if want(t, w, http.StatusOK, ""); w.Body.String() != rows {
			t.Errorf("%d rows, structured: got %.100s", n, w.Body)
		}
	}
}

// An answer for which the budget has no room is refused, and so is a body whose parameters need more than the budget.
func TestAnswer_NoRoom_IsRefused(t *testing.T) {
	s := &system{read: func(dbaas.Read) (dbaas.ReadResult, error) {
		return dbaas.ReadResult{Seq: 42, Body: make([]byte, 2<<20)}, nil
	}}
	h := newAPI(s, func(c *orchestratorapi.Config) { c.Budget = httpapi.NewBudget(1 << 20) })
	for _, path := range []string{"/db/query", "/db/request"} {
		want(t, call(t, h, "POST", path, `["SELECT 1"]`), http.StatusRequestEntityTooLarge, "")
	}
	w := call(t, h, "POST", "/db/execute", `[["INSERT INTO t VALUES(?)"`+strings.Repeat(",1", 40_000)+`]]`)
	if want(t, w, http.StatusRequestEntityTooLarge, ""); len(s.ops) > 0 || !strings.Contains(w.Body.String(), "memory") {
		t.Errorf("got %d operations and %s, want the reason", len(s.ops), w.Body)
	}
	want(t, call(t, h, "POST", "/db/execute", `["DELETE FROM t"]`), http.StatusOK, "")
}

// A request with more statements than allowed is refused as too large, not run in part.
func TestMaxStatements_Over_TooLarge(t *testing.T) {
	s := &system{}
	h := newAPI(s, func(c *orchestratorapi.Config) { c.MaxStatements = 2 })
	want(t, call(t, h, "POST", "/db/execute", `["a","b"]`), http.StatusOK, "")
	for _, path := range []string{"/db/execute", "/db/query", "/db/request"} {
		w := call(t, h, "POST", path, `["SELECT 1","SELECT 1","SELECT 1"]`)
		if want(t, w, http.StatusRequestEntityTooLarge, ""); !strings.Contains(w.Body.String(), "at most 2 statements") {
			t.Errorf("%s: got %s, want the limit", path, w.Body)
		}
	}
	if len(s.ops) != 1 || len(s.reads) != 0 {
		t.Errorf("got %d operations and %d reads, want the one that was allowed", len(s.ops), len(s.reads))
	}
}
