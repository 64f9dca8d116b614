// Package process starts workers as child processes, on one machine without a container engine: with real pids, SIGKILL
// for a crash, and no child that outlives its parent. It also keeps other children running (Supervise). The child's side
// is in internal/lifeline.
package process

import (
	"cmp"
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
	"rideshare/internal/wait"
	"rideshare/orchestrator/launch"
)

// Spec is what the launcher assigns to a worker.
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
	// Binary is the program of the workers; empty means the running program.
	Binary string
	// Args returns the arguments of a worker, without the program's name. Several goroutines may call it.
	Args func(Spec) []string
	// Env is the environment of the workers; nil means the environment of this process.
	Env []string
	// Dir is the directory below which each worker gets its own. Only this launcher may use it; whatever workers of an
	// earlier launcher left in it is deleted.
	Dir string
	// Address is the host name or IP address at which the workers' control APIs listen and are reached; empty means 127.0.0.1.
	Address string
	// Scheme of the workers' control APIs, http or https; empty means http.
	Scheme string
	// Stdout and Stderr receive the workers' output, one Write per line; nil discards it. If anything else writes to
	// them too, the writer must be safe for concurrent use, as a file is.
	Stdout, Stderr io.Writer
	Log            *slog.Logger

	drainLimit time.Duration // zero, except in tests, means the constant
}

// Launcher implements launch.Launcher. It is safe for concurrent use.
type Launcher struct {
	config         Config
	name           string // begins the id of each worker
	lock           *os.File
	stdout, stderr *sink
	events         wait.Token
	closed         chan struct{}   // closed when no worker runs and no start or removal is under way or can begin
	awaitLast      func()          // closes closed after the last worker; once, in the background
	running        sync.WaitGroup  // counts workers and removals of their directories
	inNoHurry      context.Context // for unhurried removals; hurry cancels it
	hurry          context.CancelFunc

	mu      sync.Mutex // guards the fields below
	closing bool
	started int
	workers map[dbaas.WorkerID]*worker
}

var _ launch.Launcher = (*Launcher)(nil)

// New returns a Launcher without workers. The caller closes it.
//
// ErrInUse: another launcher, possibly in another process, uses the directory. Other errors name the binary that cannot
// be run, or the directory.
func New(c Config) (*Launcher, error) {
	var err error
	if c.Binary, err = findBinary(c.Binary); err != nil {
		return nil, err
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, fmt.Errorf("directory of workers: %w", err)
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Address = cmp.Or(c.Address, "127.0.0.1")
	c.drainLimit = cmp.Or(c.drainLimit, drainLimit)
	lock, err := Claim(c.Dir)
	if err != nil {
		return nil, err
	}
	l := &Launcher{
		config: c, name: workerPrefix + hostName() + "-" + runName(time.Now()), lock: lock,
		stdout: &sink{w: c.Stdout}, stderr: &sink{w: c.Stderr},
		events: wait.NewToken(), closed: make(chan struct{}), workers: map[dbaas.WorkerID]*worker{},
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

// Close kills the workers that still run and releases the directory. A nil error means that no worker is left. After
// Close, starts fail. ErrUnavailable: ctx ended first; Close may be called again.
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
		return errors.Join(append(errs, launch.Unavailable("close launcher", ctx.Err()))...)
	}
	if err := l.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("unlock directory of workers: %w", err)
	}
	return nil
}

// Events implements launch.Launcher.
func (l *Launcher) Events() <-chan struct{} { return l.events }
