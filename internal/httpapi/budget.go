package httpapi

import (
	"container/list"
	"context"
	"sync"
	"time"

	"rideshare/internal/dbaas"
)

const (
	// DefaultMemory is the size of a Budget unless a setting says otherwise, in bytes: four bodies of the largest size.
	DefaultMemory = 256 << 20
	// smallHold is up to where a request holds room of the reserve: it never waits behind large ones.
	smallHold = 64 << 10
	// reserveShare is the size of the reserve, as a share of the budget, on top of it.
	reserveShare = 16
	// roomWait is how long a request waits for room. It is well under the deadline of a call, so that the client hears why.
	roomWait = time.Second
	// evictEvery is how often a request that waits looks for slow transfers.
	evictEvery = roomWait / 4
)

// Budget bounds the bytes of requests and answers that a process holds at once. It is safe for concurrent use.
type Budget struct {
	large, small pool
}

// NewBudget returns a Budget of so many bytes.
func NewBudget(bytes int64) *Budget {
	b := &Budget{large: pool{size: bytes, free: bytes}, small: pool{size: bytes / reserveShare, free: bytes / reserveShare}}
	b.large.transfers.grace, b.small.transfers.grace = slowGrace, shortGrace
	return b
}

// of returns the pool that n bytes are taken of.
func (b *Budget) of(n int64) *pool {
	if n <= smallHold {
		return &b.small
	}
	return &b.large
}

// pool is a number of bytes that requests take in the order in which they come.
type pool struct {
	size      int64
	transfers transfers // those that hold some of it

	mu      sync.Mutex // guards the fields below
	free    int64      // below zero while answers that cannot be refused are over the size
	waiting list.List  // of *waiter
}

type waiter struct {
	n     int64
	taken chan struct{} // closed when n has been taken
}

// tryTake takes n bytes if there is room and no one waits.
func (p *pool) tryTake(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free < n || p.waiting.Len() > 0 {
		return false
	}
	p.free -= n
	return true
}

// take waits for n bytes, at most until ctx ends, and reports whether it got them. As long as it waits slow transfers end.
func (p *pool) take(ctx context.Context, n int64) bool {
	w := &waiter{n: n, taken: make(chan struct{})}
	p.mu.Lock()
	place := p.waiting.PushBack(w)
	p.serve()
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, roomWait)
	defer cancel()
	evict := time.NewTicker(evictEvery)
	defer evict.Stop()
	for waiting := true; waiting; {
		p.transfers.evict()
		select {
		case <-w.taken:
			return true
		case <-evict.C:
		case <-ctx.Done():
			waiting = false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.taken: // in the last moment
		return true
	default:
	}
	p.waiting.Remove(place)
	p.serve() // those behind it may need less
	return false
}

// give returns n bytes; below zero it takes them, without waiting.
func (p *pool) give(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n
	p.serve()
}

// serve lets those go on who wait and have room now. Its caller holds mu.
func (p *pool) serve() {
	for place := p.waiting.Front(); place != nil; place = p.waiting.Front() {
		w, ok := place.Value.(*waiter)
		if !ok || p.free < w.n { // the list holds nothing else
			return
		}
		p.free -= w.n
		p.waiting.Remove(place)
		close(w.taken)
	}
}

// holding is what one request holds. Its methods are safe for concurrent use. The zero value has no budget and
// lets everything through.
type holding struct {
	budget *Budget

	mu           sync.Mutex // guards the fields below
	large, small int64
}

// Hold takes n bytes of the process's budget for the request of ctx, until that has been answered. It waits a second at
// most for room. Errors: CodeTooLarge if the request would hold more than all there is, CodeUnavailable if others hold
// too much. Outside of a request of an API it does nothing.
func Hold(ctx context.Context, n int64) error {
	if r := requestOf(ctx); r != nil && r.held.budget != nil {
		return r.held.take(ctx, n)
	}
	return nil
}

// Charge takes n bytes as Hold does, but at once and always: for what is there already and cannot be refused, as the answer to a write.
func Charge(ctx context.Context, n int64) {
	if r := requestOf(ctx); r != nil && r.held.budget != nil && n > smallHold {
		r.held.mu.Lock()
		defer r.held.mu.Unlock()
		r.held.large += n
		r.held.budget.large.give(-n)
	}
}

func (h *holding) take(ctx context.Context, n int64) error {
	from, sum := h.budget.of(n), &h.large
	if n <= smallHold {
		sum = &h.small
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if *sum+n > from.size {
		return dbaas.Errorf(dbaas.CodeTooLarge, "the request needs more than %d bytes of memory: send less at once", from.size)
	}
	if !from.tryTake(n) && !from.take(ctx, n) {
		return dbaas.Errorf(dbaas.CodeUnavailable, "too many large requests at the moment: try again")
	}
	*sum += n
	return nil
}

// end gives everything back.
func (h *holding) end() {
	if h.large != 0 {
		h.budget.large.give(h.large)
	}
	if h.small != 0 {
		h.budget.small.give(h.small)
	}
}
