package launchapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/settings"
	"rideshare/internal/testkit/apitest"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/remote"
	"rideshare/orchestrator/launch/remote/launchapi"
)

// fakeLauncher records its calls and returns err.
type fakeLauncher struct {
	calls  []string
	err    error
	tokens chan struct{}
}

func (f *fakeLauncher) call(format string, args ...any) error {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return f.err
}

func (f *fakeLauncher) Start(_ context.Context, startID string) (launch.Instance, error) {
	return launch.Instance{ID: "w1", StartID: startID, PID: 7, Control: "http://w1", Running: true}, f.call("start %s", startID)
}

func (f *fakeLauncher) Kill(_ context.Context, id dbaas.WorkerID) error { return f.call("kill %s", id) }

func (f *fakeLauncher) Stop(_ context.Context, id dbaas.WorkerID, grace time.Duration) error {
	return f.call("stop %s %v", id, grace)
}

func (f *fakeLauncher) Remove(_ context.Context, id dbaas.WorkerID) error {
	return f.call("remove %s", id)
}

func (f *fakeLauncher) List(context.Context) ([]launch.Instance, error) { return nil, f.call("list") }
func (f *fakeLauncher) Events() <-chan struct{}                         { return f.tokens }

func newService(t *testing.T, f *fakeLauncher, token string) *launchapi.Service {
	t.Helper()
	f.tokens = make(chan struct{}, 1)
	s := launchapi.New(launchapi.Config{Launcher: f, Log: slog.New(slog.DiscardHandler), Token: token, Metrics: http.NotFoundHandler()})
	t.Cleanup(s.Shutdown)
	return s
}

func ask(s *launchapi.Service, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	for n := 0; n < len(headers); n += 2 {
		req.Header.Set(headers[n], headers[n+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, req)
	return w
}

// Valid requests are passed on unchanged; a request that is not exactly right has no effect.
func TestService_StrictBodies(t *testing.T) {
	long := strings.Repeat("x", remote.MaxNameBytes+1)
	for _, tt := range []struct {
		method, path, body string
		status             int
		call               string
	}{
		{"POST", remote.PathStart, `{"start_id":"s 1"}`, 200, "start s 1"},
		{"POST", remote.PathStart, `{"start_id":"s1","image":"evil"}`, 400, ""},
		{"POST", remote.PathStart, `{"start_id":""}`, 400, ""},
		{"POST", remote.PathStart, `{"start_id":"` + long + `"}`, 400, ""},
		{"POST", remote.PathStart, `{"start_id":"a\nb"}`, 400, ""},
		{"POST", remote.PathStart, `{"start_id":"s1"} {}`, 400, ""},
		{"POST", remote.PathStart, `{}`, 400, ""},
		{"POST", remote.PathStart, strings.Repeat(" ", 5000), 413, ""},
		{"GET", remote.PathStart, "", 405, ""},
		{"POST", remote.PathKill, `{"worker":"w1"}`, 200, "kill w1"},
		{"POST", remote.PathKill, `{"worker":7}`, 400, ""},
		{"POST", remote.PathRemove, `{"worker":"w1"}`, 200, "remove w1"},
		{"POST", remote.PathStop, `{"worker":"w1","grace_ms":1500}`, 200, "stop w1 1.5s"},
		{"POST", remote.PathStop, `{"worker":"w1","grace_ms":-1}`, 400, ""},
		{"POST", remote.PathStop, `{"worker":"w1","grace_ms":60001}`, 400, ""},
		{"POST", remote.PathStop, `{"worker":"w1"}`, 400, ""},
		{"GET", remote.PathList, "", 200, "list"},
		{"GET", settings.Path, "", 200, ""},
		{"POST", "/v1/exec", `{}`, 404, ""},
	} {
		f := &fakeLauncher{}
		w := ask(newService(t, f, ""), tt.method, tt.path, tt.body)
		if got := strings.Join(f.calls, ","); w.Code != tt.status || got != tt.call {
			t.Errorf("%s %s %.60s: got %d and calls %q, want %d and %q", tt.method, tt.path, tt.body, w.Code, got, tt.status, tt.call)
		}
	}
}

// Errors keep what the caller branches on, and their reason.
func TestService_Errors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code dbaas.Code
	}{
		{fmt.Errorf("worker w1: %w", launch.ErrNoWorker), dbaas.CodeNotFound},
		{fmt.Errorf("engine: %w", launch.ErrUnavailable), dbaas.CodeUnavailable},
		{errors.New("image rideshare is missing"), dbaas.CodeConflict},
	} {
		for path, body := range map[string]string{
			remote.PathStart: `{"start_id":"s1"}`, remote.PathKill: `{"worker":"w1"}`,
			remote.PathRemove: `{"worker":"w1"}`, remote.PathStop: `{"worker":"w1","grace_ms":1}`,
		} {
			w := ask(newService(t, &fakeLauncher{err: tt.err}, ""), "POST", path, body)
			got, sent := httpapi.ErrorFromAnswer(w.Code, w.Header(), w.Body.Bytes())
			if !sent || got.Code != tt.code || got.Message != tt.err.Error() {
				t.Errorf("%s: %v: got %s %q, want %s and the reason", path, tt.err, got.Code, got.Message, tt.code)
			}
		}
	}
}

// The token guards every route that acts on workers or shows them, and no health route.
func TestService_Token(t *testing.T) {
	for _, tt := range []struct {
		header string
		status int
	}{{"", 401}, {"Bearer no", 401}, {"Bearer ", 401}, {"Basic right", 401}, {"right", 401}, {"Bearer right", 200}, {"bearer right", 200}} {
		w := ask(newService(t, &fakeLauncher{}, "right"), http.MethodGet, remote.PathList, "", "Authorization", tt.header)
		if w.Code != tt.status {
			t.Errorf("%q: got %d, want %d", tt.header, w.Code, tt.status)
		}
	}
	const prober = "a prober has no token"
	apitest.Guarded(t, newService(t, &fakeLauncher{}, "right").Handler().(*httpapi.API), map[string]string{
		"GET /livez": prober, "GET /readyz": prober, "GET /metrics": prober,
	})
}

// The launcher is ready while its engine answers.
func TestService_Ready_AsksTheEngine(t *testing.T) {
	f := &fakeLauncher{err: launch.ErrUnavailable}
	s := newService(t, f, "")
	if w := ask(s, http.MethodGet, "/readyz", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("engine away: got %d, want 503", w.Code)
	}
	if w := ask(s, http.MethodGet, "/livez", ""); w.Code != http.StatusOK {
		t.Errorf("engine away, livez: got %d, want 200", w.Code)
	}
}

// An event between two requests answers the second one immediately. Without an event the request is held. The end of the
// service releases all callers.
func TestService_Events(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLauncher{}
		f.tokens = make(chan struct{}, 1)
		s := launchapi.New(launchapi.Config{Launcher: f, Log: slog.New(slog.DiscardHandler)})
		next := func(seen string) (at string, took time.Duration) {
			t.Helper()
			start := time.Now()
			var e remote.Event
			if err := json.Unmarshal(ask(s, http.MethodGet, remote.PathEvents+"?after="+seen, "").Body.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			return e.At, time.Since(start)
		}
		first, took := next("")
		if first == "" || took != 0 {
			t.Fatalf("first question: got %q after %v, want a position immediately", first, took)
		}
		f.tokens <- struct{}{}
		synctest.Wait()
		second, took := next(first)
		if second == first || took != 0 {
			t.Errorf("after an event: got %q after %v, want another than %q immediately", second, took, first)
		}
		if at, took := next(second); at != second || took != remote.PollWait {
			t.Errorf("without an event: got %q after %v, want %q after %v", at, took, second, remote.PollWait)
		}
		go func() {
			time.Sleep(time.Second) // of the bubble's own clock
			f.tokens <- struct{}{}
		}()
		if at, took := next(second); at == second || took != time.Second {
			t.Errorf("event while held: got %q after %v, want another one after 1s", at, took)
		}
		go func() {
			time.Sleep(time.Second)
			s.Shutdown()
		}()
		third, _ := next("")
		if _, took := next(third); took != time.Second {
			t.Errorf("end of the service: answered after %v, want 1s", took)
		}
	})
}
