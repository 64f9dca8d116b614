// Package launch starts and stops workers: as containers, as processes or inside
// this process. All implementations pass one conformance suite (internal/testkit/launchtest).
package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"rideshare/internal/dbaas"
)

// Errors of every implementation.
var (
	// ErrUnavailable is returned when the engine cannot be reached. A Start that returned ErrUnavailable may still have
	// taken effect: check with List, or call Start again with the same id, which is safe.
	ErrUnavailable = errors.New("launcher unavailable")
	// ErrSilent is the ErrUnavailable of a Hosts launcher for a worker whose host does not answer.
	ErrSilent = fmt.Errorf("%w: its host does not answer", ErrUnavailable)
	// ErrNoWorker is returned for a worker that no longer exists.
	ErrNoWorker = errors.New("no such worker")
)

// Unavailable returns the ErrUnavailable of a call that may or may not have taken effect.
func Unavailable(what string, cause error) error {
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, cause)
}

// Instance is one life of a worker, dead or alive, as reported by the engine. launch/remote sends it as JSON.
type Instance struct {
	ID dbaas.WorkerID `json:"id"`
	// Host is the name of the worker's host, as the caller of the host's launcher knows it. "" if there is only one launcher.
	Host string `json:"-"`
	// StartID is the caller's name for the start that created this worker.
	StartID string `json:"start_id"`
	// PID is the process id that the engine reports for the worker; elections order workers by it. It is zero when the worker
	// does not run, and while the engine has not reported it.
	PID int `json:"pid"`
	// Control is the base URL of the worker's control API.
	Control   string    `json:"control"`
	Running   bool      `json:"running"`
	StartedAt time.Time `json:"started_at"`
	// ExitCode is meaningful only when the worker does not run. It is 137 after SIGKILL.
	ExitCode int `json:"exit_code"`
}

// Order compares two instances in the order of List.
func Order(a, b Instance) int {
	return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID))
}

// Launcher starts and stops workers of one stack. It is safe for concurrent use.
type Launcher interface {
	// Start starts a worker. It is idempotent in startID: the same startID returns the same worker until that worker has
	// been removed. A nil error means that the worker's process runs, not that it is ready to serve.
	Start(ctx context.Context, startID string) (Instance, error)

	// Kill ends a worker immediately (SIGKILL), paused or not, and returns once it is confirmed dead. Killing a dead
	// worker is no error. ErrNoWorker: the worker never existed or was removed.
	Kill(ctx context.Context, id dbaas.WorkerID) error

	// Stop asks a worker to finish its pending work and exit (SIGTERM). It kills the worker when grace is over, and
	// returns once it is confirmed dead. Errors as for Kill.
	Stop(ctx context.Context, id dbaas.WorkerID, grace time.Duration) error

	// Remove deletes the record of a dead worker and everything it left behind. Removing a worker that does not exist is
	// no error; removing a running worker is an error.
	Remove(ctx context.Context, id dbaas.WorkerID) error

	// List returns every worker of the stack that was not removed, dead ones included, ordered by start time, then id.
	List(ctx context.Context) ([]Instance, error)

	// Events returns a channel that receives a token soon after any worker starts or dies, and after the connection to
	// the engine is lost and restored. Tokens coalesce: a token means "look again", not what happened. Every call
	// returns the same channel, which has a single reader and is never closed.
	Events() <-chan struct{}
}

// Host is what a Hosts launcher knows of one host.
type Host struct {
	Name string
	// SilentSince is since when the host's launcher has not answered; zero while it answers.
	SilentSince time.Time
	// AnswersSince is when the host's launcher last began to answer; zero if it never did.
	AnswersSince time.Time
	// Listed is when the newest list of the host's workers was requested; zero if there is none.
	Listed time.Time
}

// Answers reports whether the host's launcher answers.
func (h Host) Answers() bool { return h.SilentSince.IsZero() }

// Hosts is a Launcher for several hosts, each with a launcher of its own. A start id begins with the name of its host and
// a dot.
type Hosts interface {
	Launcher
	// Look returns the workers and the state of every host, by name. The workers of a silent host are those of its last
	// list: they may have ended since, and others may run. Look does not wait for silent hosts.
	Look(ctx context.Context) ([]Instance, []Host)
}
