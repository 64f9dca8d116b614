// Package ledger records the fate of every write of a load, and compares the fates with what the system has at the end:
// what was acknowledged must be there, once.
package ledger

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
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
	switch {
	case status == done:
		return Applied
	case status == http.StatusServiceUnavailable, status >= 400 && status < 500:
		return Refused
	case errors.As(err, &op) && op.Op == "dial":
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

// Names returns the names of all writes.
func (w *Writes[K]) Names() []K {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]K, 0, len(w.fates))
	for name := range w.fates {
		names = append(names, name)
	}
	return names
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
