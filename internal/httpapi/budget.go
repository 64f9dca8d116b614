package httpapi

import (
	"container/list"
	"context"
	"sync"
	"time"

	"rideshare/internal/dbaas"
)

const (
	// DefaultMemory is the default size of a Budget in bytes: four bodies of the largest size.
	DefaultMemory = 256 << 20
	// smallHold is the largest hold, in bytes, that is taken from the reserve: it never waits behind large ones.
	smallHold = 64 << 10
	// reserveShare determines the reserve: the budget's size divided by reserveShare, in addition to the budget.
	reserveShare = 16
	// roomWait is how long a request waits for room. It is well below the deadline of a call, so that the client
	// still receives the reason.
	roomWait = time.Second
	// evictEvery is how often a waiting request looks for slow transfers.
	evictEvery = roomWait / 4
)

// Budget limits the bytes of requests and answers that a process holds at any time. It is safe for concurrent use.
type Budget struct {
	large, small pool
}

// NewBudget returns a Budget of the given number of bytes.
func NewBudget(bytes int64) *Budget {
	b := &Budget{large: pool{size: bytes, free: bytes}, small: pool{size: bytes / reserveShare, free: bytes / reserveShare}}
	b.large.transfers.grace, b.small.transfers.grace = slowGrace, shortGrace
	return b
}

// of returns the pool from which n bytes are taken.
func (b *Budget) of(n int64) *pool {
	if n <= smallHold {
		return &b.small
	}
	return &b.large
}

// pool is a number of bytes that requests take in order of arrival.
type pool struct {
	size      int64
	transfers transfers // transfers that hold some of the bytes

	mu      sync.Mutex // guards the fields below
	free    int64      // negative while answers that cannot be refused exceed the size
	waiting list.List  // of *waiter
}

type waiter struct {
	n     int64
	taken chan struct{} // closed when n has been taken
}

// tryTake takes n bytes if there is room and no request is waiting.
func (p *pool) tryTake(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free < n || p.waiting.Len() > 0 {
		return false
	}
	p.free -= n
	return true
}

// take waits for n bytes until ctx ends, and reports whether it got them. While it waits, slow transfers are evicted.
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
	case <-w.taken: // just before ctx ended
		return true
	default:
	}
	p.waiting.Remove(place)
	p.serve() // waiters behind this one may need less
	return false
}

// give returns n bytes to the pool. A negative n takes bytes without waiting.
func (p *pool) give(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n
	p.serve()
}

// serve wakes the waiters, in order, for which there is room now. The caller holds mu.
func (p *pool) serve() {
	for place := p.waiting.Front(); place != nil; place = p.waiting.Front() {
		w, ok := place.Value.(*waiter)
		if !ok || p.free < w.n { // ok is always true: the list holds only waiters
			return
		}
		p.free -= w.n
		p.waiting.Remove(place)
		close(w.taken)
	}
}

// holding is the bytes that one request holds. Its methods are safe for concurrent use. The zero value has no budget
// and never refuses.
type holding struct {
	budget *Budget

	mu           sync.Mutex // guards the fields below
	large, small int64
}

// Hold takes n bytes of the process's budget for the request of ctx until the request has been answered. It waits for
// room for a second at most. Errors: CodeTooLarge if the request would hold more than the whole budget,
// CodeUnavailable if other requests hold too much. Outside a request of an API it does nothing.
func Hold(ctx context.Context, n int64) error {
	if r := requestOf(ctx); r != nil && r.held.budget != nil {
		return r.held.take(ctx, n)
	}
	return nil
}

// Charge takes n bytes like Hold, but never waits or fails: it is for memory that already exists and cannot be
// refused, such as the answer to a write.
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

// release returns n of the bytes that were taken from the reserve before the request has been answered.
func (h *holding) release(n int64) {
	if h.budget == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.small -= n
	h.budget.small.give(n)
}

// end returns everything to the budget.
func (h *holding) end() {
	if h.large != 0 {
		h.budget.large.give(h.large)
	}
	if h.small != 0 {
		h.budget.small.give(h.small)
	}
}
