package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/pause"
)

const (
	// headPeriod is how often persdb is asked for its head: the longest that a read here may miss a write that
	// another orchestrator acknowledged. It bounds the call too.
	headPeriod = time.Second
	// headRetry is the pause before persdb is asked again while its head was never seen.
	headRetry = 100 * time.Millisecond
	// aheadOfHead is how far above persdb's head a read may wait for a position: a client that waits
	// for the next write asks for the head and one, and others write too.
	aheadOfHead = 16
)

// heads knows which position persdb has reached. It is safe for concurrent use.
//
// What this dispatcher acknowledged it knows by itself. What an earlier life of it
// acknowledged, or another orchestrator, only persdb's head shows: until that was seen once, no position
// is known to be high enough.
type heads struct {
	life  context.Context // of the dispatcher
	ask   func(ctx context.Context) (dbaas.Head, error)
	seen  atomic.Uint64 // the highest position of an acknowledged write
	known chan struct{} // closed once persdb's head was seen
	// cluster is persdb's at the last look; nil before the first. changed says that it was another one once: it belongs to
	// the goroutine of look.
	cluster atomic.Pointer[dbaas.ClusterID]
	changed bool

	mu   sync.Mutex // guards the fields below
	next *look      // the one that has not begun
	busy bool       // one has begun
}

// look is one question to persdb, for everybody who came before it was asked.
type look struct {
	done chan struct{} // closed with the answer
	seq  dbaas.Seq
	err  error
}

func newHeads(life context.Context, ask func(ctx context.Context) (dbaas.Head, error)) *heads {
	return &heads{life: life, ask: ask, known: make(chan struct{})}
}

// saw notes that a write at seq was acknowledged.
func (h *heads) saw(seq dbaas.Seq) {
	for {
		old := h.seen.Load()
		if uint64(seq) <= old || h.seen.CompareAndSwap(old, uint64(seq)) {
			return
		}
	}
}

// met takes a head of persdb. seen was before when persdb was asked.
//
// In another cluster the positions of the old one say nothing, and no read must wait for them: what was acknowledged before the
// question is at or below the answer. An answer from the old cluster that comes late is undone by the next look.
func (h *heads) met(head dbaas.Head, before uint64) {
	old := h.cluster.Swap(&head.Cluster)
	h.changed = h.changed || old != nil && *old != head.Cluster
	if h.changed && uint64(head.Seq) < before {
		h.seen.CompareAndSwap(before, uint64(head.Seq))
	}
	h.saw(head.Seq)
}

// follow asks persdb at once and then every headPeriod, until ctx ends.
func (h *heads) follow(ctx context.Context) {
	known := false
	for {
		_, err := h.fresh(ctx)
		wait := headPeriod
		switch {
		case err == nil && !known:
			known = true
			close(h.known)
		case !known:
			wait = headRetry
		}
		if !pause.For(ctx, wait) {
			return
		}
	}
}

// fresh returns persdb's head as it is after the call began. Calls that come while another is under way share
// one question. It returns ctx's error, or persdb's.
func (h *heads) fresh(ctx context.Context) (dbaas.Seq, error) {
	h.mu.Lock()
	if h.next == nil {
		h.next = &look{done: make(chan struct{})}
	}
	l := h.next
	if !h.busy {
		h.busy = true
		go h.look() // ends with the last question, each question within headPeriod
	}
	h.mu.Unlock()
	select {
	case <-l.done:
		return l.seq, l.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// look asks until no question is left.
func (h *heads) look() {
	for {
		h.mu.Lock()
		l := h.next
		h.next = nil
		h.busy = l != nil
		h.mu.Unlock()
		if l == nil {
			return
		}
		ctx, cancel := context.WithTimeout(h.life, headPeriod)
		before := h.seen.Load()
		head, err := h.ask(ctx)
		cancel()
		if err == nil {
			h.met(head, before)
		}
		l.seq, l.err = head.Seq, err
		close(l.done)
	}
}

// AwaitSeen returns the highest position among the writes that were acknowledged anywhere a second ago and, of those that
// were acknowledged here, until now: a read with it as MinSeq sees all of them, and an operation that begins now can
// only run after it. The position is not known before persdb's head was seen for the first time: AwaitSeen waits for that until
// deadline or ctx's end, and then returns CodeUnavailable.
func (d *Dispatcher) AwaitSeen(ctx context.Context, deadline time.Time) (dbaas.Seq, error) {
	select {
	case <-d.heads.known:
		return d.SeenSeq(), nil
	default:
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	select {
	case <-d.heads.known:
		return d.SeenSeq(), nil
	case <-ctx.Done():
		return 0, dbaas.WrapError(dbaas.CodeUnavailable, "the newest position of the database is not known yet; try again", ctx.Err())
	}
}

// place settles which position r needs, within its deadline. A position far above persdb's head is one that no write has
// reached: waiting for it would only take room from others. While persdb does not say where its head is, a worker waits.
func (d *Dispatcher) place(ctx context.Context, r *dbaas.Read) error {
	if r.Recent {
		seen, err := d.AwaitSeen(ctx, r.Deadline)
		if err != nil {
			return err
		}
		r.MinSeq = max(r.MinSeq, seen)
	}
	reached := func(head dbaas.Seq) bool { return r.MinSeq <= head || r.MinSeq-head <= aheadOfHead }
	if d.cfg.Head == nil || reached(d.SeenSeq()) {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, r.Deadline)
	defer cancel()
	if head, err := d.heads.fresh(ctx); err == nil && !reached(head) {
		return dbaas.Errorf(dbaas.CodeNotCaughtUp, "not caught up: the newest write has position %d, the wanted one is %d", head, r.MinSeq)
	}
	return nil
}
