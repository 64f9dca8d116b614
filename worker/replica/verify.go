package replica

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/pause"
	"rideshare/internal/workerapi"
)

const (
	// verifyTries is how often both sides are looked at, until they are seen at one position:
	// while writes go on that takes luck.
	verifyTries = 5
	// verifyShare is by how much the wait for the next comparison is longer than the last
	// one took: at most 2 % of the time goes into hashing.
	verifyShare = 50
)

// verifyAlways compares the replica with persdb now and then, until ctx ends.
func (r *Replica) verifyAlways(ctx context.Context) {
	every := r.config.VerifyEvery
	if every < 0 {
		return
	}
	for next := every; ; {
		// Workers that started together must not all ask persdb at the same moment.
		if !pause.For(ctx, next/2+rand.N(next)) { //nolint:gosec // jitter is no secret.
			return
		}
		started := time.Now()
		if _, err := r.Verify(ctx); err != nil && ctx.Err() == nil {
			r.config.Log.DebugContext(ctx, "replica not verified", logkey.Error, err)
		}
		next = max(every, verifyShare*time.Since(started))
	}
}

// Verify compares the hashes of all tables with persdb's at one position. If they
// differ, or the file cannot be read, the replica is thrown away and starts again from a snapshot; the
// result says so. Applying and reading go on meanwhile. One comparison runs at
// a time.
//
// A nil error means that they were compared. CodeNotCaughtUp: there is no replica
// at the moment. CodeUnavailable: persdb does not answer, or the two were never seen at
// one position because of writes; trying again is safe.
func (r *Replica) Verify(ctx context.Context) (workerapi.Verification, error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.VerifyTimeout)
	defer cancel()
	select {
	case r.verify <- struct{}{}:
		defer func() { <-r.verify }()
	case <-ctx.Done():
		return workerapi.Verification{}, dbaas.WrapError(dbaas.CodeUnavailable, "another comparison runs", ctx.Err())
	}
	v, err := r.compareTables(ctx)
	if err != nil {
		r.Stats.VerifyErrors.Add(1)
		return v, err
	}
	r.Stats.Verified.Add(1)
	return v, nil
}

func (r *Replica) compareTables(ctx context.Context) (workerapi.Verification, error) {
	for range verifyTries {
		rd, want, err := r.readerWithHashes(ctx)
		if err != nil {
			return workerapi.Verification{}, err
		}
		if rd == nil {
			continue
		}
		defer rd.Close() // the loop ends here
		return r.judge(ctx, rd, want)
	}
	return workerapi.Verification{}, dbaas.Errorf(dbaas.CodeUnavailable, "writes went on: not seen at persdb's position in %d tries", verifyTries)
}

// readerWithHashes returns persdb's hashes and a Reader at their position, or no
// Reader if the replica was never seen there. The Reader is opened before persdb is asked,
// so that no time lies between the two positions but that of the question; if persdb was
// further, the replica may still come by exactly there.
func (r *Replica) readerWithHashes(ctx context.Context) (*Reader, dbaas.TableHashes, error) {
	head, err := r.config.Store.Head(ctx)
	if err != nil {
		return nil, dbaas.TableHashes{}, noAnswer(err)
	}
	rd, err := r.readerAt(ctx, head.Seq)
	if err != nil {
		return nil, dbaas.TableHashes{}, err
	}
	want, err := r.config.Store.Hashes(ctx)
	if err == nil && want.Seq == rd.Seq() {
		return rd, want, nil
	}
	rd.Close()
	if err != nil {
		return nil, want, noAnswer(err)
	}
	if rd, err = r.readerAt(ctx, want.Seq); err != nil {
		return nil, want, err
	}
	if rd.Seq() != want.Seq {
		rd.Close()
		return nil, want, nil
	}
	return rd, want, nil
}

// readerAt waits until seq is applied and opens a Reader, which may be further.
func (r *Replica) readerAt(ctx context.Context, seq dbaas.Seq) (*Reader, error) {
	if _, ready := r.Applied(); ready { // one that is not says so at once
		if err := r.WaitApplied(ctx, seq); err != nil {
			return nil, dbaas.WrapError(dbaas.CodeUnavailable, "the position was not reached in time", err)
		}
	}
	return r.scanner()
}

// judge compares what rd sees with persdb's hashes of the same position.
func (r *Replica) judge(ctx context.Context, rd *Reader, want dbaas.TableHashes) (workerapi.Verification, error) {
	v := workerapi.Verification{Seq: want.Seq}
	got, err := rd.hashes(ctx)
	switch {
	case err == nil:
		if v.Differ = workerapi.Differ(want, got); len(v.Differ) > 0 {
			r.condemn(rd.file, fmt.Errorf("%w: %s", errDiffers, strings.Join(v.Differ, ", ")))
		}
		return v, nil
	case ctx.Err() != nil:
		return v, dbaas.WrapError(dbaas.CodeUnavailable, "hashing took too long", err)
	default: // what cannot be read is as bad as what differs
		r.condemn(rd.file, err)
		return v, fmt.Errorf("hash the replica: %w", err)
	}
}

// condemn makes Run throw f away, if it is still in use.
func (r *Replica) condemn(f *file, reason error) {
	r.mu.Lock()
	if r.file == f && r.broken == nil {
		r.broken = reason
	}
	r.mu.Unlock()
	r.ring()
}

func noAnswer(err error) error {
	return dbaas.WrapError(dbaas.CodeUnavailable, "persdb does not answer", err)
}
