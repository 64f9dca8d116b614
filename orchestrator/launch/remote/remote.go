// Package remote reaches the launcher of another process, `rideshare launcher`, which alone may talk to the engine. The
// caller can start, kill, stop, remove and list workers of one stack and nothing else: the launcher's own settings
// define what a worker is. The server side is in launch/remote/launchapi.
package remote

import (
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/launch"
)

// The paths of the launcher's API. Bodies are JSON, strict.
const (
	PathStart  = "/v1/start"   // POST a Start, answers a launch.Instance
	PathKill   = "/v1/kill"    // POST a Target
	PathStop   = "/v1/stop"    // POST a Stop
	PathRemove = "/v1/remove"  // POST a Target
	PathList   = "/v1/workers" // GET, answers a List
	PathEvents = "/v1/events"  // GET, answers an Event
)

// ParamAfter is the query parameter of PathEvents: the last Event that the caller has seen.
const ParamAfter = "after"

const (
	// MaxNameBytes bounds start ids and worker ids.
	MaxNameBytes = 128
	// MaxGrace bounds how long a worker may take to finish.
	MaxGrace = time.Minute
	// PollWait is how long the launcher holds a request for events when there are none.
	PollWait = 20 * time.Second
)

// Start asks for a worker.
type Start struct {
	StartID string `json:"start_id"`
}

// Target names a worker.
type Target struct {
	Worker dbaas.WorkerID `json:"worker"`
}

// Stop names a worker that is to finish within the grace.
type Stop struct {
	Worker      dbaas.WorkerID `json:"worker"`
	GraceMillis int64          `json:"grace_ms"`
}

// List is every worker of the stack, in launch.Launcher's order.
type List struct {
	Workers []launch.Instance `json:"workers"`
}

// Event identifies the current state of the launcher's events. A request that names a seen Event is answered as soon as
// the current one differs, which includes a restart of the launcher, or with the same Event after PollWait.
type Event struct {
	At string `json:"at"`
}
