// Package workerapi is the control API of a worker as seen by both sides: the wire types, the paths and a client. The
// orchestrator's control loop uses the client; worker/workercontrol serves the paths.
package workerapi

import (
	"slices"
	"time"

	"rideshare/internal/dbaas"
)

// The paths of the control API, under a worker's control URL. Errors are problem bodies with a code.
const (
	PathRole   = "/role"   // PUT an Assignment
	PathYield  = "/yield"  // POST a Yield
	PathDrain  = "/drain"  // POST
	PathStatus = "/status" // GET a Status
	PathHashes = "/hashes" // GET dbaas.TableHashes
	PathVerify = "/verify" // POST, answers a Verification
	PathLive   = "/livez"  // GET a Pulse: 200 while the process answers
	PathReady  = "/readyz" // GET: 200 while the worker serves, else 503
)

// Assignment assigns a role to a worker. Repeating an assignment changes nothing.
type Assignment struct {
	// Worker is the intended recipient: any other worker that listens at the address by now refuses.
	Worker dbaas.WorkerID `json:"worker"`
	Role   dbaas.Role     `json:"role"`
	// PID is the engine's pid of the worker's process, under which the worker registers.
	PID int `json:"pid"`
	// Host is the name of the worker's host, under which the worker registers; "" if the launchers have no names.
	Host string `json:"host,omitempty"`
	// Epoch is the epoch that persdb granted; for a slave it is the epoch that the assignment ends. A master becomes a
	// slave only by an assignment with its current epoch, so a late assignment undoes nothing.
	Epoch dbaas.Epoch `json:"epoch,omitempty"`
}

// Validate returns a *dbaas.Error with CodeInvalid unless a names a worker, a role, a pid
// and, for a master, an epoch.
func (a Assignment) Validate() error {
	switch {
	case a.Worker == "":
		return dbaas.Errorf(dbaas.CodeInvalid, "worker must be named")
	case a.Role != dbaas.RoleMaster && a.Role != dbaas.RoleSlave:
		return dbaas.Errorf(dbaas.CodeInvalid, "role must be %q or %q", dbaas.RoleMaster, dbaas.RoleSlave)
	case a.PID <= 0:
		return dbaas.Errorf(dbaas.CodeInvalid, "pid must be positive")
	case a.Role == dbaas.RoleMaster && a.Epoch == 0:
		return dbaas.Errorf(dbaas.CodeInvalid, "a master needs an epoch")
	default:
		return nil
	}
}

// YieldFor is how long a master keeps a request to hand over its role. The caller waits equally long.
const YieldFor = 5 * time.Second

// Yield asks a master to hand over its role.
type Yield struct {
	// Worker is the intended recipient, as in an Assignment.
	Worker dbaas.WorkerID `json:"worker"`
	// To is the slave that is to become master.
	To dbaas.WorkerID `json:"to"`
}

// Validate returns a *dbaas.Error with CodeInvalid unless y names two workers.
func (y Yield) Validate() error {
	if y.Worker == "" || y.To == "" || y.Worker == y.To {
		return dbaas.Errorf(dbaas.CodeInvalid, "worker and to must be named, and not be the same")
	}
	return nil
}

// Status is a worker's report of its own state.
type Status struct {
	ID   dbaas.WorkerID `json:"id"`
	PID  int            `json:"pid"`
	Role dbaas.Role     `json:"role"` // as assigned; see Ready for whether it is served
	// Epoch is the assigned epoch, or zero for a slave.
	Epoch   dbaas.Epoch `json:"epoch"`
	Applied dbaas.Seq   `json:"applied_seq"`
	// Ready means that the worker serves its role: it is caught up, has registered and consumes. A slave keeps serving
	// while its registration is lost.
	Ready bool `json:"ready"`
	// CatchingUp means that the replica has not reached the head it saw at its start, or is being rebuilt. Reads that
	// need no more than Applied may still be served.
	CatchingUp bool `json:"catching_up"`
	// Progress grows while the replica gets closer to being readable. If it stays the same, the replica is stuck or
	// waits for persdb.
	Progress   uint64 `json:"progress"`
	Registered bool   `json:"registered"`
	Draining   bool   `json:"draining"`
	// Leaving means that the worker ends as soon as it is replaced as master, or after a while.
	Leaving bool `json:"leaving"`
	// Host is the name of the worker's machine or container, "" if it is not known.
	Host string `json:"host,omitempty"`
	// MemoryBytes is the resident memory of the worker's process, 0 if it is not known.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// ReadsInFlight is how many reads the worker has taken and not answered yet.
	ReadsInFlight int64 `json:"reads_in_flight,omitempty"`
	// Counters count from the worker's start.
	Counters map[string]int64 `json:"counters,omitempty"`
}

// Pulse shows that a worker makes progress. A worker answers it without waiting for anything. A worker of an older
// version sends an empty Pulse.
type Pulse struct {
	ID dbaas.WorkerID `json:"id"`
	// Working has the number of steps that each busy part of the worker has done. The parts are those of a master and
	// those that serve reads; a part that waits for another process is left out. A part whose number stays the same is
	// stuck.
	Working map[string]uint64 `json:"working,omitempty"`
}

// Verification is the result of a worker's comparison of its tables with persdb's.
type Verification struct {
	// Seq is the position at which both were compared.
	Seq dbaas.Seq `json:"seq"`
	// Differ names the tables that differ from persdb's, if any. In that case the worker has discarded its replica and
	// restarts from a snapshot.
	Differ []string `json:"differ,omitempty"`
}

// Differ returns, sorted, the names of the tables that differ or exist only in one of the two. Hashes of different
// positions are not comparable.
func Differ(a, b dbaas.TableHashes) []string {
	var names []string
	for name, hash := range a.Tables {
		if other, ok := b.Tables[name]; !ok || other != hash {
			names = append(names, name)
		}
	}
	for name := range b.Tables {
		if _, ok := a.Tables[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
