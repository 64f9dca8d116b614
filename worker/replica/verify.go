package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/replication"
	"rideshare/internal/wait"
	"rideshare/internal/workerapi"
)

const (
	// verifyTries bounds the attempts to read both sides at the same position: during writes that takes luck.
	verifyTries = 5
	// partTries is the number of failures with errSlowPart after which verifyAlways goes on with the next table.
	partTries = 2
	// verifyShare is the least ratio of the average pause before a comparison to the duration of the previous one: so at most about 2 % of
	// the time is spent on hashing.
	verifyShare = 50
	// suspectEvery is the least time between two files that are discarded because of a read.
	suspectEvery = 10 * time.Minute
)

// errSlowPart: this replica or persdb did not hash a part in time, although persdb had just answered with its position. The time ends
// earlier if the WAL has grown too large.
var errSlowPart = errors.New("the part may be too large")

// verifyAlways compares the replica with persdb periodically until ctx ends. A part that takes too long, such as a large
// table WITHOUT ROWID, does not keep the tables after it from being compared.
func (r *Replica) verifyAlways(ctx context.Context) {
	every := r.config.VerifyEvery
	if every < 0 {
		return
	}
	var from dbaas.HashFrom
	failures := 0 // at from
	for rest := every; ; {
		// Workers that started together must not all call persdb at the same moment.
		if !wait.For(ctx, rest/2+rand.N(rest)) { //nolint:gosec // jitter is no secret.
			return
		}
		started := time.Now()
		switch _, next, err := r.verifyPart(ctx, from); {
		case err == nil:
			from, failures = next, 0
		case ctx.Err() == nil:
			r.config.Log.DebugContext(ctx, "replica not verified", logkey.Error, err)
			if errors.Is(err, errSlowPart) {
				failures++
			}
			if failures >= partTries {
				r.passOver(ctx, &from, err)
				failures = 0
			}
		}
		rest = max(every, verifyShare*time.Since(started))
	}
}

// passOver moves from to the next table, after the part at from has failed with reason. It does nothing if persdb does not
// answer or there is no replica at the moment: then every part fails. The log gets one warning for each table.
func (r *Replica) passOver(ctx context.Context, from *dbaas.HashFrom, reason error) {
	headCtx, cancel := context.WithTimeout(ctx, r.config.StoreTimeout)
	defer cancel()
	if _, err := r.config.Store.Head(headCtx); err != nil {
		return
	}
	rd, err := r.scanner()
	if err != nil {
		return
	}
	defer rd.Close()
	tables, err := replication.Tables(rd.conn)
	if err != nil {
		return
	}
	i, _ := slices.BinarySearch(tables, from.Table) // the part at from begins in the ith table
	*from = dbaas.HashFrom{}
	if i+1 < len(tables) {
		from.Table = tables[i+1]
	}
	if i < len(tables) && !r.passed[tables[i]] {
		r.passed[tables[i]] = true
		r.config.Log.WarnContext(ctx, "tables not verified, the next table follows", logkey.Error, fmt.Errorf("from table %q: %w", tables[i], reason))
	}
}

// Verify compares the hashes of all tables with persdb's, part by part, each part at one position. If they differ, or
// the file cannot be read, the replica is discarded and rebuilt from a snapshot; the result says so. Applying and
// reading continue during the comparison. Concurrent callers compare one part at a time.
//
// A nil error means that all parts were compared, or that Differ is not empty. CodeNotCaughtUp means that there is no
// replica at the moment. CodeUnavailable means that persdb does not answer, or that the two were never seen at one
// position because of writes; retrying is safe.
func (r *Replica) Verify(ctx context.Context) (workerapi.Verification, error) {
	for from := (dbaas.HashFrom{}); ; {
		v, next, err := r.verifyPart(ctx, from)
		if err != nil || len(v.Differ) > 0 || next == (dbaas.HashFrom{}) {
			return v, err
		}
		from = next
	}
}

// verifyPart compares the part that begins at from, and returns the start of the next part, or from after an error.
func (r *Replica) verifyPart(ctx context.Context, from dbaas.HashFrom) (v workerapi.Verification, next dbaas.HashFrom, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.VerifyTimeout)
	defer cancel()
	select {
	case r.verify <- struct{}{}:
		defer func() { <-r.verify }()
	case <-ctx.Done():
		return v, from, dbaas.WrapError(dbaas.CodeUnavailable, "another comparison runs", ctx.Err())
	}
	v, next, err = r.comparePart(ctx, from)
	if err != nil {
		r.Stats.VerifyErrors.Add(1)
		return v, from, err
	}
	r.Stats.Verified.Add(1)
	return v, next, nil
}

func (r *Replica) comparePart(ctx context.Context, from dbaas.HashFrom) (workerapi.Verification, dbaas.HashFrom, error) {
	for range verifyTries {
		rd, want, err := r.readerWithHashes(ctx, from)
		if err != nil {
			return workerapi.Verification{}, from, err
		}
		if rd == nil {
			continue
		}
		defer rd.Close() // the loop ends here
		v, err := r.classify(ctx, rd, from, want)
		return v, want.Next, err
	}
	return workerapi.Verification{}, from, dbaas.Errorf(dbaas.CodeUnavailable, "writes went on: not seen at persdb's position in %d tries", verifyTries)
}

// readerWithHashes returns persdb's hashes of the part at from, and a Reader at the same position. The Reader is nil if
// the two positions differ. To keep them close, the Reader is opened right before persdb is asked for the hashes. If
// persdb is ahead then, readerWithHashes opens another Reader once the replica has reached persdb's position.
func (r *Replica) readerWithHashes(ctx context.Context, from dbaas.HashFrom) (*Reader, dbaas.HashPart, error) {
	head, err := r.config.Store.Head(ctx)
	if err != nil {
		return nil, dbaas.HashPart{}, noAnswer(err)
	}
	rd, err := r.readerAt(ctx, head)
	if err != nil {
		return nil, dbaas.HashPart{}, err
	}
	want, err := r.persdbPart(ctx, rd, from)
	if err == nil && want.Seq == rd.Seq() {
		return rd, want, nil
	}
	rd.Close()
	switch {
	case err != nil && rd.ended.Load():
		return nil, want, readerEnded(err)
	case err != nil:
		return nil, want, fmt.Errorf("%w: %w", errSlowPart, noAnswer(err))
	}
	if rd, err = r.readerAt(ctx, dbaas.Head{Cluster: head.Cluster, Seq: want.Seq}); err != nil {
		return nil, want, err
	}
	if rd.Seq() != want.Seq {
		rd.Close()
		return nil, want, nil
	}
	return rd, want, nil
}

// persdbPart returns persdb's hashes of the part at from. It fails once rd is ended: while it waits for persdb, rd keeps the
// WAL from being emptied.
func (r *Replica) persdbPart(ctx context.Context, rd *Reader, from dbaas.HashFrom) (dbaas.HashPart, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rd.file.whenEnded(rd, cancel)
	return r.config.Store.HashPart(ctx, from)
}

// readerAt waits until position at is applied and opens a Reader. The Reader's position may be later than at.
func (r *Replica) readerAt(ctx context.Context, at dbaas.Head) (*Reader, error) {
	if r.Following() { // otherwise scanner fails immediately
		if err := r.WaitApplied(ctx, at); err != nil {
			return nil, dbaas.WrapError(dbaas.CodeUnavailable, "the position was not reached in time", err)
		}
	}
	return r.scanner()
}

// classify compares the tables that rd sees with persdb's hashes of the same position.
func (r *Replica) classify(ctx context.Context, rd *Reader, from dbaas.HashFrom, want dbaas.HashPart) (workerapi.Verification, error) {
	v := workerapi.Verification{Seq: want.Seq}
	got, err := rd.hashPart(ctx, from, want)
	switch {
	case err == nil:
		if v.Differ = workerapi.Differ(want.TableHashes, got.TableHashes); len(v.Differ) > 0 {
			r.invalidate(rd.file, fmt.Errorf("%w: %s", errDiffers, strings.Join(v.Differ, ", ")))
		}
		return v, nil
	case rd.ended.Load():
		return v, readerEnded(err)
	case ctx.Err() != nil:
		return v, dbaas.WrapError(dbaas.CodeUnavailable, "hashing took too long", errors.Join(errSlowPart, err))
	default: // an unreadable file is as bad as a file that differs
		r.invalidate(rd.file, err)
		return v, fmt.Errorf("hash the replica: %w", err)
	}
}

// invalidate makes Run discard f, if it is still in use.
func (r *Replica) invalidate(f *file, reason error) {
	r.mu.Lock()
	if r.file == f && r.broken == nil {
		r.broken = reason
	}
	r.mu.Unlock()
	r.wake.Give()
}

// suspect makes Run discard f because a read has met damage, but not more often than suspectEvery: if persdb's file has
// the same damage, the next snapshot has it too, and all other reads would suffer each time.
func (r *Replica) suspect(f *file, reason error) {
	r.mu.Lock()
	again := r.file == f && r.broken == nil && time.Since(r.suspected) >= suspectEvery
	if again {
		r.suspected, r.broken = time.Now(), fmt.Errorf("%w: %w", errSuspect, reason)
	}
	r.mu.Unlock()
	if again {
		r.wake.Give()
	}
}

// readerEnded is the error of a comparison whose Reader was stopped. While writes continue, every comparison of the part may fail like this.
func readerEnded(err error) error {
	return dbaas.WrapError(dbaas.CodeUnavailable, "the reader was ended", errors.Join(errSlowPart, err))
}

func noAnswer(err error) error {
	return dbaas.WrapError(dbaas.CodeUnavailable, "persdb does not answer", err)
}
