// Package coord is the interface to the external coordination service, which records the live workers. It keeps the
// ephemeral registrations of workers (/conts), the wanted number of slaves (/slavecount), small named values and the
// leadership of the control loop (/orchestrator). One conformance suite (coordtest) covers its implementations:
// ZooKeeper and an in-process coordinator.
package coord

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
)

// Errors of every implementation.
var (
	// ErrUnavailable is returned when the coordinator cannot be reached now.
	ErrUnavailable = errors.New("coordinator unavailable")
	// ErrSessionLost is returned when the session has ended for good, and its registrations with it. Open another
	// session.
	ErrSessionLost = errors.New("coordination session lost")
	// ErrExists is returned when another session holds a registration of that name, for example an earlier session of
	// the same process.
	ErrExists = errors.New("registered by another session")
	// ErrVersion is returned when the value was changed since it was read.
	ErrVersion = errors.New("changed since it was read")
	// ErrNone is returned when the value does not exist.
	ErrNone = errors.New("no such value")
)

// Member is a worker's registration. Worker is its identity. PID only orders elections: the kernel reuses pids, and two
// hosts may have the same.
type Member struct {
	PID int `json:"pid"`
	// Host is the name of the worker's host if the launchers have names.
	Host    string         `json:"host,omitempty"`
	Worker  dbaas.WorkerID `json:"worker"`
	Role    dbaas.Role     `json:"role"`
	Epoch   dbaas.Epoch    `json:"epoch"`
	Applied dbaas.Seq      `json:"applied_seq"`
	// Control is the base URL of the worker's control API.
	Control string `json:"control"`
	// Leaving workers keep running until they are replaced, but are given no new role.
	Leaving bool `json:"leaving,omitempty"`
	// YieldTo is the slave to which a master wants to hand over its role, or empty.
	YieldTo dbaas.WorkerID `json:"yield_to,omitempty"`
	// BusLost reports that the worker has no connection to the bus, and so can serve no requests.
	BusLost bool `json:"bus_lost,omitempty"`
	// PersdbLost reports that persdb has long not answered the worker, so that the worker can commit nothing.
	PersdbLost bool `json:"persdb_lost,omitempty"`
	// NoReplica reports that the worker has lost its replica and is fetching it again: until then it can serve no
	// reads.
	NoReplica bool `json:"no_replica,omitempty"`
	// Rebuilding reports that the worker is fetching a new replica. Without NoReplica it serves reads from its old one.
	Rebuilding bool `json:"rebuilding,omitempty"`
}

// Name is the name of the registration: cont_<pid>, or cont_<host>_<pid> if the host has a name.
func (m Member) Name() string {
	name := "cont_"
	if m.Host != "" {
		name += m.Host + "_"
	}
	return name + strconv.Itoa(m.PID)
}

// SortMembers sorts members by pid, then host, then worker.
func SortMembers(members []Member) {
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Worker, b.Worker))
	})
}

// Version is the version of a value, for compare-and-set. Zero is the version of a value that does not exist.
type Version int64

// Leader is one term of a holder of /orchestrator.
type Leader struct {
	Name string
	Term int64 // differs from that of every other term
}

// MaxValueBytes limits the size of a value: 512 KiB, half of ZooKeeper's default limit for one request
// (jute.maxbuffer, 1 MiB).
const MaxValueBytes = 512 << 10

// Coordinator opens sessions.
type Coordinator interface {
	// Open starts a session, or returns ErrUnavailable once ctx ends.
	Open(ctx context.Context) (Session, error)
}

// Session is a client's session. It is safe for concurrent use. Every method may return ErrUnavailable (the outcome
// is unknown) or ErrSessionLost (which is final).
type Session interface {
	// Timeout is how long the coordinator keeps the session without a message from its client.
	Timeout() time.Duration

	// Suspended is closed when the session may have been lost: the connection has been down so long that a master must
	// stop accepting writes. The client decides that by its own clock, so Suspended is always closed before any other
	// client can see the session end or its registrations disappear. Suspended stays closed; open another session.
	Suspended() <-chan struct{}

	// Register announces m as /conts/<name of m> until the session ends. Announcing the same name again in the same
	// session updates the registration. ErrExists: another session holds that name. If its owner has abandoned that
	// session, it will time out: wait and retry, or, if its worker is known to be dead, Evict it.
	Register(ctx context.Context, m Member) error

	// Unregister withdraws the registration with m's name if it is of this session. If there is none, it returns nil.
	Unregister(ctx context.Context, m Member) error

	// Evict removes the registration with m's name if it belongs to m.Worker, which is known to be dead. If there is no
	// such registration, it returns nil.
	Evict(ctx context.Context, m Member) error

	// Members returns a consistent snapshot of the registrations, by ascending pid, then host, then worker.
	Members(ctx context.Context) ([]Member, error)

	// Watch returns a channel that gets a token soon after any change of the members or of the slave count, when the
	// leader has left, and when the session is lost. Tokens coalesce: a token means "look again", not what happened.
	// Watch always returns the same channel, for one reader; it is never closed.
	Watch() <-chan struct{}

	// SlaveCount returns the wanted number of slaves, or ErrNone if it was never set.
	SlaveCount(ctx context.Context) (int, Version, error)

	// SetSlaveCount writes the wanted number of slaves. It returns ErrVersion if the value has changed since it was
	// read.
	SetSlaveCount(ctx context.Context, n int, old Version) error

	// Value returns the value stored under a name (lower-case letters), or ErrNone if it was never set.
	Value(ctx context.Context, name string) ([]byte, Version, error)
	// SetValue stores a value of at most MaxValueBytes, which outlives every session. It returns ErrVersion if the
	// value has changed since it was read.
	SetValue(ctx context.Context, name string, value []byte, old Version) error
	// Lead tries to become the only holder of /orchestrator, under a name that others can read, until the session ends
	// or another session takes over. It reports whether this session holds it now.
	Lead(ctx context.Context, name string) (bool, error)

	// Leader returns the holder of /orchestrator, or ErrNone.
	Leader(ctx context.Context) (Leader, error)

	// TakeOver ends the term of a leader, whose session lives on, and makes this session the holder of /orchestrator, in
	// one step. It returns false, and changes nothing, if that term is over already.
	TakeOver(ctx context.Context, from Leader, name string) (bool, error)

	// Close ends the session and its registrations immediately. It may be called twice.
	Close() error
}
