package scene_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"rideshare/bench/ledger"
	"rideshare/bench/loadgen"
	"rideshare/bench/scene"
)

// database is the part of the orchestrator's API that scenes call. It notes the calls.
type database struct {
	mu    sync.Mutex // guards what follows
	calls []string
	fails map[string]int // how often a method and path still answer 400
}

func (d *database) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)+" "+r.Header.Get("Authorization")))
	if call := r.Method + " " + r.URL.Path; d.fails[call] > 0 {
		d.fails[call]--
		w.WriteHeader(http.StatusBadRequest)
	}
	_, _ = io.WriteString(w, `{"ok":true,"settings":{"inflight":{"value":7,"source":"patch"},"depth.wait":{"value":1,"source":"environment"}}}`)
}

// interrupt is the key of what ends a scene early, as Ctrl-C does.
type interrupt struct{}

// play runs a scene and returns its exit code, what it printed, and the calls of the database.
func play(t *testing.T, d *database, change func(*scene.Settings), send func(context.Context, *scene.Run) error) (int, string, []string) {
	t.Helper()
	server := httptest.NewServer(d)
	defer server.Close()
	var out bytes.Buffer
	s := scene.Settings{Database: server.URL + "/", Scale: 0.5, Stdout: &out, Stderr: io.Discard}
	if change != nil {
		change(&s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code := scene.Play(context.WithValue(ctx, interrupt{}, cancel), "test", s, send)
	return code, out.String(), d.calls
}

// A scene succeeds only if its load, its checks and the database's own check found nothing.
func TestPlay_ExitCode(t *testing.T) {
	for name, tt := range map[string]struct {
		send func(context.Context, *scene.Run) error
		code int
		want string
	}{
		"Right": {func(context.Context, *scene.Run) error { return nil }, 0, "ok: everything"},
		"Wrong": {func(_ context.Context, r *scene.Run) error { r.Wrong("an answer"); return nil }, 1, "an answer"},
		"Error": {func(context.Context, *scene.Run) error { return errors.New("no way") }, 1, "no way"},
		"Missing": {func(_ context.Context, r *scene.Run) error {
			r.Change(func(res *scene.Result) { res.Check.Missing.Add("a ride") })
			return nil
		}, 1, "a ride"},
	} {
		if code, said, _ := play(t, &database{}, nil, tt.send); code != tt.code || !strings.Contains(said, tt.want) {
			t.Errorf("%s: got %d %s, want %d with %q", name, code, said, tt.code, tt.want)
		}
	}
}

// The parts are killed at their requests, the admission is patched and put back, and the reports are written.
func TestPlay_KillsAdmissionReports(t *testing.T) {
	d := &database{fails: map[string]int{"POST /api/v1/crash/slave": 2}}
	dir := t.TempDir()
	page, result, broker := filepath.Join(dir, "page"), filepath.Join(dir, "json"), filepath.Join(dir, "broker")
	code, said, calls := play(t, d, func(s *scene.Settings) {
		s.HTML, s.JSON, s.BrokerKill, s.BrokerStart = page, result, "echo killed >> "+broker, "echo started >> "+broker
		s.Admission, s.Authorization = `{"inflight":9,"depth":{"wait":"2s"}}`, "Bearer x"
	}, func(ctx context.Context, r *scene.Run) error {
		kills := map[int64]string{1: "master", 2: "slave", 3: "broker"}
		return r.Load(ctx, "day", loadgen.Config{
			Stages: []loadgen.Stage{{Name: "all", Clients: 2, Requests: r.Scaled(20)}},
			Call:   func(context.Context, loadgen.Request) loadgen.Outcome { return loadgen.Outcome{Kind: "post"} },
		}, kills)
	})
	if code != 0 || !strings.Contains(said, "day: 10 requests") {
		t.Errorf("got %d %s", code, said)
	}
	for _, want := range []string{
		`PATCH /api/v1/admission {"depth":{"wait":"2s"},"inflight":9} Bearer x`, `PATCH /api/v1/admission {"depth":{"wait":null},"inflight":7} Bearer x`,
		"POST /api/v1/crash/master  Bearer x", "POST /api/v1/check  Bearer x",
	} {
		if !slices.Contains(calls, want) {
			t.Errorf("got calls %q, want %q", calls, want)
		}
	}
	if text, err := os.ReadFile(broker); string(text) != "killed\nstarted\n" {
		t.Errorf("the broker's commands: got %q, %v", text, err)
	}
	var got scene.Result
	text, err := os.ReadFile(result)
	if err = errors.Join(err, json.Unmarshal(text, &got)); err != nil || len(got.Events) != 3 || len(got.Loads) != 1 || d.fails["POST /api/v1/crash/slave"] != 0 {
		t.Errorf("got %+v, %v, want three killed parts", got, err)
	}
	if text, err = os.ReadFile(page); err != nil || !strings.Contains(string(text), "the master was killed") {
		t.Errorf("the page: %v", err)
	}
}

// The admission settings are put back after Ctrl-C, after a patch that the database may have taken, and when it needs a
// second attempt.
func TestPlay_EndedEarly_PutsAdmissionBack(t *testing.T) {
	for failed, name := range []string{"Interrupted", "PatchFails", "RestoreFails"} {
		d := &database{fails: map[string]int{"PATCH /api/v1/admission": failed}}
		_, _, calls := play(t, d, func(s *scene.Settings) { s.Admission = `{"inflight":9}` }, func(ctx context.Context, _ *scene.Run) error {
			ctx.Value(interrupt{}).(context.CancelFunc)()
			return nil
		})
		patches := slices.DeleteFunc(calls, func(call string) bool { return !strings.HasPrefix(call, "PATCH") })
		if len(patches) != max(2, 1+failed) || patches[len(patches)-1] != `PATCH /api/v1/admission {"inflight":7}` || d.fails["PATCH /api/v1/admission"] != 0 {
			t.Errorf("%s: got %q, want the settings back", name, patches)
		}
	}
}

// A process is this program. It is ready when it says so; one that ends without that is an error.
func TestStart(t *testing.T) {
	code, said, _ := play(t, &database{}, nil, func(ctx context.Context, r *scene.Run) error {
		process, rest, err := r.Start(ctx, "testing: ", "-test.run=^$")
		if err != nil || process == nil || rest != "warning: no tests to run" {
			t.Errorf("got %v, %q, %v, want the rest of its line", process, rest, err)
		}
		_, _, err = r.Start(ctx, "never said", "-test.run=^$")
		return err
	})
	if code != 1 || !strings.Contains(said, "ended before it was ready: testing: warning") {
		t.Errorf("got %d %s, want that the process ended", code, said)
	}
}

// A request is repeated until it is accepted; one whose outcome is unknown only if it is repeatable.
func TestAttempts(t *testing.T) {
	for _, tt := range []struct {
		statuses   []int
		repeatable bool
		sent       int
		fate       ledger.Fate
	}{
		{[]int{201}, false, 1, ledger.Applied},
		{[]int{200}, true, 1, ledger.Applied},
		{[]int{429, 503, 202}, false, 3, ledger.Applied},
		{[]int{504, 201}, false, 1, ledger.Unknown},
		{[]int{504, 201}, true, 2, ledger.Applied},
		{[]int{504, 503, 503, 503, 503, 201}, true, 5, ledger.Unknown},
		{[]int{503, 503, 503, 503, 503, 201}, false, 5, ledger.Refused},
	} {
		sent := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.statuses[sent])
			sent++
		}))
		_, _, _ = play(t, &database{}, nil, func(ctx context.Context, r *scene.Run) error {
			_, fate := r.Attempts(ctx, scene.Request{URL: server.URL, Repeatable: tt.repeatable})
			if sent != tt.sent || fate != tt.fate {
				t.Errorf("%v, repeatable %v: got %d requests, fate %v, want %d, %v", tt.statuses, tt.repeatable, sent, fate, tt.sent, tt.fate)
			}
			return nil
		})
		server.Close()
	}
}
