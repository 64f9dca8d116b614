package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/launchtest"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/process"
)

// limit bounds a wait for what must happen.
const limit = 30 * time.Second

// buffer is an output that a test reads while others write to it.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// roleEnv is the environment of a child with that role.
func roleEnv(role string) []string { return append(os.Environ(), envRole+"="+role) }

// world drives a launcher with stub workers.
type world struct{ *process.Launcher }

// newWorld returns a launcher whose workers have that role; what c leaves open is filled in.
func newWorld(tb testing.TB, role string, c process.Config) world {
	tb.Helper()
	c.Env = roleEnv(role)
	if c.Dir == "" {
		c.Dir = tb.TempDir()
	}
	if c.Args == nil {
		c.Args = func(process.Spec) []string { return nil }
	}
	l, err := process.New(c)
	if err != nil {
		tb.Fatalf("new launcher: %v", err)
	}
	tb.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			tb.Errorf("close launcher: %v", err)
		}
	})
	return world{l}
}

// Start returns when the worker answers, or is dead.
func (w world) Start(ctx context.Context, startID string) (launch.Instance, error) {
	i, err := w.Launcher.Start(ctx, startID)
	if err == nil && i.Running {
		_, _ = ask(ctx, http.MethodGet, i.Control) // it waits; one that dies resets it
	}
	return i, err
}

func (w world) request(tb testing.TB, id dbaas.WorkerID, what string) error {
	tb.Helper()
	list, err := w.List(tb.Context())
	for _, i := range list {
		if i.ID == id {
			_, err = ask(tb.Context(), http.MethodPost, i.Control+what)
		}
	}
	return err
}

func (w world) Exit(tb testing.TB, id dbaas.WorkerID, code int) {
	tb.Helper()
	_ = w.request(tb, id, fmt.Sprintf("/exit?code=%d", code)) // it does not answer any more
}

func (w world) Stubborn(tb testing.TB, id dbaas.WorkerID) {
	tb.Helper()
	if err := w.request(tb, id, "/stubborn"); err != nil {
		tb.Fatalf("make %s stubborn: %v", id, err)
	}
}

// ask sends a request on a connection of its own and returns the stub's answer.
func ask(ctx context.Context, method, url string) (status, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return status{}, err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return status{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	var s status
	if method == http.MethodGet {
		err = json.NewDecoder(answer.Body).Decode(&s)
	}
	return s, err
}

// The launcher of processes keeps every promise of launch.Launcher.
func TestConformance(t *testing.T) {
	t.Parallel()
	launchtest.Run(t, launchtest.Features{}, func(tb testing.TB) launchtest.World {
		tb.Helper()
		return newWorld(tb, roleWorker, process.Config{})
	})
}
