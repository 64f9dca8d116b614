// Package coord is what the system keeps outside itself to know who is alive:
// ephemeral registrations of workers (/conts), the wanted number of slaves
// (/slavecount), small named values and the right to run the control loop (/orchestrator). It has
// one conformance suite (coordtest) and, behind it, ZooKeeper and an in-process
// coordinator.
package coord

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
)

// Errors of every implementation.
var (
	// ErrUnavailable is returned when the coordinator cannot be reached now.
	ErrUnavailable = errors.New("coordinator unavailable")
	// ErrSessionLost is returned when the session is gone for good: what it
	// registered is gone too. Open another.
	ErrSessionLost = errors.New("coordination session lost")
	// ErrExists is returned when somebody else's registration has that name,
	// for example one that an earlier session of the same process left behind.
	ErrExists = errors.New("registered by another session")
	// ErrVersion is returned when the value was changed since it was read.
	ErrVersion = errors.New("changed since it was read")
	// ErrNone is returned when there is no such value.
	ErrNone = errors.New("no such value")
)

// Member is a worker's registration. PID orders elections and is never an
// identity: the kernel uses it again. Worker is the identity.
type Member struct {
	PID     int            `json:"pid"`
	Worker  dbaas.WorkerID `json:"worker"`
	Role    dbaas.Role     `json:"role"`
	Epoch   dbaas.Epoch    `json:"epoch"`
	Applied dbaas.Seq      `json:"applied_seq"`
	// Control is the base URL of the worker's control API.
	Control string `json:"control"`
	// Leaving workers go on for a while, to be replaced meanwhile, and are given no role any more.
	Leaving bool `json:"leaving,omitempty"`
	// YieldTo is the slave to which a master wants to hand its role over; empty for none.
	YieldTo dbaas.WorkerID `json:"yield_to,omitempty"`
	// BusLost says that the worker has no connection to the bus, and so can serve nobody.
	BusLost bool `json:"bus_lost,omitempty"`
	// NoReplica says that the worker's replica is away, to be fetched again: it can serve no read until it is back.
	NoReplica bool `json:"no_replica,omitempty"`
}

// Version is the version of a value, for compare and set. Its zero is that of a value that does not exist.
type Version int64

// MaxValueBytes bounds a value: 512 KiB, half of what ZooKeeper takes in one
// request unless configured otherwise (jute.maxbuffer, 1 MiB).
const MaxValueBytes = 512 << 10

// Coordinator opens sessions.
type Coordinator interface {
	// Open starts a session, or returns ErrUnavailable once ctx ends.
	Open(ctx context.Context) (Session, error)
}

// Session is one party's session. It is safe for concurrent use. Every
// method may return ErrUnavailable (nothing is known of the outcome) and, for good,
// ErrSessionLost.
type Session interface {
	// Timeout is how long the coordinator keeps the session without hearing of it.
	Timeout() time.Duration

	// Doubt is closed when the session may have been lost: the connection has been
	// down so long that a master must stop taking writes by its own clock, before
	// anybody else can see the session end. It is always closed before the
	// session's registrations can be gone, and stays closed; open another session.
	Doubt() <-chan struct{}

	// Register announces m as /conts/cont_<pid> until the session ends. Announcing the same
	// PID again in the same session updates it. ErrExists: another
	// session holds that name; it may be one that its owner left behind, which ends in
	// time; wait and try again, or, if its worker is known to be dead, Expel it.
	Register(ctx context.Context, m Member) error

	// Unregister withdraws a registration of this session; one that is not there is no error.
	Unregister(ctx context.Context, pid int) error

	// Expel removes a registration whose worker is known to be dead, if it still
	// is that worker's. One that is not there is no error.
	Expel(ctx context.Context, pid int, worker dbaas.WorkerID) error

	// Members returns the registrations at one moment, by ascending pid, then worker.
	Members(ctx context.Context) ([]Member, error)

	// Watch returns a channel that gets a token, soon, after any change of the
	// members or of the slave count, when the one who leads has left, and when the session is lost. Tokens coalesce: a wake-up says to
	// look again, not what happened. It is the same channel each time, for one reader, and is never closed.
	Watch() <-chan struct{}

	// SlaveCount returns the wanted number of slaves, or ErrNone if it was never set.
	SlaveCount(ctx context.Context) (int, Version, error)

	// SetSlaveCount writes the wanted number of slaves. It returns ErrVersion if
	// the value is no longer the one that was read.
	SetSlaveCount(ctx context.Context, n int, old Version) error

	// Value returns the value kept under a name (lower-case letters), or ErrNone if it was never set.
	Value(ctx context.Context, name string) ([]byte, Version, error)
	// SetValue writes a value of at most MaxValueBytes, which outlives every session. It returns
	// ErrVersion if the value is no longer the one that was read.
	SetValue(ctx context.Context, name string, value []byte, old Version) error
	// Lead tries to become the one holder of /orchestrator, until the session
	// ends. It reports whether this session holds it now.
	Lead(ctx context.Context, name string) (bool, error)

	// Close ends the session and its registrations at once. It is safe to call twice.
	Close() error
}
