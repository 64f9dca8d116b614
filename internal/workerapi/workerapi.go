// Package workerapi is the control API of a worker as both sides see it: the
// wire types, the paths and a client. The orchestrator's control loop uses the
// client; worker/control serves the paths.
package workerapi

import (
	"slices"
	"time"

	"rideshare/internal/dbaas"
)

// The paths of the control API, under a worker's control URL.
const (
	PathRole   = "/role"   // PUT an Assignment
	PathYield  = "/yield"  // POST a Yield
	PathDrain  = "/drain"  // POST
	PathStatus = "/status" // GET a Status
	PathHashes = "/hashes" // GET dbaas.TableHashes
	PathVerify = "/verify" // POST, answers a Verification
	PathLive   = "/livez"  // GET: 200 while the process answers
	PathReady  = "/readyz" // GET: 200 while the worker serves, else 503
)

// Assignment tells a worker what it is to be. The same one again changes nothing.
type Assignment struct {
	// Worker is who is meant: whoever else listens at that address by now refuses.
	Worker dbaas.WorkerID `json:"worker"`
	Role   dbaas.Role     `json:"role"`
	// PID is the engine's number of the worker's process, by which it registers.
	PID int `json:"pid"`
	// Epoch is the mastership that persdb gave out, for a slave the one that it ends. A
	// master becomes a slave only by the one that it has: so an assignment that comes late undoes nothing.
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

// YieldFor is how long a master keeps the wish to hand its role over. Whoever asked for it
// waits as long.
const YieldFor = 5 * time.Second

// Yield asks a master to hand its role over.
type Yield struct {
	// Worker is who is meant, as in an Assignment.
	Worker dbaas.WorkerID `json:"worker"`
	// To is the slave that is to follow.
	To dbaas.WorkerID `json:"to"`
}

// Validate returns a *dbaas.Error with CodeInvalid unless y names two workers.
func (y Yield) Validate() error {
	if y.Worker == "" || y.To == "" || y.Worker == y.To {
		return dbaas.Errorf(dbaas.CodeInvalid, "worker and to must be named, and not be the same")
	}
	return nil
}

// Status is what a worker says of itself.
type Status struct {
	ID   dbaas.WorkerID `json:"id"`
	PID  int            `json:"pid"`
	Role dbaas.Role     `json:"role"` // as assigned, not as served: see Ready
	// Epoch is the mastership that was assigned, zero for a slave.
	Epoch   dbaas.Epoch `json:"epoch"`
	Applied dbaas.Seq   `json:"applied_seq"`
	// Ready says that the worker serves its role: it is caught up, has registered and consumes.
	// A slave goes on serving while its registration is lost.
	Ready bool `json:"ready"`
	// CatchingUp says that the replica has not reached the head it saw at its start, or
	// that it is being made anew. Reads that need no more than Applied may go on meanwhile.
	CatchingUp bool `json:"catching_up"`
	// Progress grows while the replica comes nearer to being read. One that stays the same is stuck, or waits for persdb.
	Progress   uint64 `json:"progress"`
	Registered bool   `json:"registered"`
	Draining   bool   `json:"draining"`
	// Leaving says that the worker ends as soon as it is replaced as master, or after a while.
	Leaving bool `json:"leaving"`
	// Counters count since the worker's start.
	Counters map[string]int64 `json:"counters,omitempty"`
}

// Verification is what a worker found when it compared its tables with persdb's.
type Verification struct {
	// Seq is the position at which both were looked at.
	Seq dbaas.Seq `json:"seq"`
	// Differ names the tables that are not persdb's, none if all are. If there are
	// some, the worker has thrown its replica away and starts again from a snapshot.
	Differ []string `json:"differ,omitempty"`
}

// Differ returns the names of the tables that are not the same in both, or only in one
// of them, sorted. Hashes of different positions say nothing about each other.
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

// Problem is the body of an answer that is no success.
type Problem struct {
	Code    dbaas.Code `json:"code"`
	Message string     `json:"message"`
}
