package orchestratorapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/orchestrator/orchestratorapi"
)

// The same key names the same operation; another body has another fingerprint.
func TestIdempotencyKey_NamesTheOperation(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	for _, path := range []string{"/api/v1/db/write", "/api/v1/db/clear", "/db/execute", "/db/request"} {
		body := map[bool]string{true: writeBody, false: `["DELETE FROM t"]`}[strings.HasPrefix(path, "/api")]
		want(t, call(t, h, "POST", path, body, "Idempotency-Key: k 1"), http.StatusOK, "")
		first := s.lastOp(t)
		want(t, call(t, h, "POST", path, body, "Idempotency-Key: k 1"), http.StatusOK, "")
		if second := s.lastOp(t); first.ID != keyID(path, "k 1") || second.ID != first.ID || second.Fingerprint != first.Fingerprint {
			t.Errorf("%s: got %v and %v, want the key's operation twice", path, first, second)
		}
		want(t, call(t, h, "POST", path, body), http.StatusOK, "")
		if third := s.lastOp(t); third.ID == first.ID {
			t.Errorf("%s: a request without key has the key's id", path)
		}
	}
	for _, key := range []string{"", strings.Repeat("x", 256), "a\tb", "é"} {
		want(t, call(t, h, "POST", "/api/v1/db/write", writeBody, "Idempotency-Key: "+key), http.StatusBadRequest, "{}")
	}
}

// keyID is the id of the operation that a key names on a route.
func keyID(path, key string) dbaas.OpID {
	return httpapi.KeyScope{Service: httpapi.Orchestrator, Method: http.MethodPost, Path: path}.OpID(key)
}

// A key is scoped to its caller and its route: the same key from another caller or on another route names another write.
func TestIdempotencyKey_OfAnotherCallerOrRoute_IsAnotherOperation(t *testing.T) {
	creds, err := httpapi.ParseCredentials(strings.NewReader("bearer one\nbearer two\nbasic ann:x\n"))
	if err != nil {
		t.Fatal(err)
	}
	started, release := make(chan struct{}), make(chan struct{})
	s := &system{}
	s.write = func(op dbaas.Operation) (dbaas.OperationResult, error) {
		started <- struct{}{}
		<-release
		return dbaas.OperationResult{ID: op.ID, Seq: 1, Statements: make([]dbaas.StatementResult, len(op.Statements))}, nil
	}
	h := newAPI(s, func(c *orchestratorapi.Config) { c.Credentials = creds })
	done := make(chan int)
	sent := 0
	for _, path := range []string{"/db/execute", "/db/request"} {
		for _, caller := range []string{"Bearer one", "Bearer two", "Basic YW5uOng="} {
			sent++
			go func() {
				done <- call(t, h, "POST", path, `["UPDATE c SET n = n + 1"]`, "Idempotency-Key: 1", "Authorization: "+caller).Code
			}()
			select { // all of them run at the same time
			case <-started:
			case code := <-done:
				t.Fatalf("%s by %s: got %d while others with this key run", path, caller, code)
			}
		}
	}
	close(release)
	for range sent {
		if code := <-done; code != http.StatusOK {
			t.Errorf("got %d, want 200", code)
		}
	}
	ids := map[dbaas.OpID]bool{}
	for _, op := range s.ops {
		ids[op.ID] = true
	}
	if len(ids) != sent {
		t.Errorf("got %d operations for %d callers and routes", len(ids), sent)
	}
}

// While a request with a key runs, the same request is 409 and another request with that key is 422. Afterwards
// neither is refused.
func TestIdempotencyKey_StillRunning_IsConflict(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	s := &system{}
	s.write = func(op dbaas.Operation) (dbaas.OperationResult, error) {
		started <- struct{}{}
		<-release
		return dbaas.OperationResult{ID: op.ID, Seq: 1}, nil
	}
	h := newAPI(s)
	done := make(chan int, 1)
	go func() { done <- call(t, h, "POST", "/api/v1/db/write", writeBody, "Idempotency-Key: k").Code }()
	<-started
	want(t, call(t, h, "POST", "/api/v1/db/write", writeBody, "Idempotency-Key: k"), http.StatusConflict, "{}")
	if w := call(t, h, "POST", "/api/v1/db/write", writeBody, "Idempotency-Key: k", "Accept: application/problem+json"); !strings.Contains(w.Body.String(), `"reason":"running"`) {
		t.Errorf("got %s, want the reason running", w.Body)
	}
	want(t, call(t, h, "POST", "/api/v1/db/write", strings.Replace(writeBody, "ann", "bob", 1), "Idempotency-Key: k"), http.StatusUnprocessableEntity, "{}")
	want(t, call(t, h, "POST", "/api/v1/db/write", writeBody, "Idempotency-Key: k", "Prefer: respond-async"), http.StatusConflict, "{}")
	want(t, call(t, h, "POST", "/api/v1/db/clear", "", "Idempotency-Key: k", "Prefer: respond-async"), http.StatusAccepted, "")
	release <- struct{}{}
	if code := <-done; code != http.StatusOK {
		t.Errorf("the first request: got %d", code)
	}
	go func() { <-started; release <- struct{}{} }()
	want(t, call(t, h, "POST", "/api/v1/db/write", writeBody, "Idempotency-Key: k"), http.StatusOK, "{}")
}

// On every write route a client that prefers not to wait gets 202 and an id once the broker
// has the operation.
func TestRespondAsync_AnswersWithAnID(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	for path, body := range map[string]string{"/api/v1/db/write": writeBody, "/api/v1/db/clear": "", "/db/execute": `["DELETE FROM t"]`} {
		w := call(t, h, "POST", path, body, "Prefer: wait=1, respond-async")
		id := s.lastOp(t).ID.String()
		want(t, w, http.StatusAccepted, `{"id":"`+id+`","status":"pending"}`)
		if w.Header().Get("Location") != "/api/v1/db/writes/"+id || w.Header().Get("Preference-Applied") != "respond-async" {
			t.Errorf("%s: got headers %v", path, w.Header())
		}
		want(t, call(t, h, "GET", w.Header().Get("Location"), ""), http.StatusOK, `{"id":"`+id+`","status":"pending"}`)
	}
	s.enqueue = func(dbaas.Operation) error { return dbaas.ErrUnavailable }
	w := call(t, h, "POST", "/api/v1/db/write", writeBody, "Prefer: respond-async")
	if want(t, w, http.StatusServiceUnavailable, "{}"); w.Header().Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
}

// A key that belongs to another accepted write is refused, whether that write has ended or not. The same write is accepted
// again, and is sent again unless persdb has its result.
func TestRespondAsync_KeyOfAnotherRequest(t *testing.T) {
	const async, key = "Prefer: respond-async", "Idempotency-Key: k"
	other := strings.Replace(writeBody, "ann", "bob", 1)
	s := &system{}
	h := newAPI(s)
	send := func(body string, status int, sent int) {
		t.Helper()
		before := len(s.ops)
		want(t, call(t, h, "POST", "/api/v1/db/write", body, async, key), status, "")
		if got := len(s.ops) - before; got != sent {
			t.Errorf("%d operations were sent, want %d", got, sent)
		}
	}
	send(writeBody, http.StatusAccepted, 1)
	send(other, http.StatusUnprocessableEntity, 0)
	send(writeBody, http.StatusAccepted, 1)

	s = &system{lookup: func(dbaas.OpID) (dbaas.OperationResult, error) { return dbaas.OperationResult{Seq: 5}, nil }}
	s.enqueue = func(dbaas.Operation) error { t.Error("a known operation was enqueued"); return nil }
	h = newAPI(s) // another orchestrator, after the write has ended
	send(writeBody, http.StatusAccepted, 1)
	s.write = func(dbaas.Operation) (dbaas.OperationResult, error) {
		return dbaas.OperationResult{}, dbaas.Errorf(dbaas.CodeMismatch, "another request")
	}
	send(other, http.StatusUnprocessableEntity, 1)
}

// A write with the key of an operation that has ended passes the stages that count operations once: what they refuse is refused, and
// after any other failure it is queued.
func TestRespondAsync_KnownKey_RefusedOnce(t *testing.T) {
	for reason, sent := range map[string]int{
		dbaas.ReasonEventBreaker: 1, dbaas.ReasonDepthBreaker: 1, dbaas.ReasonDepthWait: 1, dbaas.ReasonMaster: 2, dbaas.ReasonDeadline: 2,
	} {
		s := &system{
			lookup: func(dbaas.OpID) (dbaas.OperationResult, error) { return dbaas.OperationResult{Seq: 5}, nil },
			write: func(dbaas.Operation) (dbaas.OperationResult, error) {
				return dbaas.OperationResult{}, dbaas.Refuse(reason, 0, "x")
			},
		}
		status := http.StatusAccepted
		if sent == 1 {
			status = http.StatusServiceUnavailable
		}
		w := call(t, newAPI(s), "POST", "/api/v1/db/write", writeBody, "Prefer: respond-async", "Idempotency-Key: k", problems)
		if len(s.ops) != sent || w.Code != status || sent == 1 && problemOf(t, w).Reason != reason {
			t.Errorf("%s: got %d %s after %d operations, want %d after %d", reason, w.Code, w.Body, len(s.ops), status, sent)
		}
	}
}

// Where nothing survives a restart, an accepted write has ended when it is answered. persdb does not record a read.
func TestRespondAsync_VolatileBus_HasEnded(t *testing.T) {
	h := newAPI(&system{volatile: true})
	w := call(t, h, "POST", "/db/execute", `["SELECT 1"]`, "Prefer: respond-async")
	want(t, w, http.StatusAccepted, "")
	state := call(t, h, "GET", w.Header().Get("Location"), "")
	if want(t, state, http.StatusOK, ""); !strings.Contains(state.Body.String(), `"status":"applied"`) {
		t.Errorf("got %s", state.Body)
	}
	want(t, call(t, h, "POST", "/db/execute?queue", `["SELECT 1"]`), http.StatusOK, "")
	want(t, call(t, h, "POST", "/db/execute?queue&wait&timeout=1s", ""), http.StatusOK, "")
}

// A write whose acceptance is in doubt is pending.
func TestRespondAsync_Unknown_IsPending(t *testing.T) {
	for _, volatile := range []bool{false, true} {
		s := &system{volatile: volatile, enqueue: func(op dbaas.Operation) error { return &dbaas.Error{Code: dbaas.CodeUnknown, Op: op.ID} }}
		h := newAPI(s)
		want(t, call(t, h, "POST", "/api/v1/db/write", writeBody, "Prefer: respond-async", "Idempotency-Key: k"), http.StatusGatewayTimeout, "{}")
		id := s.lastOp(t).ID.String()
		want(t, call(t, h, "GET", "/api/v1/db/writes/"+id, ""), http.StatusOK, `{"id":"`+id+`","status":"pending"}`)
	}
}

// The state of a write is its outcome as stored in persdb.
func TestWriteStatus_TellsWhatBecame(t *testing.T) {
	id := dbaas.NewOpID(epochStart.Add(-time.Minute))
	path := "/api/v1/db/writes/" + id.String()
	for _, c := range []struct {
		result dbaas.OperationResult
		err    error
		status int
		says   string
	}{
		{dbaas.OperationResult{Seq: 5, Statements: []dbaas.StatementResult{{RowsAffected: 1}}}, nil, 200, `"status":"applied","seq":5,"results":[{"rows_affected":1}]`},
		{dbaas.OperationResult{Seq: 5, Statements: []dbaas.StatementResult{{Code: dbaas.CodeConstraint, Message: "UNIQUE"}}}, nil, 200, `"status":"failed","seq":5,"code":"constraint","detail":"UNIQUE"`},
		{dbaas.OperationResult{Code: dbaas.CodeMismatch, Message: "other"}, nil, 200, `"status":"failed"`},
		{dbaas.OperationResult{}, dbaas.Errorf(dbaas.CodeNotFound, "x"), 200, `"status":"pending"`},
		{dbaas.OperationResult{}, dbaas.ErrUnavailable, 503, `"code":"unavailable"`},
	} {
		s := &system{lookup: func(dbaas.OpID) (dbaas.OperationResult, error) { return c.result, c.err }}
		w := call(t, newAPI(s), "GET", path, "")
		if want(t, w, c.status, ""); !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("got %s, want %s", w.Body, c.says)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("invalid JSON: %s", w.Body)
		}
	}
}

// A client that learned that a write is applied must be able to read it: its reads wait for the write's position.
func TestWriteStatus_Applied_TheNextReadSeesIt(t *testing.T) {
	s := &system{lookup: func(dbaas.OpID) (dbaas.OperationResult, error) { return dbaas.OperationResult{Seq: 77}, nil }}
	h := newAPI(s)
	want(t, call(t, h, "GET", "/api/v1/db/writes/"+dbaas.NewOpID(epochStart).String(), ""), http.StatusOK, "")
	if s.seen != 77 {
		t.Errorf("the next read has to see position %d, want 77", s.seen)
	}
}

// An id that cannot belong to an accepted write is 404: malformed, derived from a key
// that no client sent, too old, or from the future.
func TestWriteStatus_Unknown_Is404(t *testing.T) {
	h := newAPI(&system{})
	for _, id := range []string{
		"x", "..", "00000000-0000-0000-0000-000000000000", dbaas.OpIDFromKey("never sent").String(),
		dbaas.NewOpID(epochStart.Add(-2 * time.Hour)).String(), dbaas.NewOpID(epochStart.Add(time.Hour)).String(),
	} {
		want(t, call(t, h, "GET", "/api/v1/db/writes/"+id, ""), http.StatusNotFound, "")
	}
}

// An accepted operation with a key is pending until persdb has it, or until it is too old for persdb to remember.
func TestWriteStatus_KeyedOperation_IsPending(t *testing.T) {
	now := epochStart
	h := newAPI(&system{}, func(c *orchestratorapi.Config) { c.Now = func() time.Time { return now } })
	want(t, call(t, h, "POST", "/api/v1/db/write", writeBody, "Idempotency-Key: k", "Prefer: respond-async"), http.StatusAccepted, "")
	path := "/api/v1/db/writes/" + keyID("/api/v1/db/write", "k").String()
	want(t, call(t, h, "GET", path, ""), http.StatusOK, "")
	now = now.Add(2 * time.Hour)
	want(t, call(t, h, "GET", path, ""), http.StatusNotFound, "")
}
