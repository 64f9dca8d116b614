package docker

import (
	"context"
	"errors"
	"time"
)

// Engine is what this package needs from a container engine: so few calls that the adapter for another client library,
// or another engine, fits in one file. It is safe for concurrent use.
//
// Methods return errNotFound, errConflict and errMissingImage where documented, and errRefused for a request that the
// engine will never fulfil. Any other error means that the engine did not answer: the call may have taken effect.
type Engine interface {
	// Create creates a container without starting it. errConflict: the name is taken. errMissingImage: the engine does
	// not have the image.
	Create(ctx context.Context, p Plan) (id string, err error)
	// Start starts the container; if it already runs, that is no error. errNotFound: it was removed.
	Start(ctx context.Context, id string) error
	// Signal sends a signal such as SIGKILL, which also ends a paused container. errConflict: it does not run.
	Signal(ctx context.Context, id, signal string) error
	// Wait returns when the container does not run. Only ctx bounds the wait. errNotFound: it was removed.
	Wait(ctx context.Context, id string) error
	// Remove removes the container with its anonymous volumes. errConflict: it runs, or is being removed. errNotFound:
	// it was removed.
	Remove(ctx context.Context, id string) error
	// Inspect returns the container with this id or name. errNotFound: there is none.
	Inspect(ctx context.Context, idOrName string) (Container, error)
	// List returns every container with this label ("key=value"), in any state, without waiting for any of them.
	// Only ID, Labels, Status and CreatedAt are set.
	List(ctx context.Context, label string) ([]Container, error)
	// Tail returns the last lines of the container's two outputs.
	Tail(ctx context.Context, id string, lines int) (string, error)
	// Watch calls each with the zero Change once it is guaranteed to receive events, and then for every change of a
	// container with this label. It returns an error when the connection or ctx ends.
	Watch(ctx context.Context, label string, each func(Change)) error
}

// Errors of an Engine.
var (
	errNotFound     = errors.New("no such container")
	errConflict     = errors.New("conflict")
	errMissingImage = errors.New("no such image")
	errRefused      = errors.New("refused by the engine")
)

// Plan describes a container to be created. It leaves out what all our containers have in common: no capabilities, a
// read-only root, no way to gain rights, no swap, no restart, bounded logs.
type Plan struct {
	Name    string
	Image   string
	Command []string
	Env     []string // NAME=value
	Labels  map[string]string
	// User is uid:gid, in numbers.
	User string
	// Network is the name of a network, or "host".
	Network string
	// Alias is one more name in the network, which several containers may have. Empty: none.
	Alias string
	// Binds are files of the engine's host, keyed by their path in the container, mounted read-only.
	Binds map[string]string
	// Tmpfs are the options of in-memory file systems, keyed by their path.
	Tmpfs       map[string]string
	MemoryBytes int64
	NanoCPUs    int64
	PIDs        int64
}

// status is a container's state in the engine's terms.
type status string

// The states that matter. Only in running and paused does the container have a process.
const (
	statusCreated status = "created"
	statusRunning status = "running"
	statusPaused  status = "paused"
	statusExited  status = "exited"
)

// Change is an event of one container. Most changes only mean that the list should be read again.
type Change struct {
	ID string
	// Died reports that the container has ended, with ExitCode. The event comes some 200 ms before Inspect shows the end.
	Died     bool
	ExitCode int
	// Started reports that the container runs, even if it had died before.
	Started bool
}

// Container is what the engine reports about a container.
type Container struct {
	ID     string
	Name   string
	Labels map[string]string
	Status status
	// PID is the pid of its first process on the engine's host; 0 when it does not run.
	PID       int
	ExitCode  int
	CreatedAt time.Time
	StartedAt time.Time // zero if it never ran
}

func (c Container) running() bool { return c.Status == statusRunning || c.Status == statusPaused }
