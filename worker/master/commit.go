package master

import (
	"context"
	"errors"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
)

// commitAll commits the pending operations, one commit at a time, so that a batch gathers while the previous commit is
// in flight. It returns nil when no more messages arrive and none is pending, dbaas.ErrStaleEpoch, or ctx's error.
func (m *Master) commitAll(ctx context.Context, consumed <-chan struct{}) error {
	backoff, failing := m.newBackoff(), wait.Streak{}
	for {
		pending, err := m.waitPending(ctx, consumed)
		if err != nil || len(pending) == 0 {
			return err
		}
		now := time.Now()
		m.expire(pending, now)
		batch := m.next(pending, now)
		if len(batch) > 0 {
			err = m.commit(ctx, batch)
		}
		if ferr := m.complete(ctx, nil); ferr != nil {
			return ferr
		}
		switch {
		case err == nil && len(batch) > 0:
			if failures := failing.End(); failures > 0 {
				m.Log.InfoContext(ctx, "commits taken again", logkey.Count, failures)
			}
			backoff.Reset()
		case err == nil:
			m.rest(ctx, nextEvent(pending, now))
		case isTryAgain(err):
			if failing.Fail() {
				m.Log.WarnContext(ctx, "commit not taken", logkey.Error, err)
			}
			if !wait.For(ctx, untilRetry(backoff.Next(), nextEvent(pending, now))) {
				return context.Cause(ctx)
			}
		default:
			return err
		}
	}
}

// rest waits until a given time or until another message is pending. It returns immediately if until is zero:
// everything that was pending has been answered.
func (m *Master) rest(ctx context.Context, until time.Time) {
	if until.IsZero() {
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.wake:
	case <-ctx.Done():
	}
}

// waitPending waits until messages are pending and returns them. It returns no messages when no more arrive.
func (m *Master) waitPending(ctx context.Context, consumed <-chan struct{}) ([]*message, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m.mu.Lock()
		pending := slices.Clone(m.pending)
		m.mu.Unlock()
		if len(pending) > 0 {
			return pending, nil
		}
		select {
		case <-m.wake:
			continue
		case <-ctx.Done():
			continue
		case <-consumed:
		}
		select {
		case <-m.wake: // the message came before the end
		default:
			return nil, context.Cause(ctx)
		}
	}
}

// commit makes one commit of batch and settles it.
func (m *Master) commit(ctx context.Context, batch []ref) error {
	by := m.by()
	ops := make([]dbaas.Operation, len(batch))
	for i, r := range batch {
		ops[i] = r.op().Operation
		r.op().tried = true
	}
	if failpoint.On(failpoint.AckBeforeCommit) {
		return m.commitLate(ctx, by, ops, batch)
	}
	c, err := m.store(ctx, by, ops)
	if err == nil && len(c.Results) != len(batch) {
		err = dbaas.Errorf(dbaas.CodeUnknown, "persdb answered %d of %d operations", len(c.Results), len(batch))
	}
	if err != nil {
		return m.failed(ctx, batch, by.Epoch, err)
	}
	m.Stats.Commits.Add(1)
	moved := false
	for i, r := range batch {
		moved = m.take(r, c.Results[i], len(batch)) || moved
	}
	if !moved {
		return m.failed(ctx, batch, by.Epoch, dbaas.Errorf(dbaas.CodeUnavailable, "persdb put every operation of the commit off"))
	}
	return m.complete(ctx, c.Entry)
}

// take processes persdb's result for one operation in a commit of n operations. It reports whether the result is
// progress.
func (m *Master) take(r ref, result dbaas.OperationResult, n int) bool {
	op := r.op()
	op.maybe = false     // persdb has looked its id up
	switch result.Code { //nolint:exhaustive // all other codes are refusals.
	case dbaas.CodeAgain:
		return false
	case dbaas.CodeSlow:
		op.share = 1
		return n > 1
	case dbaas.CodeOK, dbaas.CodeMismatch:
		m.Stats.Operations.Add(1)
		r.m.answer(r.index, result)
	default:
		m.refuse(r, result.Code, result.Message)
	}
	return true
}

// store sends one commit to persdb.
func (m *Master) store(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	if err := failpoint.Fail(failpoint.MasterBeforeCommit); err != nil {
		return dbaas.Commit{}, dbaas.WrapError(dbaas.CodeUnavailable, "persdb was not asked", err)
	}
	ctx, cancel := context.WithTimeout(ctx, dbaas.CommitTime(m.CommitTimeout, ops, time.Now()))
	defer cancel()
	c, err := m.Store.Commit(ctx, by, ops)
	if err == nil {
		failpoint.Hit(failpoint.MasterAfterCommit)
	}
	return c, err
}

// complete removes the completed messages from pending and queues all new answers for finish. entry, the commit's entry, is
// broadcast before them, if not nil.
func (m *Master) complete(ctx context.Context, entry *dbaas.EncodedEntry) error {
	f := finished{entry: entry}
	m.mu.Lock()
	m.pending = slices.DeleteFunc(m.pending, func(msg *message) bool {
		if len(msg.answers) > 0 || msg.left == 0 {
			f.replies = append(f.replies, reply{
				end: msg.end, arrived: msg.arrived, ops: msg.ops, shard: msg.shard, latest: msg.latest, answers: msg.answers,
				last: msg.left == 0, reject: msg.reject,
			})
			msg.answers = nil
		}
		return msg.left == 0
	})
	left := slices.Clone(m.pending)
	m.mu.Unlock()
	m.forget(left)
	if entry != nil {
		m.Stats.Entries.Add(1)
		m.Replica.Offer(entry.Frame)
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

// tryAgainError says that persdb did not accept a commit or that its outcome is unknown: the commit must be retried.
type tryAgainError struct{ error }

func (e tryAgainError) Unwrap() error { return e.error }

func isTryAgain(err error) bool {
	_, ok := errors.AsType[tryAgainError](err)
	return ok
}

func (m *Master) newBackoff() wait.Backoff {
	return wait.Backoff{First: m.Backoff, Cap: maxBackoff, Jitter: 0.5}
}

// untilRetry returns how long to wait before a retry: pause, but not beyond deadline unless deadline is zero.
func untilRetry(pause time.Duration, deadline time.Time) time.Duration {
	if deadline.IsZero() {
		return pause
	}
	return max(min(pause, time.Until(deadline)), time.Millisecond)
}
