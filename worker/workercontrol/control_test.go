package workercontrol_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
	"rideshare/worker/workercontrol"
)

// fakeWorker returns what the test sets and records its calls.
type fakeWorker struct {
	assigned []workerapi.Assignment
	yielded  []workerapi.Yield
	drained  int
	status   workerapi.Status
	hashes   dbaas.TableHashes
	// verification is what Verify answers.
	verification workerapi.Verification
	err          error
}

func (w *fakeWorker) Assign(_ context.Context, a workerapi.Assignment) error {
	w.assigned = append(w.assigned, a)
	return w.err
}

func (w *fakeWorker) Yield(y workerapi.Yield) error {
	w.yielded = append(w.yielded, y)
	return w.err
}

func (w *fakeWorker) Drain()                   { w.drained++ }
func (w *fakeWorker) Status() workerapi.Status { return w.status }

func (w *fakeWorker) Pulse() workerapi.Pulse {
	return workerapi.Pulse{ID: w.status.ID, Working: map[string]uint64{"committing": 5}}
}

func (w *fakeWorker) Hashes(context.Context) (dbaas.TableHashes, error) { return w.hashes, w.err }

func (w *fakeWorker) Verify(context.Context) (workerapi.Verification, error) {
	return w.verification, w.err
}

func serve(t *testing.T, w *fakeWorker) (*workerapi.Client, string) {
	t.Helper()
	s := httptest.NewServer(workercontrol.Handler(w))
	t.Cleanup(s.Close)
	return &workerapi.Client{HTTP: s.Client()}, s.URL
}

// Calls of the client reach the worker unchanged, and so do its answers the client.
func TestHandler_RoundTrips(t *testing.T) {
	w := &fakeWorker{
		status: workerapi.Status{ID: "w1", PID: 7, Role: dbaas.RoleMaster, Epoch: 3, Applied: 9, Ready: true, Counters: map[string]int64{"reads": 5}},
		hashes: dbaas.TableHashes{Seq: 9, Tables: map[string]string{"n": "ab"}},
	}
	c, url := serve(t, w)
	want := workerapi.Assignment{Worker: "w1", Role: dbaas.RoleMaster, PID: 7, Epoch: 3}
	if err := c.Assign(t.Context(), url, want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]workerapi.Assignment{want}, w.assigned); diff != "" {
		t.Errorf("assigned (-want +got):\n%s", diff)
	}
	wish := workerapi.Yield{Worker: "w1", To: "w2"}
	if err := c.Yield(t.Context(), url, wish); err != nil || len(w.yielded) != 1 || w.yielded[0] != wish {
		t.Errorf("yield: got %v and %v, want nil and %v", err, w.yielded, wish)
	}
	status, err := c.Status(t.Context(), url)
	if diff := cmp.Diff(w.status, status); err != nil || diff != "" {
		t.Errorf("status: %v (-want +got):\n%s", err, diff)
	}
	pulse, err := c.Pulse(t.Context(), url)
	if diff := cmp.Diff(w.Pulse(), pulse); err != nil || diff != "" {
		t.Errorf("pulse: %v (-want +got):\n%s", err, diff)
	}
	hashes, err := c.Hashes(t.Context(), url)
	if diff := cmp.Diff(w.hashes, hashes); err != nil || diff != "" {
		t.Errorf("hashes: %v (-want +got):\n%s", err, diff)
	}
	w.verification = workerapi.Verification{Seq: 9, Differ: []string{"n"}}
	verification, err := c.Verify(t.Context(), url)
	if diff := cmp.Diff(w.verification, verification); err != nil || diff != "" {
		t.Errorf("verification: %v (-want +got):\n%s", err, diff)
	}
	if err := c.Drain(t.Context(), url); err != nil || w.drained != 1 {
		t.Errorf("drain: got %v and %d, want nil and 1", err, w.drained)
	}
}

// An error keeps its code and its message, but never its cause.
func TestHandler_ErrorsKeepTheirCode(t *testing.T) {
	for _, tc := range []struct {
		err     error
		code    dbaas.Code
		message string
	}{
		{dbaas.WrapError(dbaas.CodeConflict, "newer leadership", errors.New("secret")), dbaas.CodeConflict, "newer leadership"},
		{dbaas.Errorf(dbaas.CodeInvalid, "no pid"), dbaas.CodeInvalid, "no pid"},
		{dbaas.Errorf(dbaas.CodeNotCaughtUp, "no replica"), dbaas.CodeNotCaughtUp, "no replica"},
		{errors.New("secret"), dbaas.CodeInternal, "internal error"},
	} {
		c, url := serve(t, &fakeWorker{err: tc.err})
		err := c.Assign(t.Context(), url, workerapi.Assignment{Role: dbaas.RoleSlave, PID: 1})
		if dbaas.CodeOf(err) != tc.code || err.Error() != tc.message {
			t.Errorf("assign: got %v, want %s %q", err, tc.code, tc.message)
		}
		if _, err := c.Hashes(t.Context(), url); dbaas.CodeOf(err) != tc.code {
			t.Errorf("hashes: got %v, want code %s", err, tc.code)
		}
		if _, err := c.Verify(t.Context(), url); dbaas.CodeOf(err) != tc.code {
			t.Errorf("verify: got %v, want code %s", err, tc.code)
		}
	}
}

// Images of two versions may run side by side: the error body has the fields that an older orchestrator reads.
func TestHandler_ErrorBody(t *testing.T) {
	_, url := serve(t, &fakeWorker{err: dbaas.Errorf(dbaas.CodeStaleEpoch, "newer leadership")})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+workerapi.PathVerify, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var got struct {
		Code    dbaas.Code `json:"code"`
		Message string     `json:"message"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.Code != dbaas.CodeStaleEpoch || got.Message != "newer leadership" {
		t.Errorf("got %+v and %v", got, err)
	}
}

// Paths, methods and bodies that do not belong to the API are refused with their status.
func TestHandler_Statuses(t *testing.T) {
	w := &fakeWorker{}
	_, url := serve(t, w)
	for _, tc := range []struct {
		method, path, body string
		want               int
	}{
		{"PUT", "/role", `{"worker":"w1","role":"slave","pid":1}`, 200},
		{"POST", "/yield", `{"worker":"w1","to":"w2"}`, 200},
		{"POST", "/yield", `{"worker":"w1","too":"w2"}`, 400},
		{"PUT", "/yield", `{}`, 405},
		{"PUT", "/role", `{"role":"slave","pid":1,"x":2}`, 400},
		{"PUT", "/role", `nonsense`, 400},
		{"PUT", "/role", `{"role":"` + strings.Repeat("x", 5000) + `"}`, 413},
		{"POST", "/role", `{}`, 405},
		{"GET", "/drain", "", 405},
		{"GET", "/verify", "", 405},
		{"GET", "/livez", "", 200},
		{"GET", "/readyz", "", 503},
		{"GET", "/elsewhere", "", 404},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, url+tc.path, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != tc.want {
			t.Errorf("%s %s %.40s: got %d, want %d", tc.method, tc.path, tc.body, resp.StatusCode, tc.want)
		}
	}
	if len(w.assigned) != 1 {
		t.Errorf("got assignments %v, want only the valid one", w.assigned)
	}
}
