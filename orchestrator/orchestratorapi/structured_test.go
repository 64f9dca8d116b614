package orchestratorapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"
)

const (
	readBody  = `{"table":"users","columns":["username"],"condition":{"username":"ann"}}`
	writeBody = `{"query":"insert","table":"users","values":{"username":"ann","password":"x"}}`
)

// A structured read passes the worker's rows through and has a deadline, a position
// and a request id. It sees every write acknowledged before it.
func TestDBRead_Valid_IsDispatched(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	w := call(t, h, "POST", "/api/v1/db/read", readBody, "X-Request-Id: abc", "X-Rideshare-User: ann", "Content-Type: text/plain")
	want(t, w, http.StatusOK, `[{"username":"ann"}]`)
	if got := w.Header().Get("X-Seq"); got != "42" {
		t.Errorf("got X-Seq %q, want 42", got)
	}
	wantRead := dbaas.Read{
		RequestID: "abc", User: "ann", Deadline: epochStart.Add(5 * time.Second), Recent: true, Format: dbaas.FormatObjects,
		Statements: []dbaas.Statement{{
			SQL:  `SELECT "users"."username" AS "username" FROM "users" WHERE "users"."username" = ?1`,
			Args: []dbaas.Value{dbaas.Text("ann")},
		}},
	}
	if diff := cmp.Diff(wantRead, s.lastRead(t)); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	want(t, call(t, h, "POST", "/api/v1/db/read", readBody, "X-Min-Seq: 9"), http.StatusOK, "")
	if got := s.lastRead(t); got.MinSeq != 9 || !got.Recent {
		t.Errorf("X-Min-Seq 9: got position %d, recent %v", got.MinSeq, got.Recent)
	}
}

// Every body that is not exactly a structured statement is 400 and counts for nothing.
func TestDB_BrokenBodies_Are400(t *testing.T) {
	s := &system{}
	h := newAPI(s)
	for _, body := range []string{"", "null", "{", "[]", `{"table":"t"}`, `{"table":"t","columns":["a"],"x":1}`, readBody + "x", readBody + readBody} {
		want(t, call(t, h, "POST", "/api/v1/db/read", body), http.StatusBadRequest, "{}")
		want(t, call(t, h, "POST", "/api/v1/db/write", body), http.StatusBadRequest, "{}")
	}
	want(t, call(t, h, "POST", "/api/v1/db/read", readBody, "X-Min-Seq: -1"), http.StatusBadRequest, "{}")
	want(t, call(t, h, "POST", "/api/v1/db/read", strings.Repeat(" ", 1<<20)+readBody), http.StatusRequestEntityTooLarge, "{}")
	if len(s.reads)+len(s.ops)+s.count.reads != 0 {
		t.Errorf("got %d reads, %d operations, %d counted: want none", len(s.reads), len(s.ops), s.count.reads)
	}
	w := call(t, h, "POST", "/api/v1/db/write", `{"insert":"x","column":"y","table":"users"}`, "Accept: application/problem+json")
	if want(t, w, http.StatusBadRequest, ""); !strings.Contains(w.Body.String(), "/db/execute") {
		t.Errorf("got %s, want the SQL form named", w.Body)
	}
}

// Reads are counted for scaling once their body is valid, also when they fail later.
func TestDBRead_ValidBody_Counts(t *testing.T) {
	s := &system{read: func(dbaas.Read) (dbaas.ReadResult, error) { return dbaas.ReadResult{}, dbaas.ErrUnavailable }}
	h := newAPI(s)
	call(t, h, "POST", "/api/v1/db/read", readBody)
	call(t, h, "GET", "/db/query?q=SELECT+1", "")
	call(t, h, "POST", "/db/request", `["SELECT 1"]`)
	call(t, h, "POST", "/db/query", `[]`)
	call(t, h, "POST", "/api/v1/db/write", writeBody)
	if s.count.reads != 3 || s.count.requests != 5 {
		t.Errorf("got %d reads and %d requests, want 3 and 5", s.count.reads, s.count.requests)
	}
}

// An error behind the API becomes the status that tells the client what to do.
func TestDB_Errors_BecomeStatuses(t *testing.T) {
	op := dbaas.NewOpID(epochStart)
	for _, c := range []struct {
		err        *dbaas.Error
		status     int
		retryAfter bool
		opID       bool
	}{
		{dbaas.Errorf(dbaas.CodeInvalid, "no such table: x"), 400, false, false},
		{dbaas.Errorf(dbaas.CodeConstraint, "UNIQUE constraint failed: users.username"), 400, false, false},
		{dbaas.Errorf(dbaas.CodeMismatch, "other body"), 422, false, false},
		{dbaas.Errorf(dbaas.CodeUnavailable, "no master"), 503, true, false},
		{dbaas.Errorf(dbaas.CodeNotCaughtUp, "not caught up"), 503, true, false},
		{dbaas.Errorf(dbaas.CodeTimeout, "no answer"), 504, false, false},
		{&dbaas.Error{Code: dbaas.CodeUnknown, Message: "not known", Op: op}, 504, false, true},
	} {
		s := &system{
			read:  func(dbaas.Read) (dbaas.ReadResult, error) { return dbaas.ReadResult{}, c.err },
			write: func(dbaas.Operation) (dbaas.OperationResult, error) { return dbaas.OperationResult{}, c.err },
		}
		h := newAPI(s)
		for path, body := range map[string]string{"/api/v1/db/read": readBody, "/api/v1/db/write": writeBody, "/api/v1/db/clear": ""} {
			w := call(t, h, "POST", path, body)
			want(t, w, c.status, "{}")
			if (w.Header().Get("Retry-After") != "") != c.retryAfter {
				t.Errorf("%s %s: got Retry-After %q", path, c.err.Code, w.Header().Get("Retry-After"))
			}
			if (w.Header().Get("X-Operation-Id") == op.String()) != c.opID {
				t.Errorf("%s %s: got X-Operation-Id %q", path, c.err.Code, w.Header().Get("X-Operation-Id"))
			}
		}
		w := call(t, h, "POST", "/api/v1/db/write", writeBody, "Accept: application/problem+json")
		if !strings.Contains(w.Body.String(), c.err.Message) || c.opID != strings.Contains(w.Body.String(), op.String()) {
			t.Errorf("%s: got problem %s", c.err.Code, w.Body)
		}
		w = call(t, h, "POST", "/db/execute", `["DELETE FROM x"]`)
		if want(t, w, c.status, ""); w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("/db/execute: got %s %s, want a problem", w.Header().Get("Content-Type"), w.Body)
		}
	}
}

// A structured write becomes one operation and answers {} with its position.
func TestDBWrite_Valid_IsDispatched(t *testing.T) {
	s := &system{}
	w := call(t, newAPI(s), "POST", "/api/v1/db/write", writeBody, "X-Request-Id: abc", "X-Rideshare-User: ann")
	want(t, w, http.StatusOK, "{}")
	if got := w.Header().Get("X-Seq"); got != "43" {
		t.Errorf("got X-Seq %q, want 43", got)
	}
	op := s.lastOp(t)
	statements := []dbaas.Statement{{
		SQL: `INSERT INTO "users" ("password", "username") VALUES (?1, ?2)`, Args: []dbaas.Value{dbaas.Text("x"), dbaas.Text("ann")},
	}}
	wantOp := dbaas.Operation{
		ID: op.ID, Fingerprint: wire.FingerprintOf(false, statements), Deadline: epochStart.Add(5 * time.Second),
		Statements: statements, RequestID: "abc", User: "ann",
	}
	if diff := cmp.Diff(wantOp, op); diff != "" {
		t.Errorf("operation (-want +got):\n%s", diff)
	}
	if op.ID.IsZero() {
		t.Error("the operation has no id")
	}
	call(t, newAPI(s), "POST", "/api/v1/db/write", writeBody, "Idempotency-Key: k")
	if op := s.lastOp(t); !op.Resent {
		t.Error("a write with a key: got it marked as the first of its id, which is not known")
	}
}

// A statement that the database refused is 400.
func TestDBWrite_FailedStatement_Is400(t *testing.T) {
	for _, code := range []dbaas.Code{dbaas.CodeConstraint, dbaas.CodeInvalid} {
		s := &system{write: func(op dbaas.Operation) (dbaas.OperationResult, error) {
			return dbaas.OperationResult{ID: op.ID, Seq: 5, Statements: []dbaas.StatementResult{{Code: code, Message: "refused"}}}, nil
		}}
		want(t, call(t, newAPI(s), "POST", "/api/v1/db/write", writeBody), http.StatusBadRequest, "{}")
	}
}

// db/clear is one atomic operation that empties users, rides and seats and restarts
// ride ids. A body is ignored, and the counters stay.
func TestDBClear_IsOneOperation(t *testing.T) {
	s := &system{}
	for _, body := range []string{"", "{}", "nonsense"} {
		want(t, call(t, newAPI(s), "POST", "/api/v1/db/clear", body), http.StatusOK, "{}")
		op := s.lastOp(t)
		var sql []string
		for _, st := range op.Statements {
			sql = append(sql, st.SQL)
		}
		got := strings.Join(sql, "; ")
		if !op.Atomic || got != "DELETE FROM riders; DELETE FROM rides; DELETE FROM users; DELETE FROM sqlite_sequence WHERE name = 'rides'" {
			t.Errorf("body %q: got %s, atomic %v", body, got, op.Atomic)
		}
	}
}
