package orchestratorapi_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/orchestratorapi"
)

func versioned(cfg *orchestratorapi.Config) { cfg.Version = "1.2.3" }

// Clients that look for the leader find this node, under the address they used.
func TestDiscovery_TellsOfOneLeader(t *testing.T) {
	h := newAPI(&system{}, versioned)
	node := `{"id":"orchestrator","api_addr":"http://example.com","addr":"example.com","version":"1.2.3","voter":true,"reachable":true,"leader":true}`
	want(t, call(t, h, "GET", "/nodes?nonvoters", ""), http.StatusOK, `{"orchestrator":`+node+`}`)
	want(t, call(t, h, "GET", "/nodes?ver=2", ""), http.StatusOK, `{"nodes":[`+node+`]}`)
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/nodes", nil)
	r.TLS = &tls.ConnectionState{}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	want(t, w, http.StatusOK, strings.Replace(`{"orchestrator":`+node+`}`, "http:", "https:", 1))
}

// With pretty the state is the same, indented.
func TestState_Pretty(t *testing.T) {
	h := newAPI(&system{}, versioned)
	for _, path := range []string{"/nodes?", "/nodes?ver=2&", "/status?key=store.leader&", "/status?key=build.nope&"} {
		var indented bytes.Buffer
		if err := json.Indent(&indented, call(t, h, "GET", path, "").Body.Bytes(), "", "    "); err != nil {
			t.Fatal(err)
		}
		got := strings.TrimSpace(call(t, h, "GET", path+"pretty", "").Body.String())
		if got != indented.String() {
			t.Errorf("%s: got %s, want %s", path, got, &indented)
		}
	}
}

// The status has the members that rqlite's clients read, and each alone.
func TestStatus_HasWhatClientsRead(t *testing.T) {
	version := func(dbaas.Read) (dbaas.ReadResult, error) {
		return dbaas.ReadResult{Body: []byte(`[{"v":"3.9.1"}]`)}, nil
	}
	h := newAPI(&system{read: version}, versioned)
	for key, body := range map[string]string{
		"build.version":                       `"1.2.3"`,
		"http.queue._default.sequence_number": "0",
		"store.ready":                         "true",
		"store.node_id":                       `"orchestrator"`,
		"store.leader":                        `{"addr":"example.com","node_id":"orchestrator"}`,
		"store.nodes":                         `[{"addr":"example.com","id":"orchestrator","suffrage":"voter"}]`,
		"store.sqlite3.version":               `"3.9.1"`,
		"store.sqlite3.version.x":             "{}",
		"nope":                                "{}",
		"store.":                              "{}",
	} {
		want(t, call(t, h, "GET", "/status?key="+key, ""), http.StatusOK, body)
	}
	var all map[string]map[string]any
	w := call(t, h, "GET", "/status", "")
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"build", "http", "node", "os", "runtime", "store"} {
		if len(all[name]) == 0 {
			t.Errorf("no %s in %s", name, w.Body)
		}
	}
	if strings.Contains(w.Body.String(), "/") {
		t.Errorf("a path in %s", w.Body)
	}
}

// The sequence number of the status is the highest number up to which persdb has all queued writes. The next read sees them.
func TestStatus_SequenceNumberIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := map[dbaas.OpID]bool{}
		s := &system{lookup: func(id dbaas.OpID) (dbaas.OperationResult, error) {
			if !done[id] {
				return dbaas.OperationResult{}, dbaas.Errorf(dbaas.CodeNotFound, "not found")
			}
			return dbaas.OperationResult{Seq: dbaas.Seq(len(done))}, nil
		}}
		h := newAPI(s)
		var numbers []string
		for range 100 {
			w := call(t, h, "POST", "/db/execute?queue", `["INSERT INTO t VALUES(1)"]`)
			var answer struct {
				Number json.Number `json:"sequence_number"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, answer.Number.String())
		}
		var got []string
		ask := func() {
			got = append(got, call(t, h, "GET", "/status?key=http.queue._default.sequence_number", "").Body.String())
		}
		finish := func(ops []dbaas.Operation) {
			for _, op := range ops {
				done[op.ID] = true
			}
			ask()
		}
		ask()
		finish(s.ops[1:91])
		finish(s.ops[:1])
		if s.seen != 91 {
			t.Errorf("the next read sees position %d, want 91", s.seen)
		}
		finish(s.ops[99:100])
		finish(s.ops[91:99])
		w := call(t, h, "POST", "/db/execute?queue&wait", `["INSERT INTO t VALUES(1)"]`)
		ask()
		if !strings.Contains(w.Body.String(), `"sequence_number":`+got[len(got)-1]+",") {
			t.Errorf("got %s after %s", got[len(got)-1], w.Body)
		}
		if d := cmp.Diff([]string{"0", "0", numbers[90], numbers[90], numbers[99]}, got[:5]); d != "" {
			t.Error(d)
		}
	})
}

// Very many queued writes do not take the time of the rest of the status.
func TestStatus_ManyQueued_LeavesTimeForTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &system{lookup: func(dbaas.OpID) (dbaas.OperationResult, error) {
			<-time.After(10 * time.Millisecond)
			return dbaas.OperationResult{Seq: 1}, nil
		}}
		h := newAPI(s)
		for range 2000 {
			call(t, h, "POST", "/db/execute?queue", `["INSERT INTO t VALUES(1)"]`)
		}
		began := time.Now()
		call(t, h, "GET", "/status", "")
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("the status took %v", took)
		}
	})
}

// A queued write that is sent again with its key has ended under its new number, too.
func TestStatus_SequenceNumberOfARepetition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &system{lookup: func(dbaas.OpID) (dbaas.OperationResult, error) { return dbaas.OperationResult{Seq: 1}, nil }}
		h := newAPI(s)
		w := call(t, h, "POST", "/db/execute?queue", `["INSERT INTO t VALUES(1)"]`, "Idempotency-Key: k")
		got := call(t, h, "GET", "/status?key=http.queue._default.sequence_number", "").Body.String()
		if !strings.Contains(w.Body.String(), `"sequence_number":`+got) || got == "0" {
			t.Errorf("got %s after %s", got, w.Body)
		}
	})
}

// Of the writes that were accepted here, the newest are remembered.
func TestRespondAsync_NewestAreRemembered(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	var ids []string
	for i := range orchestratorapi.MaxPending + 100 {
		call(t, h, "POST", "/db/execute", `["DELETE FROM t"]`, "Prefer: respond-async", fmt.Sprint("Idempotency-Key: ", i))
		ids = append(ids, s.lastOp(t).ID.String())
	}
	for _, id := range ids[200:300] {
		want(t, call(t, h, "GET", "/api/v1/db/writes/"+id, ""), http.StatusOK, `{"id":"`+id+`","status":"pending"}`)
	}
	want(t, call(t, h, "GET", "/api/v1/db/writes/"+ids[0], ""), http.StatusNotFound, "")
}

// Without a master the node is ready only for clients that need none.
func TestReady_NoLeader(t *testing.T) {
	s := &system{workers: func() ([]orchestratorapi.WorkerInfo, error) {
		return []orchestratorapi.WorkerInfo{{Role: dbaas.RoleSlave, Ready: true}}, nil
	}}
	h := newAPI(s)
	want(t, call(t, h, "GET", "/readyz", ""), http.StatusServiceUnavailable, "")
	want(t, call(t, h, "GET", "/readyz?noleader&sync&timeout=1s", ""), http.StatusOK, "{}")
}
