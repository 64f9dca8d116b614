package dispatch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
	"rideshare/orchestrator/admission"
)

const (
	// headPeriod bounds how long a read on this orchestrator may miss a write that another orchestrator acknowledged, if persdb
	// answers within half a headPeriod: each question begins half a headPeriod after the one before. headPeriod is also the
	// timeout of a question.
	headPeriod = time.Second
	// headRetry is the pause between two attempts to get the first head from persdb.
	headRetry = 100 * time.Millisecond
	// masterPeriod is how often the master is asked for the position while persdb does not answer this orchestrator. persdb keeps
	// each log entry for a minute at least, so a position of the last minute is not too old for a write.
	masterPeriod = 10 * time.Second
	// aheadOfHead is how far above persdb's head the position that a read waits for may be. A client that waits for the
	// next write asks for head+1, and other clients write at the same time.
	aheadOfHead = 16
)

// heads tracks which position persdb has reached. It is safe for concurrent use.
//
// The dispatcher knows the positions of the writes that it acknowledged itself. Writes that another orchestrator or an
// earlier process acknowledged show only in persdb's head. Until the head has been seen once, the dispatcher therefore
// knows no position that covers all of them.
type heads struct {
	life context.Context // of the dispatcher
	ask  func(ctx context.Context) (dbaas.Head, error)
	// looked and now are Config.Looked and Config.Now.
	looked func(dbaas.Head, time.Time)
	now    func() time.Time

	seen  atomic.Uint64 // the highest position of an acknowledged write
	known chan struct{} // closed once persdb's head was seen
	// answered is whether persdb has answered since followMaster last looked.
	answered atomic.Bool
	// cluster is persdb's cluster id as last seen; nil before the first answer. changed reports whether the id has ever
	// changed; only the goroutine of look uses it.
	cluster atomic.Pointer[dbaas.ClusterID]
	changed bool

	mu   sync.Mutex // guards the fields below
	next *look      // the question that has not been asked yet
	busy bool       // a question is being asked
}

// look is one question to persdb, shared by all callers that came before it was asked.
type look struct {
	done chan struct{} // closed with the answer
	seq  dbaas.Seq
	err  error
}

func newHeads(life context.Context, cfg Config) *heads {
	return &heads{life: life, ask: cfg.Head, looked: cfg.Looked, now: cfg.Now, known: make(chan struct{})}
}

// saw records that a write at seq was acknowledged.
func (h *heads) saw(seq dbaas.Seq) {
	for {
		old := h.seen.Load()
		if uint64(seq) <= old || h.seen.CompareAndSwap(old, uint64(seq)) {
			return
		}
	}
}

// met records a head of persdb. before is the value of seen when persdb was asked.
//
// Positions of the old cluster mean nothing after a change of cluster, and a read must not wait for one. So met may
// lower seen to the new head. No write of the new cluster is lost by that: a write acknowledged before persdb was asked
// is at or below the head it returned. A late answer from the old cluster may raise seen again; the next look corrects
// that.
func (h *heads) met(head dbaas.Head, before uint64) {
	old := h.cluster.Load()
	h.changed = h.changed || old != nil && *old != head.Cluster
	if h.changed && uint64(head.Seq) < before {
		h.seen.CompareAndSwap(before, uint64(head.Seq))
	}
	// After seen: a reader that loads cluster, then seen, gets a position of that cluster or of a newer one.
	h.cluster.Store(&head.Cluster)
	h.saw(head.Seq)
	h.answered.Store(true)
}

// follow asks persdb for its head every half a headPeriod, or as soon as persdb has answered if that takes longer, until ctx ends.
func (h *heads) follow(ctx context.Context) {
	known := false
	for {
		began, every := time.Now(), headPeriod/2
		_, err := h.fresh(ctx)
		switch {
		case err == nil && !known:
			known = true
			close(h.known)
		case !known:
			every = headRetry
		}
		if !wait.For(ctx, every-time.Since(began)) {
			return
		}
	}
}

// followMaster asks the master for its position, with a linearizable read, while persdb does not answer this orchestrator.
// Otherwise, while others write, the known position could become too old for the writes of this orchestrator. If the master does not
// answer either, nobody writes.
func (d *Dispatcher) followMaster(ctx context.Context) {
	for wait.For(ctx, masterPeriod) {
		if d.heads.answered.Swap(false) || !wait.Closed(d.heads.known) {
			continue
		}
		r, err := d.Read(ctx, dbaas.Read{Linearizable: true, Format: dbaas.FormatObjects, Statements: []dbaas.Statement{{SQL: "SELECT 1"}}})
		if err == nil {
			d.SawSeq(r.Seq)
		}
	}
}

// fresh returns persdb's head, read after the call to fresh began. Calls that arrive while persdb is being asked share
// the next question. The error is ctx's or persdb's.
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

// look asks persdb until no question is left.
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
		before, asked := h.seen.Load(), h.now()
		head, err := h.ask(ctx)
		cancel()
		if err == nil {
			h.met(head, before)
			if h.looked != nil {
				h.looked(head, asked)
			}
		}
		l.seq, l.err = head.Seq, err
		close(l.done)
	}
}

// AwaitSeen returns a position that covers every write that this orchestrator has acknowledged, and every write that any
// orchestrator acknowledged more than a second ago, if persdb answers within half a second. A read with this position as MinSeq
// sees all of them, and an operation that begins now can only run after it.
//
// The position is unknown until persdb's head has been seen for the first time. AwaitSeen waits for that until deadline
// or until ctx ends, and then returns CodeUnavailable.
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
		cause := fmt.Errorf("%w: %w", admission.ErrNotSent, ctx.Err())
		return 0, dbaas.WrapError(dbaas.CodeUnavailable, "the newest position of the database is not known yet; try again", cause)
	}
}

// CheckCluster returns nil if id is the cluster of the database, and CodeGone if it is another one. If id is not the
// cluster that the dispatcher knows, CheckCluster asks persdb: another orchestrator may have learned of a change first.
// CodeUnavailable means that persdb did not answer by deadline.
func (d *Dispatcher) CheckCluster(ctx context.Context, id dbaas.ClusterID, deadline time.Time) error {
	if d.Cluster() == id {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if _, err := d.heads.fresh(ctx); err != nil {
		return dbaas.WrapError(dbaas.CodeUnavailable, "the cluster of the database is not known now; try again", err)
	}
	if now := d.Cluster(); now != id {
		return dbaas.Errorf(dbaas.CodeGone, "the position is of cluster %s, the database is cluster %s: positions of the two have nothing in common", id, now)
	}
	return nil
}

// place sets the position that r needs, within r's deadline. It returns CodeNotCaughtUp if that position is more than
// aheadOfHead above persdb's head: no write has reached it, and waiting would only take room from other reads. If
// persdb does not answer, a worker waits for the position.
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
		message := fmt.Sprintf("not caught up: the newest write has position %d, the wanted one is %d", head, r.MinSeq)
		return dbaas.WrapError(dbaas.CodeNotCaughtUp, message, admission.ErrNotSent)
	}
	return nil
}
