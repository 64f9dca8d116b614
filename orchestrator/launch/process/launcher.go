// Package process starts workers as child processes of this one, on one machine without
// a container engine: real pids, SIGKILL for a crash, and no child that outlives its
// parent. It also keeps other children running (Supervise). What a child does for
// this is in internal/lifeline.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/launch"
)

// Spec is what a worker gets to know of itself.
type Spec struct {
	ID      dbaas.WorkerID
	StartID string
	// Dir is the worker's own directory, an absolute path. It exists, is empty, and is deleted by Remove.
	Dir string
	// Control is the base URL of its control API, on the listener that lifeline.Listener returns.
	Control string
}

// Config is what a Launcher needs. Args and Dir are required.
type Config struct {
	// Binary is the program of the workers; empty means the one that runs.
	Binary string
	// Args returns the arguments of a worker, without the program's name. It may be called
	// from several goroutines.
	Args func(Spec) []string
	// Env is the environment of the workers; nil means that of this process.
	Env []string
	// Dir is the directory below which each worker gets one. It is this launcher's
	// alone, and what workers of an earlier launcher left in it is deleted.
	Dir string
	// Stdout and Stderr get what the workers write there, one Write for each line; nil
	// discards it. Who else writes to them needs a writer that is safe for
	// concurrent use, as a file is.
	Stdout, Stderr io.Writer
	Log            *slog.Logger
}

// Launcher implements launch.Launcher. It is safe for concurrent use.
type Launcher struct {
	config         Config
	name           string // begins the id of each worker
	lock           *os.File
	stdout, stderr *sink
	events         chan struct{}
	closed         chan struct{}   // closed when no worker runs and none is started or removed any more
	awaitLast      func()          // closes closed after the last worker; once, in the background
	running        sync.WaitGroup  // workers, and removals of their directories
	inNoHurry      context.Context // of removals; hurry ends it
	hurry          context.CancelFunc

	mu      sync.Mutex // guards the fields below
	closing bool
	started int
	workers map[dbaas.WorkerID]*worker
}

var _ launch.Launcher = (*Launcher)(nil)

// New returns a Launcher without workers. Close ends it.
//
// ErrInUse: another launcher, perhaps in another process, has the directory. Other errors
// name the binary that cannot be run, or the directory.
func New(c Config) (*Launcher, error) {
	var err error
	if c.Binary, err = findBinary(c.Binary); err != nil {
		return nil, err
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, fmt.Errorf("directory of workers: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	lock, err := claim(c.Dir)
	if err != nil {
		return nil, err
	}
	l := &Launcher{
		config: c, name: workerPrefix + hostName() + "-" + runName(time.Now()), lock: lock,
		stdout: &sink{w: c.Stdout}, stderr: &sink{w: c.Stderr},
		events: make(chan struct{}, 1), closed: make(chan struct{}), workers: map[dbaas.WorkerID]*worker{},
	}
	l.inNoHurry, l.hurry = context.WithCancel(context.Background())
	l.awaitLast = sync.OnceFunc(func() {
		go func() { // ends with the last worker
			l.running.Wait()
			close(l.closed)
		}()
	})
	return l, nil
}

// Close kills the workers that still run and gives the directory back. nil means that
// none is left; starts fail from now on. ErrUnavailable: ctx ended first, and
// Close may be called again.
func (l *Launcher) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closing = true
	var errs []error
	for _, w := range l.workers {
		if w.begun() {
			errs = append(errs, w.kill())
		}
	}
	l.mu.Unlock()
	l.hurry()
	l.awaitLast()
	select {
	case <-l.closed:
	case <-ctx.Done():
		return errors.Join(append(errs, unavailable("close launcher", ctx.Err()))...)
	}
	if err := l.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("unlock directory of workers: %w", err)
	}
	return nil
}

// Events implements launch.Launcher.
func (l *Launcher) Events() <-chan struct{} { return l.events }

func (l *Launcher) notify() {
	select {
	case l.events <- struct{}{}:
	default: // a token is there already
	}
}

// unavailable says that what was asked for may have happened, or not.
func unavailable(what string, cause error) error {
	return fmt.Errorf("%s: %w: %w", what, launch.ErrUnavailable, cause)
}
