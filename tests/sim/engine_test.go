package sim_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	launchinproc "rideshare/orchestrator/launch/inproc"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/launch"
)

// engine is the in-process launcher with injected faults.
type engine struct {
	*launchinproc.Launcher

	mu    sync.Mutex // guards the fields below
	away  bool
	loses bool // workers are started and the answers are lost
}

func (e *engine) set(away, loses bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away, e.loses = away, loses
}

func (e *engine) check() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		return fmt.Errorf("the engine is away: %w", launch.ErrUnavailable)
	}
	return nil
}

// Start starts a worker unless the engine is down. If the engine loses answers, the worker is started and Start returns
// an error.
func (e *engine) Start(ctx context.Context, id string) (launch.Instance, error) {
	if err := e.check(); err != nil {
		return launch.Instance{}, err
	}
	in, err := e.Launcher.Start(ctx, id)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.loses && err == nil {
		return launch.Instance{}, fmt.Errorf("the answer is lost: %w", launch.ErrUnavailable)
	}
	return in, err
}

// Kill kills a worker unless the engine is down.
func (e *engine) Kill(ctx context.Context, id dbaas.WorkerID) error {
	if err := e.check(); err != nil {
		return err
	}
	return e.Launcher.Kill(ctx, id)
}

// Stop stops a worker unless the engine is down.
func (e *engine) Stop(ctx context.Context, id dbaas.WorkerID, grace time.Duration) error {
	if err := e.check(); err != nil {
		return err
	}
	return e.Launcher.Stop(ctx, id, grace)
}

// Remove removes a worker unless the engine is down.
func (e *engine) Remove(ctx context.Context, id dbaas.WorkerID) error {
	if err := e.check(); err != nil {
		return err
	}
	return e.Launcher.Remove(ctx, id)
}

// List lists the workers unless the engine is down.
func (e *engine) List(ctx context.Context) ([]launch.Instance, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	return e.Launcher.List(ctx)
}
