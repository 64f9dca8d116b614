// Package assembly wires the services into one system in one process: the
// embedded default of `rideshare up`, of the benchmark and of whoever embeds it.
// Only bus, coordinator and launcher are in-process implementations; everything
// else is what the containers run.
package assembly

import (
	"log/slog"
	"time"

	"rideshare/internal/telemetry"
	"rideshare/orchestrator/api"
	"rideshare/orchestrator/scale"
	"rideshare/rides/usercheck"
)

// Config is the settings of a System. Data and Log are required; addresses may
// have port 0 for a free one.
type Config struct {
	Log *slog.Logger
	// Name tells this orchestrator from others of the same stack.
	Name string
	// Data is the directory of the database, the log and the replicas.
	Data string
	// Processes says how to run on a real broker and coordinator; nil is
	// everything in this process.
	Processes *Processes
	// Gateway, Users, Rides and Orchestrator are listen addresses.
	Gateway, Users, Rides, Orchestrator string
	// Slaves is the number of slaves at the very first start.
	Slaves int
	// CallTimeout is the longest wait for a worker's answer.
	CallTimeout time.Duration
	// Unbatched sends one message a request, for comparison in benchmarks.
	Unbatched bool
	// Metrics is where the system registers its own; nil means a registry of its own.
	Metrics   *telemetry.Registry
	Scale     Scale
	RideRules RideRules
	// Credentials guard the database and crash routes, and Authorization is the
	// header with which users and rides pass them. Both or neither.
	Credentials   *api.Credentials
	Authorization string
}

// Scale says how the number of slaves follows the load.
type Scale struct {
	Policy scale.Policy
	// Others only say what they would have done.
	Others []scale.Policy
	Period time.Duration
}

// RideRules is the settings of the rides service.
type RideRules struct {
	Now       func() time.Time
	Location  *time.Location
	UserCheck usercheck.Mode
	// Origin is the header by which rides names itself at users; its own URL if empty.
	Origin string
}
