// Package ledger records the fate of every write of a load, and compares the fates with the system's data at the end:
// every acknowledged write must be there exactly once.
package ledger

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"

	"rideshare/internal/instances"
)

// Fate is the outcome of a write, as far as its sender knows.
type Fate int

// The fates.
const (
	Unknown Fate = iota // sent, and the outcome is not known
	Applied             // acknowledged
	Refused             // certainly not done
)

// FateOf returns the fate of a write from the status or the error of its answer; done is the status of a write that was
// applied.
func FateOf(status int, err error, done int) Fate {
	var op *net.OpError
	var of *instances.Error
	switch {
	case status == done:
		return Applied
	case status == http.StatusServiceUnavailable, status >= 400 && status < 500:
		return Refused
	case errors.As(err, &of) && of.Sent: // its last cause may still be a dial error
		return Unknown
	case of != nil, errors.As(err, &op) && op.Op == "dial":
		return Refused
	default:
		return Unknown
	}
}

// Writes holds the fates of the writes of one kind, by name. It is safe for concurrent use.
type Writes[K comparable] struct {
	mu    sync.Mutex // guards fates
	fates map[K]Fate
}

// Note records the fate of a write: Unknown when it is sent, then what its answer says.
func (w *Writes[K]) Note(name K, f Fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fates == nil {
		w.fates = map[K]Fate{}
	}
	w.fates[name] = f
}

// Add records a write that is about to be sent as Unknown. It reports false, and changes nothing, if there is a write of that
// name already.
func (w *Writes[K]) Add(name K) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.fates[name]; there {
		return false
	}
	if w.fates == nil {
		w.fates = map[K]Fate{}
	}
	w.fates[name] = Unknown
	return true
}

// Fates returns the fates of all writes.
func (w *Writes[K]) Fates() map[K]Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.fates)
}

// Compare notes in c how often each write was found, and removes it from found: what then remains was never written.
func (w *Writes[K]) Compare(c *Check, what string, found map[K]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, f := range w.fates {
		c.Note(what, fmt.Sprint(name), f, found[name])
		delete(found, name)
	}
}
