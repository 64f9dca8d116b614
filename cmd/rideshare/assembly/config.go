// Package assembly wires the services into one system in one process: the
// embedded default of `rideshare up`, of the benchmark and of whoever embeds it.
// Only bus, coordinator and launcher are in-process implementations; everything
// else is what the containers run.
package assembly

import (
	"log/slog"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/sqlite"
	"rideshare/internal/telemetry"
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
	// MaxDatabase is how many bytes the database's tables may take; no limit if zero.
	MaxDatabase int64
	// Processes says how to run on a real broker and coordinator; nil is
	// everything in this process.
	Processes *Processes
	// Gateway, Users, Rides and Orchestrator are listen addresses.
	Gateway, Users, Rides, Orchestrator string
	// Slaves is the number of slaves at the very first start.
	Slaves int
	// StartsPerMinute bounds how often workers are started; zero means the default.
	StartsPerMinute int
	// CallTimeout is the longest wait for a worker's answer.
	CallTimeout time.Duration
	// Budget bounds what the requests of all services of the process hold; nil means one of the default size for each.
	Budget *httpapi.Budget
	// MaxStatements is how many statements a request may have; zero means the default.
	MaxStatements int
	// Unbatched sends one message a request, for comparison in benchmarks.
	Unbatched bool
	// Metrics is where the system registers its own; nil means a registry of its own.
	Metrics *telemetry.Registry
	Scale   Scale
	// Limits bound what one statement of a client may take, in workers that are other processes too.
	Limits sqlite.Limits
	// OnStuck is called for a statement in this process that nothing stops; nil means that none is looked for.
	OnStuck   func(sql string)
	RideRules RideRules
	// AllowedHosts are the names by which listeners on loopback addresses may be called, besides localhost.
	AllowedHosts []string
	// Credentials guard the database and crash routes, and Authorization is the
	// header with which users and rides pass them. Both or neither.
	Credentials   *httpapi.Credentials
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
