package replica

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/pause"
	"rideshare/internal/sqlite"
)

// Applied returns the position that readers see, and whether the replica may be read.
func (r *Replica) Applied() (dbaas.Head, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, head, ok := r.readable()
	return head, ok
}

// Following reports whether the replica is caught up and takes what comes. One that may be read but does not follow has
// met an entry that it could not apply, and is being made anew.
func (r *Replica) Following() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready
}

// readable returns the file that may be read, if one may, and the position. The caller holds mu.
func (r *Replica) readable() (*file, dbaas.Head, bool) {
	if !r.ready && r.old != nil {
		return r.old, r.oldHead, true
	}
	return r.file, r.head, r.ready
}

// WaitApplied returns nil once the replica may be read and has applied want, else
// ctx's error. A position of no cluster is one of whichever the replica has. If that takes long it asks persdb's log at once, rather than
// at the next comparison.
func (r *Replica) WaitApplied(ctx context.Context, want dbaas.Head) error {
	var nudge <-chan time.Time
	patience := r.config.NudgeAfter
	for {
		r.mu.Lock()
		_, head, ok := r.readable()
		changed := r.changed
		r.mu.Unlock()
		if ok && head.Seq >= want.Seq && (want.Cluster.IsZero() || head.Cluster == want.Cluster) {
			return nil
		}
		if nudge == nil {
			nudge = time.After(patience)
		}
		select {
		case <-changed:
		case <-nudge:
			r.lag()
			nudge, patience = nil, min(2*patience, r.config.AntiEntropy)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Serving waits until the replica may be read and returns a channel that is
// closed when it may not be read any more. Its error is ctx's.
func (r *Replica) Serving(ctx context.Context) (lost <-chan struct{}, err error) {
	for {
		r.mu.Lock()
		lost, changed := r.lost, r.changed
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

// adopt makes f the file that entries go to. Nobody reads it yet, and nobody an old one of another cluster any more.
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

// caughtUp lets readers in, and lets go of the file that they had until now.
func (r *Replica) caughtUp(ctx context.Context, f *file) {
	r.mu.Lock()
	first, old := !r.ready, r.old
	r.ready, r.old = true, nil
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

// leave lets go of f, which cannot go on because of err. If f was caught up and is a prefix of the log all the same, readers
// keep it until there is another one: they need no more than its position, or wait. What is wrong in itself goes at once, and
// what was kept before with it.
func (r *Replica) leave(ctx context.Context, f *file, err error) {
	prefix := errors.Is(err, sqlite.ErrDiverged) || errors.Is(err, errBehindLog)
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
		pause.For(ctx, rand.N(spread)) //nolint:gosec // jitter is no secret.
	}
}

// spread is the time over which replicas that met the same entry ask for their snapshots.
const spread = 500 * time.Millisecond

// stepBack lets go of the old file once another worker has what this one lacks: reads that need it go there.
func (r *Replica) stepBack(ctx context.Context) {
	r.mu.Lock()
	old, seq := r.old, r.oldHead.Seq
	r.mu.Unlock()
	if old != nil && r.config.Ahead != nil && r.config.Ahead(ctx, seq) {
		r.config.Log.InfoContext(ctx, "reads are left to others", logkey.Seq, seq)
		r.dropOld()
	}
}

// dropOld lets go of the old file, if there is one.
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

// announce wakes everybody who waits for a change. The caller holds mu.
func (r *Replica) announce() {
	_, _, ok := r.readable()
	switch {
	case ok && r.lost == nil:
		r.lost = make(chan struct{})
	case !ok && r.lost != nil:
		close(r.lost)
		r.lost = nil
	}
	close(r.changed)
	r.changed = make(chan struct{})
}
