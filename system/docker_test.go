package system

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/orchestrator/launch/docker"
	"rideshare/orchestrator/launch/process"
)

// Workers in containers are told that their network is private exactly if the launcher was.
func TestDocker_HandsOnThatTheNetworkIsPrivate(t *testing.T) {
	t.Parallel()
	for _, private := range []bool{false, true} {
		d := &Docker{PrivateNetwork: private}
		if env := d.env(Config{}); slices.Contains(env, "PRIVATE_NETWORK=true") != private {
			t.Errorf("private %v: got %v", private, env)
		}
	}
}

// engine has as much of Docker's API as the removal of containers needs. It is safe for concurrent use.
type engine struct {
	url string

	mu     sync.Mutex
	states map[string]string // of the containers, by id
}

// newEngine returns an engine that runs until the test ends.
func newEngine(t *testing.T) *engine {
	t.Helper()
	e, mux := &engine{states: map[string]string{}}, http.NewServeMux()
	handle := func(pattern string, answer func(id string) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			e.mu.Lock()
			defer e.mu.Unlock()
			_ = json.NewEncoder(w).Encode(answer(r.PathValue("id")))
		})
	}
	handle("/_ping", func(string) any { return "OK" })
	handle("GET /{v}/containers/json", func(string) any {
		list := []any{}
		for id, state := range e.states {
			list = append(list, map[string]any{"Id": id, "State": state, "Created": time.Now().Unix()})
		}
		return list
	})
	handle("GET /{v}/containers/{id}/json", func(id string) any {
		return map[string]any{"Id": id, "State": map[string]any{"Status": e.states[id]}, "Config": map[string]any{}}
	})
	handle("POST /{v}/containers/{id}/kill", func(id string) any { e.states[id] = "exited"; return nil })
	handle("POST /{v}/containers/{id}/wait", func(string) any { return map[string]any{"StatusCode": 137} })
	handle("DELETE /{v}/containers/{id}", func(id string) any { delete(e.states, id); return nil })
	ended := make(chan struct{})
	mux.HandleFunc("GET /{v}/events", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	e.url = "tcp://" + strings.TrimPrefix(server.URL, "http://")
	return e
}

// run makes a container with that state.
func (e *engine) run(id, state string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.states[id] = state
}

// left is how many containers there are.
func (e *engine) left() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.states)
}

// dockerConfig is that of workers in containers of an engine, with the data in a folder.
func dockerConfig(url, data string) (Config, Processes) {
	p := Processes{Coordinator: "zk://c", Persdb: "http://p", Docker: &Docker{
		Host: url, Stack: "s", Image: "i", Network: "host", BusFile: "/bus",
		Limits: docker.Limits{User: "1:1", Memory: 512 << 20, Replica: 128 << 20, Answers: 32 << 20, CPUs: 1, PIDs: 64},
	}}
	return Config{Log: slog.New(slog.DiscardHandler), Data: data}, p
}

// The containers that a killed system left know an address of persdb where nobody listens any more, so the next one on
// the same data removes them before it starts workers. While a system runs, another one on its data touches nothing.
func TestUseEngine_RemovesWhatAnEarlierRunLeft(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.run("0123456789abcdef", "running")
	e.run("123456789abcdef0", "created")
	cfg, p := dockerConfig(e.url, t.TempDir())
	first := &backends{}
	if err := first.useEngine(t.Context(), cfg, p); err != nil || e.left() != 0 {
		t.Fatalf("got error %v and %d containers, want none", err, e.left())
	}
	e.run("23456789abcdef01", "running")
	second := &backends{}
	if err := second.useEngine(t.Context(), cfg, p); !errors.Is(err, process.ErrInUse) || e.left() != 1 {
		t.Errorf("second system: got %v and %d containers, want %v and the first one's", err, e.left(), process.ErrInUse)
	}
	third := &backends{}
	if err := errors.Join(second.close(t.Context()), first.close(t.Context()), third.useEngine(t.Context(), cfg, p), third.close(t.Context())); err != nil {
		t.Errorf("after the first one's end: %v", err)
	}
}

// At the end no container stays, also none that is about to be started.
func TestUseEngine_Close_LeavesNothing(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	cfg, p := dockerConfig(e.url, t.TempDir())
	o := &backends{}
	if err := o.useEngine(t.Context(), cfg, p); err != nil {
		t.Fatal(err)
	}
	e.run("0123456789abcdef", "created")
	if err := o.close(t.Context()); err != nil || e.left() != 0 {
		t.Errorf("got error %v and %d containers, want none", err, e.left())
	}
}

// Whether workers are left is not known while the engine is away, so nothing starts.
func TestUseEngine_EngineAway_Fails(t *testing.T) {
	t.Parallel()
	cfg, p := dockerConfig("unix://"+t.TempDir()+"/none.sock", t.TempDir())
	o := &backends{}
	err := o.useEngine(t.Context(), cfg, p)
	if err == nil || !strings.HasPrefix(err.Error(), "remove the workers of an earlier run: list workers: ") {
		t.Errorf("got %v, want an error that says what failed", err)
	}
	if err = o.close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}
