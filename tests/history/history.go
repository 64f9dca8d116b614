// Package history records the calls of the clients of a database and their answers, and
// decides with porcupine whether one database, doing one thing at a time, could
// have given these answers (linearizability). For tests only.
//
// Time is the order in which calls began and ended, not a clock's: a simulated clock
// stands still for thousands of steps. A write whose outcome is unknown is an
// operation that never ends, so that it may take effect at any later moment, or never.
package history

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"rideshare/internal/testkit/testenv"
)

// Kind is what an operation does.
type Kind string

// The kinds. Registers have Read, Write and Swap; sets have Members and Add.
const (
	Read    Kind = "read"
	Write   Kind = "write"
	Swap    Kind = "swap" // write Value if the register has Old
	Members Kind = "members"
	Add     Kind = "add"
)

// Call is one operation on the register or set named Key.
type Call struct {
	Kind  Kind
	Key   string
	Value string // what Write, Swap and Add write
	Old   string // what Swap expects
}

func (c Call) reads() bool { return c.Kind == Read || c.Kind == Members }

// Answer is the answer to a call.
type Answer struct {
	Value   string   // what Read read, "" before the first write
	Done    bool     // whether Swap found what it expected
	Members []string // what Members read, sorted
}

// Recorder collects a history. It is safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex // guards the fields below
	now     int64      // counts beginnings and ends
	clients int
	made    []*Client
	done    []porcupine.Operation
	open    map[*Pending]bool // calls without an answer
}

// New returns an empty history.
func New() *Recorder { return &Recorder{open: map[*Pending]bool{}} }

// Pending is a call that waits for its answer. At most one of Answered and Refused is called.
type Pending struct {
	client *Client
	id     int // the client's when the call began
	call   Call
	began  int64
}

// Client makes calls one after the other.
type Client struct {
	recorder *Recorder
	id       int
	reads    int // that were answered
}

// Client returns a new client. It belongs to one goroutine.
func (r *Recorder) Client() *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Client{recorder: r, id: r.clients}
	r.clients++
	r.made = append(r.made, c)
	return c
}

// Begin notes that call is about to be made.
func (c *Client) Begin(call Call) *Pending {
	r := c.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	p := &Pending{client: c, id: c.id, call: call, began: r.now}
	r.open[p] = true
	return p
}

// Answered notes the answer.
func (p *Pending) Answered(a Answer) {
	r := p.client.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	if p.call.reads() {
		p.client.reads++
	}
	slices.Sort(a.Members)
	r.done = append(r.done, porcupine.Operation{ClientId: p.id, Input: p.call, Call: p.began, Output: output{Answer: a}, Return: r.now})
	delete(r.open, p)
}

// Refused notes that the call certainly had no effect and never will.
func (p *Pending) Refused() {
	r := p.client.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, p)
}

// Unknown notes that it is unknown whether the call has, or will have, its effect. The call stays open, and the client continues
// under a new id.
func (c *Client) Unknown(p *Pending) {
	if p.call.reads() {
		p.Refused() // it has no visible effect
		return
	}
	r := c.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	c.id = r.clients
	r.clients++
}

// output is an answer. If unknown is set, there was none.
type output struct {
	Answer
	unknown bool
}

// operations returns the history. Open calls never end in it.
func (r *Recorder) operations() []porcupine.Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.done)
	for p := range r.open {
		if p.call.reads() {
			continue
		}
		all = append(all, porcupine.Operation{ClientId: p.id, Input: p.call, Call: p.began, Output: output{unknown: true}, Return: math.MaxInt64})
	}
	return all
}

// Len returns how many calls were answered, and how many were not and may have their effect.
func (r *Recorder) Len() (answered, unknown int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.done), len(r.open)
}

// WantReads returns an error unless every client had at least this many reads answered: writes alone can be explained in any
// order, and prove nothing.
func (r *Recorder) WantReads(each int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var few []error
	for i, c := range r.made {
		if c.reads < each {
			few = append(few, fmt.Errorf("history: client %d had %d reads answered, want at least %d", i, c.reads, each))
		}
	}
	return errors.Join(few...)
}

// ErrUndecided is returned by Check when porcupine could not decide in time.
var ErrUndecided = errors.New("history: not decided in time")

// NotLinearizableError says that no order of the calls explains the answers.
type NotLinearizableError struct {
	// Keys are the registers and sets that cannot be explained.
	Keys []string
	info porcupine.LinearizationInfo
}

func (e *NotLinearizableError) Error() string {
	return fmt.Sprintf("history: not linearizable: %s", strings.Join(e.Keys, ", "))
}

// Draw writes porcupine's page about the history, as HTML.
func (e *NotLinearizableError) Draw(w io.Writer) error {
	return porcupine.Visualize(model(), e.info, w)
}

// Check returns nil if the history is linearizable, a *NotLinearizableError if it is not, and ErrUndecided after limit. The
// recorder can be used afterwards.
func (r *Recorder) Check(limit time.Duration) error {
	all := r.operations()
	verdict, info := porcupine.CheckOperationsVerbose(model(), all, limit)
	switch verdict {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return &NotLinearizableError{Keys: illegal(all, limit), info: info}
	case porcupine.Unknown:
	}
	return ErrUndecided
}

// Verdict is Check for a test. If the history is not linearizable, Verdict draws it in the artefact of that name, and its error
// says where.
func (r *Recorder) Verdict(limit time.Duration, artefact string) error {
	err := r.Check(limit)
	bad, ok := errors.AsType[*NotLinearizableError](err)
	if !ok {
		return err
	}
	f, ferr := testenv.Artefact(artefact)
	if ferr != nil {
		return errors.Join(err, ferr)
	}
	return errors.Join(fmt.Errorf("%w, drawn in %s", err, f.Name()), bad.Draw(f), f.Close())
}

// illegal names the keys whose histories are not linearizable by themselves.
func illegal(all []porcupine.Operation, limit time.Duration) []string {
	var keys []string
	for _, part := range partition(all) {
		if porcupine.CheckOperationsTimeout(model(), part, limit) == porcupine.Illegal {
			keys = append(keys, part[0].Input.(Call).Key)
		}
	}
	return keys
}
