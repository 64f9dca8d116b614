// Package system wires the parts into a running system. `rideshare up`, the commands that run a single part, and the
// benchmarks use it.
//
// Without Config.Processes the whole system runs in this process. Then only bus, coordinator and launcher are in-process
// implementations; everything else is the same code that containers run. With Config.Processes, the broker, the
// coordinator and the workers are outside of this process.
package system

import (
	"log/slog"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/sqlite"
	"rideshare/internal/telemetry"
	"rideshare/internal/tlsfiles"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/console"
	"rideshare/orchestrator/scale"
	"rideshare/rides/usercheck"
)

// Config holds the settings of a System. Data and Log are required. An address with port 0 means a free port.
type Config struct {
	Log *slog.Logger
	// Name distinguishes this orchestrator from others of the same stack.
	Name string
	// Advertise is the base URL at which other orchestrators of the same stack reach this one; "" if they cannot. Then they
	// wait for the end of its session when it is silent.
	Advertise string
	// Data is the directory of the database, the log and the replicas.
	Data string
	// Archive says where persdb's archive is; the zero value means none.
	Archive Archive
	// MaxDatabase is the size limit of the database's tables, in bytes; no limit if zero.
	MaxDatabase int64
	// Processes says how to run on a real broker and coordinator; nil runs everything in this process.
	Processes *Processes
	// Gateway, Users, Rides and Orchestrator are listen addresses.
	Gateway, Users, Rides, Orchestrator string
	// Slaves is the number of slaves at the very first start.
	Slaves int
	// StartsPerMinute bounds how often workers are started; zero means the default.
	StartsPerMinute int
	// HungAfter is how long a worker may show no sign of life before it is replaced; zero means the default.
	HungAfter time.Duration
	// CallTimeout is the longest wait for a worker's answer.
	CallTimeout time.Duration
	// LoadTime is the time limit of a load; zero means the default.
	LoadTime time.Duration
	// MaxTimeout is the longest timeout that a request of the SQL form may ask for; zero means the default.
	MaxTimeout time.Duration
	// WriteTime and OperationTime bound one write statement, and all statements of a write; zero means the default.
	WriteTime, OperationTime time.Duration
	// Version is the product's version. AllowOrigin is the value of Access-Control-Allow-Origin, see orchestratorapi.
	Version, AllowOrigin string
	// About is what the console shows about this process.
	About console.About
	// Budget bounds the memory that the requests of all services hold together; nil means a default budget for each
	// service.
	Budget *httpapi.Budget
	// MaxStatements is how many statements a request may have; zero means the default.
	MaxStatements int
	// Unbatched sends one message per request, for comparison in benchmarks.
	Unbatched bool
	// Metrics is the registry for the system's metrics; nil means a new registry.
	Metrics *telemetry.Registry
	Scale   Scale
	Cache   Cache
	// Changes holds the settings of the change feed.
	Changes Changes
	// Lanes are the bounds of the orchestrator's lanes.
	Lanes admission.Lanes
	// Admission protects the orchestrator from overload; nil leaves only the bounds of the dispatcher.
	Admission *admission.Settings
	// Limits bounds what one statement of a client may use, also in workers that are other processes.
	Limits sqlite.Limits
	// OnStuck is called for a statement in this process that ignores its interruption; nil turns the detection off.
	OnStuck   func(sql string)
	RideRules RideRules
	// AllowedHosts are the host names, besides localhost, that listeners on loopback addresses accept.
	AllowedHosts []string
	// Credentials guard the routes; nil leaves all open. Authorization is the header that users and rides send to the
	// orchestrator: with Credentials it must have the role write.
	Credentials   *httpapi.Credentials
	Authorization string
	// TLS is for the listeners of this process and for its calls; nil means plain HTTP.
	TLS *tlsfiles.Files
	// ChildEnv are further settings of child processes, NAME=value.
	ChildEnv []string
}

// Changes holds the settings of the change feed. The zero value means the defaults.
type Changes struct {
	// Streams is how many streams may be open on this orchestrator.
	Streams int
	// Stall is how long a consumer may take nothing before it is cut off.
	Stall time.Duration
}

// Scale says how the number of slaves follows the load.
type Scale struct {
	Settings scale.Settings
	Period   time.Duration
}

// RideRules holds the settings of the rides service.
type RideRules struct {
	Now       func() time.Time
	Location  *time.Location
	UserCheck usercheck.Mode
	// Origin is the header by which rides identifies itself to users; its own URL if empty.
	Origin string
}
