package inproc_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/launchtest"
	"rideshare/orchestrator/launch/inproc"
)

// exitError ends a worker with that exit code.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }
func (e exitError) ExitCode() int { return int(e) }

// worker fakes a worker that a test can steer.
type worker struct {
	spec    inproc.Spec
	handler http.Handler
	exit    chan int
	killed  chan struct{}

	mu       sync.Mutex
	stubborn bool
}

func (w *worker) Run(ctx context.Context) error {
	select {
	case code := <-w.exit:
		if code == 0 {
			return nil
		}
		return fmt.Errorf("run: %w", exitError(code))
	case <-w.killed:
		return nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	stubborn := w.stubborn
	w.mu.Unlock()
	if stubborn {
		<-w.killed
	}
	return ctx.Err()
}

func (w *worker) Kill()                 { close(w.killed) }
func (w *worker) Control() http.Handler { return w.handler }

// world drives an in-process launcher with fake workers.
type world struct {
	*inproc.Launcher

	mu      sync.Mutex
	workers map[dbaas.WorkerID]*worker
}

func newWorld(tb testing.TB, handler http.Handler) *world {
	tb.Helper()
	w := &world{workers: map[dbaas.WorkerID]*worker{}}
	w.Launcher = inproc.New(inproc.Config{
		Dir: tb.TempDir(),
		Make: func(s inproc.Spec) (inproc.Worker, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			made := &worker{spec: s, handler: handler, exit: make(chan int, 1), killed: make(chan struct{})}
			w.workers[s.ID] = made
			return made, nil
		},
	})
	tb.Cleanup(func() {
		for id := range w.workers {
			_ = w.Kill(context.Background(), id) // a removed one is dead
		}
	})
	return w
}

func (w *world) worker(id dbaas.WorkerID) *worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.workers[id]
}

func (w *world) Exit(_ testing.TB, id dbaas.WorkerID, code int) { w.worker(id).exit <- code }

func (w *world) Stubborn(_ testing.TB, id dbaas.WorkerID) {
	k := w.worker(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stubborn = true
}

// The in-process launcher keeps every promise of launch.Launcher, and leaves no goroutine.
func TestConformance(t *testing.T) {
	t.Parallel()
	launchtest.Run(t, launchtest.Features{Bubble: true}, func(tb testing.TB) launchtest.World {
		tb.Helper()
		return newWorld(tb, http.NotFoundHandler())
	})
}
