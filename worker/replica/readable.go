package replica

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/replication"
	"rideshare/internal/wait"
)

// Applied returns the position that readers see, and whether the replica may be read.
func (r *Replica) Applied() (dbaas.Head, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, head, ok := r.readable()
	return head, ok
}

// Following reports whether the replica is caught up and applies new entries. A replica that may be read but does not
// follow has met an entry that it could not apply, and is being rebuilt.
func (r *Replica) Following() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready
}

// readable returns the file that may be read and its position, and false if no file may be read. The caller holds mu.
func (r *Replica) readable() (*file, dbaas.Head, bool) {
	if !r.ready && r.old != nil {
		return r.old, r.oldHead, true
	}
	return r.file, r.head, r.ready
}

// WaitApplied returns nil once the replica may be read and has applied want, otherwise ctx's error. If want has no
// cluster, the replica may have any cluster. If the wait is longer than NudgeAfter, WaitApplied makes Run read persdb's
// log instead of waiting for the next periodic comparison.
func (r *Replica) WaitApplied(ctx context.Context, want dbaas.Head) error {
	var poke <-chan time.Time
	patience := wait.Backoff{First: r.config.NudgeAfter, Cap: r.config.AntiEntropy}
	for {
		r.mu.Lock()
		_, head, ok := r.readable()
		changed := r.changed.Next()
		r.mu.Unlock()
		if ok && head.Seq >= want.Seq && (want.Cluster.IsZero() || head.Cluster == want.Cluster) {
			return nil
		}
		if poke == nil {
			poke = time.After(patience.Next())
		}
		select {
		case <-changed:
		case <-poke:
			r.lag()
			poke = nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Serving waits until the replica may be read and returns a channel that is closed when it may no longer be read. Its
// error is ctx's.
func (r *Replica) Serving(ctx context.Context) (lost <-chan struct{}, err error) {
	for {
		r.mu.Lock()
		lost, changed := r.lost, r.changed.Next()
		r.mu.Unlock()
		if lost != nil {
			return lost, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// adopt makes f the file that entries are applied to. It is not readable yet. adopt drops the old file if it belongs to
// another cluster.
func (r *Replica) adopt(f *file) {
	r.mu.Lock()
	other := r.old != nil && r.old.cluster != f.cluster
	r.mu.Unlock()
	if other {
		r.dropOld()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.file, r.head = f, f.head
	r.behind, r.broken = true, nil
	r.announce()
}

// caughtUp makes f readable and retires the old file.
func (r *Replica) caughtUp(ctx context.Context, f *file) {
	r.mu.Lock()
	first, old := !r.ready, r.old
	r.ready, r.old = true, nil
	r.unread.Store(false)
	if first {
		r.announce()
	}
	r.mu.Unlock()
	if old != nil {
		old.retire()
	}
	if first {
		r.config.Log.InfoContext(ctx, "replica caught up", logkey.Seq, f.head.Seq)
	}
}

// leave stops using f, which cannot continue because of err. If f was caught up and is still a prefix of the log, it
// stays readable until the next file is ready; reads that need a later position wait. A file with wrong contents is
// retired immediately, together with any old file.
func (r *Replica) leave(ctx context.Context, f *file, err error) {
	prefix := errors.Is(err, replication.ErrDiverged) || errors.Is(err, errBehindLog) || errors.Is(err, errSuspect)
	r.mu.Lock()
	kept := prefix && r.ready && ctx.Err() == nil && f.rollback()
	gone := []*file{f}
	switch {
	case kept:
		r.old, r.oldHead, gone = f, f.head, nil
	case !prefix && r.old != nil:
		gone = append(gone, r.old)
		r.old = nil
	}
	r.file, r.ready, r.head = nil, false, dbaas.Head{}
	r.announce()
	r.mu.Unlock()
	for _, g := range gone {
		g.retire()
	}
	if kept {
		r.config.Log.InfoContext(ctx, "reads go on at the last position", logkey.Seq, f.head.Seq)
		wait.For(ctx, rand.N(snapshotJitter)) //nolint:gosec // jitter is no secret.
	}
}

// snapshotJitter bounds a random delay: replicas that failed at the same entry must not all request snapshots at the
// same moment.
const snapshotJitter = 500 * time.Millisecond

// dropOldIfBehind drops the old file once another worker has entries that it lacks: reads that need those entries go there.
func (r *Replica) dropOldIfBehind(ctx context.Context) {
	r.mu.Lock()
	old, seq := r.old, r.oldHead.Seq
	r.mu.Unlock()
	if old != nil && r.config.Ahead != nil && r.config.Ahead(ctx, seq) {
		r.config.Log.InfoContext(ctx, "reads are left to others", logkey.Seq, seq)
		r.dropOld()
	}
}

// standstill counts for how many comparisons the position has been seq while the log could not be read.
type standstill struct {
	seq   dbaas.Seq
	count int
}

// patience is how many comparisons a position that stands still must outlast: a broadcast that is late moves it.
const patience = 3

// leaveReadsIfBehind makes the replica unreadable once it can get no further, because it lacks an entry and cannot read the log, and
// another worker has entries that it lacks: reads that need those entries go there. caughtUp makes it readable again.
func (r *Replica) leaveReadsIfBehind(ctx context.Context, still *standstill) {
	r.mu.Lock()
	f, ready, seq := r.file, r.ready, r.head.Seq
	r.mu.Unlock()
	if !ready || !r.unread.Load() || seq != still.seq {
		*still = standstill{seq: seq}
		return
	}
	if still.count++; still.count < patience || r.config.Ahead == nil || !r.config.Ahead(ctx, seq) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != f || r.head.Seq != seq || !r.unread.Load() {
		return
	}
	r.config.Log.WarnContext(ctx, "reads are left to others: the log cannot be read", logkey.Seq, seq)
	r.ready = false
	r.announce()
}

// dropOld drops the old file, if there is one.
func (r *Replica) dropOld() {
	r.mu.Lock()
	old := r.old
	r.old = nil
	r.announce()
	r.mu.Unlock()
	if old != nil {
		old.retire()
	}
}

// mode is whether a replica may be read, and whether it follows the log.
type mode struct{ readable, following bool }

// Mode returns whether the replica may be read, whether it is Following, and a channel that is closed when either changes.
func (r *Replica) Mode() (readable, following bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mode.readable, r.mode.following, r.modeChanged.Next()
}

// announce wakes all waiters for a change, and opens or closes lost as readability changes. The caller holds mu.
func (r *Replica) announce() {
	_, _, ok := r.readable()
	if now := (mode{ok, r.ready}); now != r.mode {
		r.mode = now
		r.modeChanged.Notify()
	}
	switch {
	case ok && r.lost == nil:
		r.lost = make(chan struct{})
	case !ok && r.lost != nil:
		close(r.lost)
		r.lost = nil
	}
	r.changed.Notify()
}
