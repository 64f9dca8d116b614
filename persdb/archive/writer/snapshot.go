package writer

import (
	"context"
	"errors"
	"io"
	"time"

	"rideshare/internal/logkey"
	"rideshare/internal/wait"
	"rideshare/persdb/archive"
)

// maintain makes snapshots, and merges and removes objects, until ctx ends or another process has become the
// archive's writer.
func (a *Archiver) maintain(ctx context.Context) {
	again := wait.Backoff{First: time.Second, Cap: time.Minute, Jitter: 0.2}
	for !a.stopped.Load() {
		next := time.Minute
		err := a.upkeep(ctx)
		if err != nil && ctx.Err() == nil {
			if a.giveUp(ctx, err) {
				return
			}
			a.cfg.Log.WarnContext(ctx, "archive not maintained", logkey.Error, err)
			next = again.Next()
		} else {
			again.Reset()
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.due:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// upkeep makes a snapshot and tidies the archive, each if it is due. Tidying does not wait until the snapshot
// succeeds: it may make the room that the snapshot needs.
func (a *Archiver) upkeep(ctx context.Context) error {
	err := a.snapshotIfDue(ctx)
	if !a.isReady() || time.Since(a.tidied) < tidyEvery {
		return err
	}
	err = errors.Join(err, a.tidy(ctx))
	a.tidied = time.Now() // after a failure too: the next attempt is in an hour.
	return err
}

// snapshotDue reports whether a snapshot is due. The archive must have the whole log that existed at the start. In
// addition, one of these must hold: there is no snapshot yet, the newest one is old, it is followed by SnapshotBytes
// of log, or there is a gap.
func (a *Archiver) snapshotDue() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.sinceSnapshot() >= a.cfg.SnapshotEvery
	return a.ready && a.position >= a.goal && (a.want || old || a.since >= a.cfg.SnapshotBytes)
}

// sinceSnapshot returns the age of the newest snapshot. If that snapshot was made while the clock was ahead, its age
// counts from the first call after the clock was set right. The caller holds mu.
func (a *Archiver) sinceSnapshot() time.Duration {
	now := a.cfg.Now()
	if a.last.made.After(now) {
		a.last.made = now
	}
	return now.Sub(a.last.made)
}

func (a *Archiver) snapshotIfDue(ctx context.Context) (err error) {
	if !a.snapshotDue() {
		return nil
	}
	a.mu.Lock()
	asked, sinceThen, trimmed := a.asked, a.since, a.before // before Copy: uploads and trimming go on while it copies.
	a.mu.Unlock()
	made, err := a.store.Copy(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, made.Body.Close()) }()
	a.mu.Lock()
	same := made.Head.Seq == a.last.seq && !a.last.made.IsZero()
	a.mu.Unlock()
	h := archive.Header{
		Cluster: made.Head.Cluster, Last: made.Head.Seq, Epoch: made.Head.Epoch, Made: a.cfg.Now(),
		Trimmed: trimmed, Tables: made.Tables, Bytes: made.Bytes, LastAt: made.At,
	}
	if !same { // otherwise nothing was committed since the last snapshot.
		err = a.putSnapshot(ctx, h, made.Body)
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last, a.bad, a.want = lastSnapshot{seq: h.Last, made: h.Made}, "", a.want && a.asked != asked
	a.since -= min(a.since, sinceThen)
	return nil
}

func (a *Archiver) putSnapshot(ctx context.Context, h archive.Header, body io.Reader) error {
	began := time.Now()
	if err := a.stream(ctx, kindSnapshot, archive.SnapshotName(h.Cluster, h.Last), func(w io.Writer) error { return archive.WriteSnapshot(w, h, body) }); err != nil {
		return err
	}
	a.cfg.Log.InfoContext(ctx, "snapshot archived", logkey.Seq, h.Last, logkey.Bytes, h.Bytes, logkey.Took, time.Since(began))
	return nil
}

// stream stores an object while write produces it.
func (a *Archiver) stream(ctx context.Context, kind, name string, write func(io.Writer) error) error {
	r, w := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = w.CloseWithError(write(w)) // never fails, by its documentation.
	}()
	err := a.put(ctx, kind, name, r)
	_ = r.Close() // never fails, by its documentation. It makes write end if the object was not stored.
	<-written
	return err
}
