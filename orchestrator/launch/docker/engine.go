package docker

import (
	"context"
	"errors"
	"time"
)

// Engine is what this package needs from a container engine: few enough calls that
// another client library, or another engine, is one file. It is safe for concurrent use.
//
// Errors are errNotFound, errConflict and errMissingImage where they are named, errRefused for what the
// engine will never do, and anything else means that it did not answer: the call may have happened.
type Engine interface {
	// Create makes a container that does not run yet. errConflict: the name is taken.
	// errMissingImage: the engine has not got the image.
	Create(ctx context.Context, p Plan) (id string, err error)
	// Start runs it; one that runs already is no error. errNotFound: it was removed.
	Start(ctx context.Context, id string) error
	// Signal sends a signal such as SIGKILL, which also ends a paused container. errConflict: it does not run.
	Signal(ctx context.Context, id, signal string) error
	// Wait returns when the container does not run. ctx alone bounds it. errNotFound: it was removed.
	Wait(ctx context.Context, id string) error
	// Remove removes it with its anonymous volumes. errConflict: it runs, or is being removed. errNotFound.
	Remove(ctx context.Context, id string) error
	// Inspect returns what the engine knows of the container with that id or name. errNotFound.
	Inspect(ctx context.Context, idOrName string) (Container, error)
	// List returns every container with that label, "key=value", in any state. Only ID and Labels are set.
	List(ctx context.Context, label string) ([]Container, error)
	// Tail returns the last lines of its two outputs.
	Tail(ctx context.Context, id string, lines int) (string, error)
	// Watch calls each as soon as it is surely listening, with the zero Change, and then for every change of
	// a container with that label, until the connection or ctx ends, and returns why.
	Watch(ctx context.Context, label string, each func(Change)) error
}

// Errors of an Engine.
var (
	errNotFound     = errors.New("no such container")
	errConflict     = errors.New("conflict")
	errMissingImage = errors.New("no such image")
	errRefused      = errors.New("refused by the engine")
)

// Plan is a container that is to be made. What all of ours have in common is not in
// it: no capability, a read-only root, no way to gain rights, no swap, no restart, bounded logs.
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
	// Binds are files of the engine's host, by their path in the container, mounted read-only.
	Binds map[string]string
	// Tmpfs are the options of file systems in memory, by their path.
	Tmpfs       map[string]string
	MemoryBytes int64
	NanoCPUs    int64
	PIDs        int64
}

// status is a container's state in the engine's words.
type status string

// The states that matter. In all others, and in these but running and paused, nothing of it runs.
const (
	statusCreated status = "created"
	statusRunning status = "running"
	statusPaused  status = "paused"
	statusExited  status = "exited"
)

// Change is what the engine told of one container. Most changes only say that it is time to look.
type Change struct {
	ID string
	// Died says that it has ended, with ExitCode. The engine tells so some 200 ms before Inspect does.
	Died     bool
	ExitCode int
	// Started says that it runs, also after it died.
	Started bool
}

// Container is what the engine knows of a container.
type Container struct {
	ID     string
	Name   string
	Labels map[string]string
	Status status
	// PID is that of its first process, as the engine's host numbers it; 0 when it does not run.
	PID       int
	ExitCode  int
	CreatedAt time.Time
	StartedAt time.Time // zero if it never ran
}

func (c Container) running() bool { return c.Status == statusRunning || c.Status == statusPaused }
