// Package launch starts and stops workers: as containers, as processes or inside
// this process. It has one conformance suite (launchtest).
package launch

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
)

// Errors of every implementation.
var (
	// ErrUnavailable is returned when the engine cannot be reached. A Start that
	// returned it may have happened: List tells, and the same Start again is safe.
	ErrUnavailable = errors.New("launcher unavailable")
	// ErrNoWorker is returned for a worker that does not exist any more.
	ErrNoWorker = errors.New("no such worker")
)

// Instance is one life of a worker, dead or alive, as the engine knows it. Its JSON
// is what launch/remote sends.
type Instance struct {
	ID dbaas.WorkerID `json:"id"`
	// StartID is the caller's name for the start that made it.
	StartID string `json:"start_id"`
	// PID is the engine's number of the worker's process. It orders elections;
	// it is zero when the worker does not run.
	PID int `json:"pid"`
	// Control is the base URL of the worker's control API.
	Control   string    `json:"control"`
	Running   bool      `json:"running"`
	StartedAt time.Time `json:"started_at"`
	// ExitCode has a meaning when the worker does not run: 137 for SIGKILL.
	ExitCode int `json:"exit_code"`
}

// Launcher starts and stops workers of one stack. It is safe for concurrent use.
type Launcher interface {
	// Start starts a worker, and is idempotent in startID: the same again returns
	// the same worker as long as that has not been removed. nil means that the
	// worker's process runs, not that it serves.
	Start(ctx context.Context, startID string) (Instance, error)

	// Kill ends a worker at once (SIGKILL), paused or not, and returns when it
	// is surely dead. One that is dead already is no error. ErrNoWorker: never seen, or removed.
	Kill(ctx context.Context, id dbaas.WorkerID) error

	// Stop asks a worker to finish what is in hand and exit (SIGTERM), kills it when
	// grace is over, and returns when it is surely dead. Errors as for Kill.
	Stop(ctx context.Context, id dbaas.WorkerID, grace time.Duration) error

	// Remove forgets a dead worker and everything it left behind. A worker that is not
	// there is no error; one that runs is.
	Remove(ctx context.Context, id dbaas.WorkerID) error

	// List returns every worker of the stack that was not removed, dead ones too,
	// by start time, then id.
	List(ctx context.Context) ([]Instance, error)

	// Events returns a channel that gets a token, soon, after any worker started
	// or died, and after the engine was lost and found again. Tokens coalesce: a wake-up says to look
	// again, not what happened. It is the same channel each time, for one reader, and is never closed.
	Events() <-chan struct{}
}
