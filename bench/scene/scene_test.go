package scene_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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
func play(t *testing.T, d *database, change func(*scene.Settings), send func(context.Context, *scene.Run)) (int, string, []string) {
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
		send func(context.Context, *scene.Run)
		code int
		want string
	}{
		"Right": {func(context.Context, *scene.Run) {}, 0, "ok: everything"},
		"Wrong": {func(_ context.Context, r *scene.Run) { r.Wrong("an answer") }, 1, "an answer"},
		"Error": {func(ctx context.Context, r *scene.Run) { r.Fail(ctx, errors.New("no way")) }, 1, "no way"},
		"Missing": {func(_ context.Context, r *scene.Run) {
			r.Change(func(res *scene.Result) { res.Check.Missing.Add("a ride") })
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
	}, func(ctx context.Context, r *scene.Run) {
		kills := map[int64]string{1: "master", 2: "slave", 3: "broker"}
		r.Load(ctx, "day", loadgen.Config{
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
		_, _, calls := play(t, d, func(s *scene.Settings) { s.Admission = `{"inflight":9}` }, func(ctx context.Context, _ *scene.Run) {
			ctx.Value(interrupt{}).(context.CancelFunc)()
		})
		patches := slices.DeleteFunc(calls, func(call string) bool { return !strings.HasPrefix(call, "PATCH") })
		if len(patches) != max(2, 1+failed) || patches[len(patches)-1] != `PATCH /api/v1/admission {"inflight":7}` || d.fails["PATCH /api/v1/admission"] != 0 {
			t.Errorf("%s: got %q, want the settings back", name, patches)
		}
	}
}

// A process is this program. It is ready when it says so; one that ends without that is an error.
func TestStart(t *testing.T) {
	code, said, _ := play(t, &database{}, nil, func(ctx context.Context, r *scene.Run) {
		processes, rests := r.StartAll(ctx, 2, "testing: ", "-test.run=^$")
		if len(processes) != 2 || !slices.Equal(rests, []string{"warning: no tests to run", "warning: no tests to run"}) {
			t.Errorf("got %v, %q, want two processes and the rest of their lines", processes, rests)
		}
		r.StartAll(ctx, 2, "never said", "-test.run=^$")
		if ctx.Err() == nil {
			t.Error("a process ended: got a scene that goes on")
		}
	})
	if code != 1 || !strings.Contains(said, "ended before it was ready: testing: warning") {
		t.Errorf("got %d %s, want that the process ended", code, said)
	}
}

// What cannot go on ends the load, and is reported. What an early end causes is not.
func TestFail(t *testing.T) {
	code, said, calls := play(t, &database{}, nil, func(ctx context.Context, r *scene.Run) {
		r.Fail(ctx, errors.New("no goods"))
		r.Fail(ctx, errors.New("because of that"))
		sent := r.Stage(ctx, loadgen.Stage{Name: "all", Clients: 1, Requests: 1}, func(context.Context, int) loadgen.Outcome { return loadgen.Outcome{Kind: "post"} }, nil)
		if len(sent) != 0 {
			t.Errorf("got %v sent, want nothing", sent)
		}
		r.Fail(context.WithoutCancel(ctx), errors.New("no audit"))
	})
	if code != 1 || !strings.Contains(said, "no goods; no audit") || strings.Contains(said, "because") || !slices.Contains(calls, "POST /api/v1/check") {
		t.Errorf("got %d %s %q, want both errors, and the database checked", code, said, calls)
	}
	code, said, _ = play(t, &database{}, nil, func(ctx context.Context, r *scene.Run) {
		r.Load(ctx, "empty", loadgen.Config{}, nil)
	})
	if code != 1 || !strings.Contains(said, "the plan has no phase") {
		t.Errorf("a load that cannot be sent: got %d %s", code, said)
	}
}

// Rows are asked for until there is an answer; a wrong answer fails the scene.
func TestRows(t *testing.T) {
	for _, tt := range []struct{ answer, want, problem string }{
		{`{"results":[{"values":[["a",1],["b",2]]}]}`, "[[a 1] [b 2]]", ""},
		{`{"results":[{"columns":["a"]}]}`, "[]", ""},
		{`{"results":[{"error":"no such table"}]}`, "[]", "no such table"},
		{`{"results":[]}`, "[]", "SELECT"},
		{`{"results":[{"values":{}}]}`, "[]", "SELECT"},
	} {
		tries := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if got := r.URL.String() + " " + string(body); r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/db/") && got != `/db/query?level=strong [["SELECT ?",7]]` {
				t.Errorf("got %s", got)
			}
			if tries++; tries == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			if r.URL.Path == "/api/v1/check" {
				_, _ = io.WriteString(w, `{"ok":true}`)
				return
			}
			_, _ = io.WriteString(w, tt.answer)
		}))
		_, said, _ := play(t, &database{}, func(s *scene.Settings) { s.Database = server.URL }, func(ctx context.Context, r *scene.Run) {
			if got := fmt.Sprint(scene.Rows[[]any](ctx, r, "SELECT ?", 7)); got != tt.want {
				t.Errorf("%s: got %s, want %s", tt.answer, got, tt.want)
			}
		})
		server.Close()
		if (tt.problem == "") != strings.Contains(said, "ok: ") || !strings.Contains(said, tt.problem) {
			t.Errorf("%s: got %s, want the problem %q", tt.answer, said, tt.problem)
		}
	}
}

// What was acknowledged must be there once, and nothing else but what has an unknown outcome.
func TestCompare(t *testing.T) {
	var sent ledger.Writes[string]
	for name, fate := range map[string]ledger.Fate{"kept": ledger.Applied, "lost": ledger.Applied, "doubled": ledger.Applied, "refused": ledger.Refused, "open": ledger.Unknown} {
		sent.Note(name, fate)
	}
	found := map[string]int{"kept": 1, "doubled": 2, "refused": 1, "open": 1, "strange": 1}
	_, _, _ = play(t, &database{}, nil, func(_ context.Context, r *scene.Run) {
		scene.Compare(r, "order", &sent, found)
		r.Change(func(res *scene.Result) {
			c := res.Check
			if c.Missing.Count != 1 || c.Doubled.Count != 1 || c.Unasked.Count != 2 || c.UnknownThere != 1 || c.Acknowledged["order"] != 3 {
				t.Errorf("got %+v, want one missing, one doubled, two that nobody asked for, and one unknown", c)
			}
		})
	})
	if len(found) != 5 {
		t.Errorf("got %v, want it unchanged", found)
	}
}

func TestInstances_InTurn(t *testing.T) {
	var i scene.Instances
	i.Use("a", "b")
	got := map[string]int{}
	for range 10 {
		got[i.Next()]++
	}
	i.Use("c")
	if got["a"] != 5 || got["b"] != 5 || i.Next() != "c" {
		t.Errorf("got %v, then another than c; want each five times", got)
	}
}

// Each part is killed once, however few requests there are.
func TestKills(t *testing.T) {
	for requests, want := range map[int]string{1: "map[1:master 2:slave 3:broker]", 200: "map[40:master 80:slave 120:broker]"} {
		if got := fmt.Sprint(scene.Kills(requests)); got != want {
			t.Errorf("%d requests: got %s, want %s", requests, got, want)
		}
	}
}

// The command line names the scene and its settings. What is wrong in it is exit code 2, and nothing is sent.
func TestCommand_Main(t *testing.T) {
	file, empty := filepath.Join(t.TempDir(), "auth"), filepath.Join(t.TempDir(), "empty")
	for name, text := range map[string]string{file: "bearer of-a-scene-0123456789abcdef\n", empty: "# nothing\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args, want string
		code       int
		calls      int
	}{
		{"--help", "right          sends nothing", 0, 0},
		{"", "SCENE", 2, 0},
		{"other", "SCENE", 2, 0},
		{"right more", "SCENE", 2, 0},
		{"right --scale 0", "SCENE", 2, 0},
		{"right --units many", "units", 2, 0},
		{"right --units 0", "--units must be at least 1", 2, 0},
		{"right --auth-file /does/not/exist", "--auth-file", 2, 0},
		{"right --json /does/not/exist/file", "--json: there is no folder", 2, 0},
		{"right --html /does/not/exist/file", "--html: there is no folder", 2, 0},
		{"right --auth-file " + empty, "--auth-file", 2, 0},
		{"right --auth-file " + file + " --units 7", "7 units", 0, 1},
		{"wrong", "no way", 1, 1},
	} {
		d := &database{}
		server := httptest.NewServer(d)
		units := 0
		command := scene.Command[*scene.Run]{
			Name: "test load",
			Scenes: map[string]scene.Scene[*scene.Run]{
				"right": {Help: "sends nothing", Play: func(context.Context, *scene.Run) {}},
				"wrong": {Help: "fails", Play: func(_ context.Context, r *scene.Run) { r.Wrong("no way") }},
			},
			Flags: func(flags *flag.FlagSet) { flags.IntVar(&units, "units", 1, "") },
			Check: func() error { return scene.AtLeast(1, "--units", units) },
			Play: func(ctx context.Context, r *scene.Run, one scene.Scene[*scene.Run]) {
				r.Note("%d units", units)
				one.Play(ctx, r)
			},
		}
		var out bytes.Buffer
		code := command.Main(t.Context(), append(strings.Fields(tt.args), "--database", server.URL), &out, &out)
		server.Close()
		if code != tt.code || !strings.Contains(out.String(), tt.want) || len(d.calls) != tt.calls {
			t.Errorf("%s: got %d, %d calls\n%s\nwant %d, %d calls and %q", tt.args, code, len(d.calls), &out, tt.code, tt.calls, tt.want)
		}
		if strings.Contains(tt.args, "--units 7") && !strings.HasSuffix(strings.Join(d.calls, " "), " Bearer of-a-scene-0123456789abcdef") {
			t.Errorf("%s: got calls %q, want the credentials of the file", tt.args, d.calls)
		}
	}
}

// A request is repeated until it has a status that ends the attempts; one whose outcome is unknown only if it is repeatable.
func TestAttempts(t *testing.T) {
	for _, tt := range []struct {
		statuses, done []int
		repeatable     bool
		sent           int
		fate           ledger.Fate
	}{
		{[]int{201}, nil, false, 1, ledger.Applied},
		{[]int{200}, nil, true, 1, ledger.Applied},
		{[]int{429, 503, 202}, nil, false, 3, ledger.Applied},
		{[]int{409, 202}, nil, false, 2, ledger.Applied},
		{[]int{503, 409, 201}, []int{201, 409}, false, 2, ledger.Applied},
		{[]int{504, 201}, nil, false, 1, ledger.Unknown},
		{[]int{504, 201}, nil, true, 2, ledger.Applied},
		{[]int{504, 503, 503, 503, 503, 201}, nil, true, 5, ledger.Unknown},
		{[]int{503, 503, 503, 503, 503, 201}, nil, false, 5, ledger.Refused},
	} {
		sent := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.statuses[sent])
			sent++
		}))
		_, _, _ = play(t, &database{}, nil, func(ctx context.Context, r *scene.Run) {
			_, fate := r.Attempts(ctx, scene.Request{URL: server.URL, Repeatable: tt.repeatable, Done: tt.done})
			if sent != tt.sent || fate != tt.fate {
				t.Errorf("%v, repeatable %v: got %d requests, fate %v, want %d, %v", tt.statuses, tt.repeatable, sent, fate, tt.sent, tt.fate)
			}
		})
		server.Close()
	}
}
