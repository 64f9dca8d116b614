package orchestratorapi_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/rideschema"
	"rideshare/orchestrator/orchestratorapi"
)

// system fakes everything behind the API. Unset functions answer with success.
type system struct {
	read     func(dbaas.Read) (dbaas.ReadResult, error)
	write    func(dbaas.Operation) (dbaas.OperationResult, error)
	enqueue  func(dbaas.Operation) error
	volatile bool // the bus: an operation has ended when Enqueue returns
	lookup   func(dbaas.OpID) (dbaas.OperationResult, error)
	crash    func() (int, bool, error)
	handover func(pid int) (orchestratorapi.HandedOver, error)
	workers  func() ([]orchestratorapi.WorkerInfo, error)
	status   func() (orchestratorapi.ClusterStatus, error)
	backup   func(dbaas.BackupForm) (*dbaas.Backup, error)
	fileSQL  func([]byte) ([]byte, error)
	seen     dbaas.Seq
	asked    dbaas.Seen // of the last crash or hand-over
	cluster  dbaas.ClusterID

	mu    sync.Mutex // guards the fields below
	reads []dbaas.Read
	ops   []dbaas.Operation
	count struct{ reads, requests int }
}

func (s *system) Cluster() dbaas.ClusterID { return s.cluster }

func (s *system) CheckCluster(_ context.Context, id dbaas.ClusterID, _ time.Time) error {
	if id != s.cluster {
		return dbaas.Errorf(dbaas.CodeGone, "the database is cluster %s", s.cluster)
	}
	return nil
}

func (s *system) SawSeq(seq dbaas.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = max(s.seen, seq)
}

func (s *system) Read(_ context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
	s.mu.Lock()
	s.reads = append(s.reads, r)
	s.mu.Unlock()
	if s.read == nil {
		return dbaas.ReadResult{Seq: 42, Body: []byte(`[{"username":"ann"}]`)}, nil
	}
	return s.read(r)
}

func (s *system) Write(_ context.Context, op dbaas.Operation) (dbaas.OperationResult, error) {
	s.mu.Lock()
	s.ops = append(s.ops, op)
	s.mu.Unlock()
	if s.write == nil {
		return dbaas.OperationResult{ID: op.ID, Seq: 43, Statements: make([]dbaas.StatementResult, len(op.Statements))}, nil
	}
	return s.write(op)
}

func (s *system) Enqueue(_ context.Context, op dbaas.Operation) (ended bool, err error) {
	s.mu.Lock()
	s.ops = append(s.ops, op)
	s.mu.Unlock()
	if s.enqueue == nil {
		return s.volatile, nil
	}
	return s.volatile, s.enqueue(op)
}

func (s *system) Lookup(_ context.Context, id dbaas.OpID) (dbaas.OperationResult, error) {
	if s.lookup == nil {
		return dbaas.OperationResult{}, dbaas.Errorf(dbaas.CodeNotFound, "not found")
	}
	return s.lookup(id)
}

func (s *system) Backup(_ context.Context, form dbaas.BackupForm) (*dbaas.Backup, error) {
	if s.backup == nil {
		return &dbaas.Backup{Body: io.NopCloser(strings.NewReader(""))}, nil
	}
	return s.backup(form)
}

func (s *system) FileSQL(_ context.Context, file []byte) ([]byte, error) { return s.fileSQL(file) }

func (s *system) CrashMaster(_ context.Context, seen dbaas.Seen) (int, bool, error) {
	s.asked = seen
	return s.crash()
}

func (s *system) CrashSlave(_ context.Context, seen dbaas.Seen) (int, bool, error) {
	s.asked = seen
	return s.crash()
}

func (s *system) HandOver(_ context.Context, pid int, seen dbaas.Seen) (orchestratorapi.HandedOver, error) {
	s.asked = seen
	return s.handover(pid)
}

func (s *system) Workers(context.Context) ([]orchestratorapi.WorkerInfo, error) {
	if s.workers == nil {
		return []orchestratorapi.WorkerInfo{
			{PID: 4330, Role: dbaas.RoleSlave, Ready: true}, {PID: 1000, Role: dbaas.RoleMaster, Ready: true}, {PID: 2112, Role: dbaas.RoleSlave},
		}, nil
	}
	return s.workers()
}

func (s *system) Status(context.Context) (orchestratorapi.ClusterStatus, error) {
	if s.status == nil {
		return orchestratorapi.ClusterStatus{}, nil
	}
	return s.status()
}

func (s *system) lastRead(t *testing.T) dbaas.Read {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reads) == 0 {
		t.Fatal("no read was dispatched")
	}
	return s.reads[len(s.reads)-1]
}

func (s *system) lastOp(t *testing.T) dbaas.Operation {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ops) == 0 {
		t.Fatal("no operation was dispatched")
	}
	return s.ops[len(s.ops)-1]
}

// start of the tests' clock.
var epochStart = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// newAPI returns the API on s. change may alter its Config first.
func newAPI(s *system, change ...func(*orchestratorapi.Config)) *orchestratorapi.API {
	cfg := orchestratorapi.Config{
		Log: slog.New(slog.DiscardHandler), Dispatcher: s, Store: s, Cluster: s,
		Clear: rideschema.Clear(), Present: rideschema.Present,
		Now:       func() time.Time { return epochStart },
		OnRequest: func() { s.mu.Lock(); s.count.requests++; s.mu.Unlock() },
		OnRead:    func() { s.mu.Lock(); s.count.reads++; s.mu.Unlock() },
	}
	for _, f := range change {
		f(&cfg)
	}
	return orchestratorapi.New(cfg)
}

// call sends one request. headers are "Name: value".
//
//nolint:revive // one line a request reads better than a struct for each.
func call(t *testing.T, h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// want checks status and body; an empty body is not checked.
func want(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("got status %d with %s, want %d", w.Code, w.Body, status)
	}
	if got := w.Body.String(); body != "" && got != body && got != body+"\n" {
		t.Errorf("got body %s, want %s", w.Body, body)
	}
}
