package inproc

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"rideshare/orchestrator/launch"
)

// instance is one worker with its goroutines.
type instance struct {
	spec      Spec
	worker    Worker
	control   http.Handler
	startedAt time.Time
	ctx       context.Context // ended by Stop and Kill; spans the worker's life
	cancel    context.CancelFunc
	served    context.Context // ended once no request can reach the worker any more
	cut       context.CancelFunc
	ended     chan struct{} // closed when no goroutine is left

	mu       sync.Mutex // guards the fields below
	requests sync.WaitGroup
	killed   bool
	exitCode int
}

func newInstance(spec Spec, w Worker) *instance {
	ctx, cancel := context.WithCancel(context.Background())
	served, cut := context.WithCancel(context.Background())
	return &instance{
		spec: spec, worker: w, control: w.Control(), startedAt: time.Now(),
		ctx: ctx, cancel: cancel, served: served, cut: cut, ended: make(chan struct{}),
	}
}

// run is the worker's life.
func (i *instance) run() {
	err := i.worker.Run(i.ctx)
	i.cancel()
	i.mu.Lock()
	i.exitCode = exitCode(err)
	if i.killed {
		i.exitCode = killedExitCode
	}
	i.cut()
	i.mu.Unlock()
	i.requests.Wait()
	close(i.ended)
}

// kill disconnects the worker first, so that what its goroutines do after the end of their context has no effect
// outside. A worker that has ended, or was killed, is left alone.
func (i *instance) kill() {
	i.mu.Lock()
	alive := i.served.Err() == nil
	if alive {
		i.killed = true
		i.cut() // requests under way fail, new ones are refused
	}
	i.mu.Unlock()
	if alive {
		i.worker.Kill()
		i.cancel()
	}
}

// wait returns when no goroutine of the worker is left.
func (i *instance) wait(ctx context.Context) error {
	select {
	case <-i.ended:
		return nil
	case <-ctx.Done():
		return launch.Unavailable("wait for the end of worker "+string(i.spec.ID), ctx.Err())
	}
}

func (i *instance) describe() launch.Instance {
	described := launch.Instance{
		ID:        i.spec.ID,
		StartID:   i.spec.StartID,
		Control:   i.spec.Control,
		StartedAt: i.startedAt,
	}
	select {
	case <-i.ended:
		i.mu.Lock()
		described.ExitCode = i.exitCode
		i.mu.Unlock()
	default:
		described.Running, described.PID = true, i.spec.PID
	}
	return described
}

func exitCode(err error) int {
	if err == nil || errors.Is(err, context.Canceled) {
		return 0
	}
	if coded, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		return coded.ExitCode()
	}
	return 1
}
