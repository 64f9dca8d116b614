package invariants

import (
	"context"
	"errors"
	"strings"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/orchestrator/launch"
)

// The names of the invariants, in the order of a report.
const (
	LogDense      = "log_dense"        // every entry from the trimmed position to the head exists
	LogIntact     = "log_intact"       // the existing entries are unchanged, byte by byte
	EpochsOrdered = "epochs_ordered"   // epochs never decrease along the log
	NoOrphans     = "nothing_orphaned" // every running worker is registered in its role, and every registered worker runs
	OneMaster     = "one_master"
	SlavesWanted  = "slaves_as_wanted"
	RowsIntact    = "rows_intact"    // persdb's rows are the ones it committed, byte by byte
	ReplicasEqual = "replicas_equal" // at an equal position every worker's tables equal persdb's
	CacheEqual    = "cache_equal"    // valid answers of the read cache are those that a worker gives; absent without a cache
)

// Invariant is one promise and whether it holds.
type Invariant struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Detail says what was checked, or what is wrong.
	Detail string `json:"detail"`
}

// WorkerReport is one worker whose replica was compared.
type WorkerReport struct {
	PID    int            `json:"pid"`
	Worker dbaas.WorkerID `json:"worker"`
	Role   dbaas.Role     `json:"role"`
	// Seq is the position at which it was compared, or zero if it was not.
	Seq dbaas.Seq `json:"seq"`
	// Differ names the tables that differ from persdb's.
	Differ []string `json:"differ,omitempty"`
	// Problem says what is wrong with the worker, and what was done about it.
	Problem string `json:"problem,omitempty"`
}

// Report is the outcome of a check.
type Report struct {
	// OK reports whether every invariant holds.
	OK         bool           `json:"ok"`
	At         time.Time      `json:"at"`
	Invariants []Invariant    `json:"invariants"`
	Workers    []WorkerReport `json:"workers"`
}

// Failed returns the invariants that do not hold.
func (r Report) Failed() []Invariant {
	var failed []Invariant
	for _, i := range r.Invariants {
		if !i.OK {
			failed = append(failed, i)
		}
	}
	return failed
}

// Replace replaces the invariants that have the same names.
func (r *Report) Replace(invariants ...Invariant) {
	for _, with := range invariants {
		for i := range r.Invariants {
			if r.Invariants[i].Name == with.Name {
				r.Invariants[i] = with
			}
		}
	}
	r.OK = holds(r.Invariants)
}

func holds(invariants []Invariant) bool {
	for _, i := range invariants {
		if !i.OK {
			return false
		}
	}
	return true
}

// judged returns an invariant that holds if wrong is empty.
func judged(name, well string, wrong []string) Invariant {
	if len(wrong) == 0 {
		return Invariant{Name: name, OK: true, Detail: well}
	}
	return Invariant{Name: name, Detail: strings.Join(wrong, "; ")}
}

// reason returns the part of err that may be disclosed: never addresses or files.
func reason(err error) string {
	if e, ok := errors.AsType[*dbaas.Error](err); ok && e.Code != dbaas.CodeInternal {
		return e.Message
	}
	for _, known := range []error{coord.ErrUnavailable, coord.ErrSessionLost, coord.ErrNone, launch.ErrUnavailable, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "internal error"
}
