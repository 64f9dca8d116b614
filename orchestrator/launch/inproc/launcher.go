// Package inproc starts workers as goroutines of this process, for `rideshare up` and for tests. Seen from outside, a
// kill is as hard as the kill of a process: the worker is disconnected from everything before its goroutines are
// cancelled, so it cannot say goodbye.
package inproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
	"rideshare/orchestrator/launch"
)

// firstPID is the pid of the first worker. Pids grow by one and are never reused. They are not real process ids, so they
// start in a range where few real ones are.
const firstPID = 1000

// killedExitCode is the exit code of SIGKILL, 128 + 9, as a container engine reports it.
const killedExitCode = 137

// Spec is what the launcher assigns to a worker.
type Spec struct {
	ID      dbaas.WorkerID
	StartID string
	PID     int
	// Dir is the worker's own directory. It exists, is empty, and is deleted by Remove.
	Dir string
	// Control is the base URL under which Transport reaches its control API.
	Control string
}

// Worker is one life of a worker. Its methods are called from several goroutines.
type Worker interface {
	// Run works until ctx ends, then finishes its pending work and returns once none of its goroutines is left. It is
	// called once. nil and ctx's error mean exit code 0; an error with a method ExitCode() int supplies its own code;
	// any other error means 1.
	Run(ctx context.Context) error
	// Kill immediately disconnects the worker from everything outside it: bus, coordinator and persdb see it vanish
	// without a goodbye. Kill does not wait. It is called at most once, possibly before Run or while Run returns.
	Kill()
	// Control returns the worker's control API. It is served from the start until Run returns.
	Control() http.Handler
}

// Config is what a Launcher needs. Make and Dir are required.
type Config struct {
	// Make returns a new worker that does nothing yet.
	Make func(Spec) (Worker, error)
	// Dir is the directory below which each worker gets its own.
	Dir string
	// Run becomes part of each worker's id and distinguishes the workers of this launcher from those of an earlier one;
	// two launchers with the same Run produce the same ids. It may be empty and must be fit for a file name and a host
	// name.
	Run string
	Log *slog.Logger
}

// Launcher implements launch.Launcher. It is safe for concurrent use.
type Launcher struct {
	config Config
	events wait.Token
	// removeAll is os.RemoveAll.
	removeAll func(path string) error

	mu        sync.Mutex // guards the fields below
	started   int
	instances map[dbaas.WorkerID]*instance
}

var _ launch.Launcher = (*Launcher)(nil)

// New returns a Launcher without workers.
func New(c Config) *Launcher {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return &Launcher{config: c, events: wait.NewToken(), removeAll: os.RemoveAll, instances: map[dbaas.WorkerID]*instance{}}
}

// Start implements launch.Launcher. If the worker cannot be created, nothing is left behind.
func (l *Launcher) Start(ctx context.Context, startID string) (launch.Instance, error) {
	if err := ctx.Err(); err != nil {
		return launch.Instance{}, launch.Unavailable("start worker", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range l.instances {
		if i.spec.StartID == startID {
			return i.describe(), nil
		}
	}
	spec := l.nextSpec(startID)
	if err := os.MkdirAll(spec.Dir, 0o750); err != nil {
		return launch.Instance{}, fmt.Errorf("make directory of worker: %w", err)
	}
	w, err := l.config.Make(spec)
	if err != nil {
		return launch.Instance{}, errors.Join(fmt.Errorf("make worker: %w", err), os.RemoveAll(spec.Dir))
	}
	i := newInstance(spec, w)
	l.instances[spec.ID] = i
	go func() { // ends with the worker's Run
		i.run()
		l.config.Log.Info("worker ended", logkey.Worker, spec.ID, logkey.Code, i.describe().ExitCode)
		l.events.Give()
	}()
	l.events.Give()
	return i.describe(), nil
}

func (l *Launcher) nextSpec(startID string) Spec {
	number := l.started
	l.started++
	name := fmt.Sprintf("w-%04d", number+1)
	if l.config.Run != "" {
		name = fmt.Sprintf("w-%s-%04d", l.config.Run, number+1)
	}
	return Spec{
		ID:      dbaas.WorkerID(name),
		StartID: startID,
		PID:     firstPID + number,
		Dir:     filepath.Join(l.config.Dir, name),
		Control: "http://" + name + hostSuffix,
	}
}

// Kill implements launch.Launcher. ErrUnavailable: ctx ended before the last goroutine did; the worker is disconnected
// by then.
func (l *Launcher) Kill(ctx context.Context, id dbaas.WorkerID) error {
	i, err := l.find(id)
	if err != nil {
		return err
	}
	i.kill()
	return i.wait(ctx)
}

// Stop implements launch.Launcher. ErrUnavailable: as for Kill, or ctx ended before grace was over.
func (l *Launcher) Stop(ctx context.Context, id dbaas.WorkerID, grace time.Duration) error {
	i, err := l.find(id)
	if err != nil {
		return err
	}
	i.cancel()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-i.ended:
		return nil
	case <-ctx.Done():
	case <-timer.C:
		i.kill()
	}
	return i.wait(ctx)
}

// Remove implements launch.Launcher. The worker is listed, as dead, until its directory is gone. That may take long for
// a large replica, and blocks no other call.
func (l *Launcher) Remove(_ context.Context, id dbaas.WorkerID) error {
	i, err := l.find(id)
	if err != nil {
		return nil // it has been removed already
	}
	if i.describe().Running {
		return fmt.Errorf("remove worker %s: it runs", id)
	}
	if err := l.removeAll(i.spec.Dir); err != nil {
		return fmt.Errorf("remove directory of worker %s: %w", id, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.instances, id)
	return nil
}

// List implements launch.Launcher.
func (l *Launcher) List(context.Context) ([]launch.Instance, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]launch.Instance, 0, len(l.instances))
	for _, i := range l.instances {
		list = append(list, i.describe())
	}
	slices.SortFunc(list, launch.Order)
	return list, nil
}

// Events implements launch.Launcher.
func (l *Launcher) Events() <-chan struct{} { return l.events }

func (l *Launcher) find(id dbaas.WorkerID) (*instance, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.instances[id]
	if i == nil {
		return nil, fmt.Errorf("worker %s: %w", id, launch.ErrNoWorker)
	}
	return i, nil
}
