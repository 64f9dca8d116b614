package master

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/logkey"
	"rideshare/internal/pause"
)

// commitAll commits what comes in hand, one commit at a time, so that a batch
// gathers while the one before is under way. It returns nil when nothing comes
// any more and the hand is empty, dbaas.ErrStaleEpoch, or ctx's error.
func (m *Master) commitAll(ctx context.Context, consumed <-chan struct{}) error {
	backoff := m.newBackoff()
	failing := int64(0)
	for {
		hand, err := m.waitHand(ctx, consumed)
		if err != nil || len(hand) == 0 {
			return err
		}
		now := time.Now()
		pending(hand, func(r ref) bool {
			if r.expire(now) {
				m.Stats.Expired.Add(1)
			}
			return true
		})
		if batch := gather(hand); len(batch) > 0 {
			err = m.commit(ctx, batch)
		}
		if ferr := m.settle(ctx, nil); ferr != nil {
			return ferr
		}
		switch {
		case err == nil:
			if failing > 0 {
				m.Log.InfoContext(ctx, "commits taken again", logkey.Count, failing)
			}
			failing = 0
			backoff.reset()
		case isTryAgain(err):
			if failing++; failing == 1 {
				m.Log.WarnContext(ctx, "commit not taken", logkey.Error, err)
			}
			if err = backoff.wait(ctx, earliest(hand)); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// waitHand waits until something is in hand and returns it. It returns nothing
// when nothing comes any more.
func (m *Master) waitHand(ctx context.Context, consumed <-chan struct{}) ([]*message, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m.mu.Lock()
		hand := slices.Clone(m.hand)
		m.mu.Unlock()
		if len(hand) > 0 {
			return hand, nil
		}
		select {
		case <-m.wake:
			continue
		case <-ctx.Done():
			continue
		case <-consumed:
		}
		select {
		case <-m.wake: // it came before the end
		default:
			return nil, context.Cause(ctx)
		}
	}
}

// commit makes one commit of batch and settles it. A failure of the whole commit
// that is the fault of some operation, such as one that is too large, must not
// hit the others: the halves are tried by themselves.
func (m *Master) commit(ctx context.Context, batch []ref) error {
	epoch := m.Mastership()
	ops := make([]dbaas.Operation, len(batch))
	for i, r := range batch {
		ops[i] = r.op().Operation
		r.op().tried = true
	}
	if failpoint.On(failpoint.AckBeforeCommit) {
		return m.commitLate(ctx, epoch, ops, batch)
	}
	c, err := m.store(ctx, epoch, ops)
	if err == nil && len(c.Results) != len(batch) {
		err = dbaas.Errorf(dbaas.CodeUnknown, "persdb answered %d of %d operations", len(c.Results), len(batch))
	}
	if err == nil {
		m.Stats.Commits.Add(1)
		m.Stats.Operations.Add(int64(len(batch)))
		for i, r := range batch {
			r.m.answer(r.index, c.Results[i])
		}
		return m.settle(ctx, c.Entry)
	}
	m.Stats.CommitErrors.Add(1)
	return m.failed(ctx, batch, epoch, err)
}

// store asks persdb for one commit.
func (m *Master) store(ctx context.Context, epoch dbaas.Epoch, ops []dbaas.Operation) (dbaas.Commit, error) {
	if err := failpoint.Fail(failpoint.MasterBeforeCommit); err != nil {
		return dbaas.Commit{}, dbaas.WrapError(dbaas.CodeUnavailable, "persdb was not asked", err)
	}
	ctx, cancel := context.WithTimeout(ctx, m.CommitTimeout)
	defer cancel()
	c, err := m.Store.Commit(ctx, epoch, ops)
	if err == nil {
		failpoint.Hit(failpoint.MasterAfterCommit)
	}
	return c, err
}

func (m *Master) failed(ctx context.Context, batch []ref, epoch dbaas.Epoch, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	code := dbaas.CodeOf(err)
	if errors.Is(err, context.DeadlineExceeded) {
		code = dbaas.CodeUnknown
	}
	switch code { //nolint:exhaustive // all other codes are the fault of an operation.
	case dbaas.CodeStaleEpoch:
		if m.Mastership() > epoch { // raised meanwhile
			return tryAgainError{err}
		}
		return err
	case dbaas.CodeUnavailable:
		return tryAgainError{err}
	case dbaas.CodeUnknown, dbaas.CodeTimeout:
		for _, r := range batch {
			r.op().maybe = true
		}
		return tryAgainError{err}
	}
	if len(batch) == 1 {
		m.refuse(ctx, batch[0], code, err)
		return m.settle(ctx, nil)
	}
	m.Stats.Splits.Add(1)
	half := len(batch) / 2
	if err := m.commit(ctx, batch[:half]); err != nil {
		return err
	}
	return m.commit(ctx, batch[half:])
}

// refuse answers an operation that persdb does not take by itself either.
func (m *Master) refuse(ctx context.Context, r ref, code dbaas.Code, err error) {
	message := "internal error"
	if e, ok := errors.AsType[*dbaas.Error](err); ok {
		message = e.Message
	}
	if code == dbaas.CodeInternal {
		m.Log.ErrorContext(ctx, "operation refused", logkey.Op, r.op().ID.String(), logkey.RequestID, r.op().RequestID, logkey.Error, err)
	}
	if code == dbaas.CodeInternal && r.op().maybe {
		code = dbaas.CodeUnknown
	}
	r.refuse(code, message)
}

// settle takes what is answered out of hand and passes it on, with the entry of
// its commit, if any, to be broadcast first.
func (m *Master) settle(ctx context.Context, entry *dbaas.Entry) error {
	f := finished{entry: entry}
	m.mu.Lock()
	m.hand = slices.DeleteFunc(m.hand, func(msg *message) bool {
		if len(msg.answers) > 0 || msg.left == 0 {
			f.replies = append(f.replies, reply{delivery: msg.delivery, arrived: msg.arrived, ops: msg.ops, shard: msg.shard, latest: msg.latest, answers: msg.answers, last: msg.left == 0})
			msg.answers = nil
		}
		return msg.left == 0
	})
	m.mu.Unlock()
	if entry != nil {
		m.Stats.Entries.Add(1)
		m.Replica.Offer(*entry)
	}
	if entry == nil && len(f.replies) == 0 {
		return nil
	}
	select {
	case m.done <- f:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// earliest returns the first deadline in hand, zero for none.
func earliest(hand []*message) time.Time {
	var t time.Time
	pending(hand, func(r ref) bool {
		if d := r.op().Deadline; !d.IsZero() && (t.IsZero() || d.Before(t)) {
			t = d
		}
		return true
	})
	return t
}

// tryAgainError says that persdb did not take a commit, or that nobody knows: it is to be tried again.
type tryAgainError struct{ error }

func (e tryAgainError) Unwrap() error { return e.error }

func isTryAgain(err error) bool {
	_, ok := errors.AsType[tryAgainError](err)
	return ok
}

// backoff waits longer and longer. It belongs to one goroutine.
type backoff struct {
	first, next time.Duration
}

func (m *Master) newBackoff() *backoff { return &backoff{first: m.Backoff, next: m.Backoff} }

func (b *backoff) reset() { b.next = b.first }

// wait waits, with jitter, at most until a deadline that is not zero. It returns ctx's error when ctx ends.
func (b *backoff) wait(ctx context.Context, deadline time.Time) error {
	d := b.next/2 + rand.N(b.next/2+1) //nolint:gosec // jitter is no secret.
	if !deadline.IsZero() {
		d = max(min(d, time.Until(deadline)), time.Millisecond)
	}
	b.next = min(2*b.next, maxBackoff)
	if !pause.For(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}
