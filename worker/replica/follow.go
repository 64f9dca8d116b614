package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
)

// Reasons to discard a file, besides errors of applying entries.
var (
	// errBehindLog: persdb's log cannot return the entry after the position, because it was trimmed or is damaged.
	errBehindLog = errors.New("the log has no good entry after the position")
	// errSuspect: a read has met damage. Other reads may go on with the file until the next one is ready.
	errSuspect = errors.New("a read has met damage")
	// errFuture: persdb's head is before the position, because persdb has lost its newest entries.
	errFuture = errors.New("position is beyond persdb's head")
	// errCluster: persdb's database has a different history.
	errCluster = errors.New("persdb has another cluster id")
	// errDiffers: at the same position the tables differ from persdb's.
	errDiffers = errors.New("tables differ from persdb's")
)

// follow applies entries until the file must be discarded. It returns the reason, or ctx's error.
func (r *Replica) follow(ctx context.Context, f *file, pause *wait.Backoff) error {
	var retry <-chan time.Time // set while persdb does not answer
	var failing wait.Streak    // of attempts to read the log
	for {
		entries, behind, broken := r.takeInbox()
		if broken != nil {
			return fmt.Errorf("position %d: %w", f.head.Seq, broken)
		}
		gap, err := r.apply(f, entries)
		if err != nil {
			return err
		}
		if (gap || behind || !r.Following()) && retry == nil {
			err := r.catchUp(ctx, f, r.config.StoreTimeout<<min(failing.Count(), 2))
			switch {
			case err == nil:
				pause.Reset()
				if failures := failing.End(); failures > 0 {
					r.config.Log.InfoContext(ctx, "log read again", logkey.Count, failures)
				}
			case !isTransient(err):
				return err
			default:
				r.unread.Store(true)
				if failing.Fail() && ctx.Err() == nil {
					r.config.Log.WarnContext(ctx, "log not read", logkey.Error, err)
				}
				retry = time.After(pause.Next())
			}
			continue // entries may have arrived during the call
		}
		select {
		case <-r.wake:
		case <-retry:
			retry = nil
			r.lag()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// transientError says that persdb did not answer; the file is still good.
type transientError struct{ error }

func (e transientError) Unwrap() error { return e.error }

func isTransient(err error) bool {
	_, ok := errors.AsType[transientError](err)
	return ok
}

func (r *Replica) takeInbox() (entries []dbaas.Entry, behind bool, broken error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries, behind, broken = r.inbox, r.behind, r.broken
	r.inbox, r.inboxBytes, r.behind = nil, 0, false
	return entries, behind, broken
}

// apply applies the broadcast entries that follow the position, in one transaction. It reports whether a gap precedes
// the remaining entries; the log fills it.
func (r *Replica) apply(f *file, entries []dbaas.Entry) (gap bool, err error) {
	if !slices.IsSortedFunc(entries, bySeq) {
		slices.SortStableFunc(entries, bySeq)
	}
	next, at := make([]dbaas.Entry, 0, len(entries)), f.head
	for _, e := range entries {
		switch {
		case e.Cluster != f.cluster: // The log decides which cluster is right.
			r.config.Log.Warn("entry of another cluster refused", logkey.Cluster, e.Cluster, logkey.Seq, e.Seq)
			gap = true
		case e.Seq <= at.Seq:
			r.Stats.Duplicates.Add(1)
		case e.Seq > at.Seq+1, e.ChangesOmitted: // changes that were left out are read from the log.
			gap = true
		case e.Epoch < at.Epoch:
			// Such an entry is never in the log, so its sender was not allowed to write.
			r.Stats.StaleEpoch.Add(1)
			r.config.Log.Warn("entry of a stale epoch refused", logkey.Seq, e.Seq, logkey.Epoch, e.Epoch)
			gap = true
		default:
			next = append(next, e)
			at = dbaas.Head{Seq: e.Seq, Epoch: e.Epoch}
		}
	}
	if gap {
		r.Stats.Gaps.Add(1)
	}
	return gap, r.write(f, next)
}

func bySeq(a, b dbaas.Entry) int { return cmp.Compare(a.Seq, b.Seq) }

// write applies consecutive entries, empties a long WAL, and publishes the new position.
func (r *Replica) write(f *file, entries []dbaas.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	if err := f.apply(entries); err != nil {
		return err
	}
	ended, err := f.relieve()
	if err != nil {
		return fmt.Errorf("empty the log of changes: %w", err)
	}
	if ended > 0 {
		r.Stats.ReadsEnded.Add(int64(ended))
		r.config.Log.Warn("reads ended: they kept the log of changes from being emptied", logkey.Seq, f.head.Seq, logkey.Count, ended)
	}
	r.Stats.Entries.Add(int64(len(entries)))
	r.progress.Add(uint64(len(entries)))
	r.Stats.Drains.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head = f.head
	r.announce()
	return nil
}

// catchUp reads the log until the file has reached the head. Then the replica may be read. catchUp gives up when persdb
// sends nothing for quiet within a page.
func (r *Replica) catchUp(ctx context.Context, f *file, quiet time.Duration) error {
	r.Stats.CatchUps.Add(1)
	for {
		page, err := r.page(ctx, f.head.Seq, quiet)
		switch code := dbaas.CodeOf(err); {
		case err == nil, code == dbaas.CodeGone:
		case code == dbaas.CodeDamaged:
			return fmt.Errorf("position %d: %w: %w", f.head.Seq, errBehindLog, err)
		default:
			return transientError{err}
		}
		if page.Head.Cluster != f.cluster {
			return fmt.Errorf("cluster %s, persdb's %s: %w", f.cluster, page.Head.Cluster, errCluster)
		}
		if page.Head.Seq < f.head.Seq {
			return fmt.Errorf("position %d, head %d: %w", f.head.Seq, page.Head.Seq, errFuture)
		}
		if err != nil {
			return fmt.Errorf("position %d, the log begins at %d: %w: %w", f.head.Seq, page.First, errBehindLog, err)
		}
		if err := r.write(f, page.Entries); err != nil {
			return err
		}
		if len(page.Entries) == 0 || f.head.Seq >= page.Head.Seq {
			r.caughtUp(ctx, f)
			return nil
		}
	}
}

func (r *Replica) page(ctx context.Context, after dbaas.Seq, quiet time.Duration) (dbaas.Page, error) {
	ctx, cancel := wait.UntilStalled(wait.OnProgress(ctx, func() { r.progress.Add(1) }), quiet)
	defer cancel()
	return r.config.Store.Log(ctx, after, 0)
}

// watchHead compares the position with persdb's head periodically. It runs concurrently with follow, so that an
// unresponsive persdb does not block applying.
func (r *Replica) watchHead(ctx context.Context) {
	ticker := time.NewTicker(r.config.AntiEntropy)
	defer ticker.Stop()
	var still standstill
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		r.compare(ctx)
		r.dropOldIfBehind(ctx)
		r.leaveReadsIfBehind(ctx, &still)
	}
}

func (r *Replica) compare(ctx context.Context) {
	r.mu.Lock()
	file, before := r.file, r.head
	r.mu.Unlock()
	if file == nil {
		return
	}
	callCtx, cancel := context.WithTimeout(ctx, r.config.StoreTimeout)
	head, err := r.config.Store.Head(callCtx)
	cancel()
	if err != nil {
		r.Stats.HeadErrors.Add(1)
		r.config.Log.DebugContext(ctx, "head not read", logkey.Error, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != file {
		return
	}
	// Entries applied before the head was read are at persdb, unless persdb has lost them.
	switch {
	case r.broken != nil:
	case head.Cluster != before.Cluster:
		r.broken = errCluster
	case head.Seq < before.Seq:
		r.broken = errFuture
	}
	r.behind = r.behind || head.Seq > r.head.Seq
	if r.broken != nil || r.behind {
		r.wake.Give()
	}
}
