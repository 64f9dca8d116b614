package master

import (
	"context"
	"errors"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/logkey"
	"rideshare/internal/tracing"
	"rideshare/internal/wait"
)

// commitAll commits the pending operations, one commit at a time: the next batch gathers while a commit is in flight.
// It returns nil once consumed is closed and no message is pending. Otherwise it returns dbaas.ErrStaleEpoch or ctx's
// error.
func (m *Master) commitAll(ctx context.Context, consumed <-chan struct{}) error {
	backoff, failing := m.newBackoff(), wait.Streak{}
	for {
		pending, err := m.waitPending(ctx, consumed)
		if err != nil || len(pending) == 0 {
			return err
		}
		m.Pulse.committing.Work()
		err = m.round(ctx, pending, &backoff, &failing)
		m.Pulse.committing.Rest()
		if err != nil {
			return err
		}
	}
}

// round makes one commit of pending operations, or waits until an operation is due. Any error that it returns ends the
// leadership.
func (m *Master) round(ctx context.Context, pending []*message, backoff *wait.Backoff, failing *wait.Streak) (err error) {
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
			m.Log.InfoContext(ctx, "commits succeed again", logkey.Count, failures)
		}
		backoff.Reset()
	case err == nil:
		m.Pulse.committing.Wait(func() { m.rest(ctx, nextEvent(pending, now)) })
	case isTryAgain(err):
		if failing.Fail() {
			m.Log.WarnContext(ctx, "commit failed, trying again", logkey.Error, err)
		}
		pause := untilRetry(backoff.Next(), nextEvent(pending, now))
		m.Pulse.committing.Wait(func() { wait.For(ctx, pause) })
		return context.Cause(ctx)
	default:
		return err
	}
	return nil
}

// rest waits until the given time or until another message arrives. It returns immediately if until is zero, which
// means that everything pending has been answered.
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

// waitPending waits until messages are pending and returns them. It returns no messages once consumed is closed and
// none is pending.
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

// commit makes one commit of batch and processes its results.
func (m *Master) commit(ctx context.Context, batch []ref) error {
	by := m.by()
	ops := make([]dbaas.Operation, len(batch))
	traced, span := trace(ctx, batch)
	defer span.End(nil)
	for i, r := range batch {
		ops[i] = r.op().Operation
		r.op().tried = true
	}
	if failpoint.On(failpoint.AckBeforeCommit) {
		return m.commitLate(ctx, by, ops, batch)
	}
	c, err := m.store(traced, by, ops)
	span.End(err)
	if err == nil && len(c.Results) != len(batch) {
		err = dbaas.Errorf(dbaas.CodeUnknown, "persdb answered %d of %d operations", len(c.Results), len(batch))
	}
	if err != nil {
		return m.failed(ctx, batch, by.Epoch, err)
	}
	m.Stats.Commits.Add(1)
	moved := false
	for i, r := range batch {
		moved = m.take(ctx, r, by.Cluster, c.Results[i], len(batch)) || moved
	}
	if !moved {
		return m.failed(ctx, batch, by.Epoch, dbaas.Errorf(dbaas.CodeUnavailable, "persdb deferred every operation of the commit"))
	}
	return m.complete(ctx, c.Entry)
}

// trace starts the span of a commit, and records how long the operations of the batch have waited for their first commit.
func trace(ctx context.Context, batch []ref) (context.Context, tracing.Span) {
	if !tracing.On() {
		return ctx, tracing.Span{}
	}
	parents, requests := make([]tracing.Link, len(batch)), make([]tracing.Link, len(batch))
	for i, r := range batch {
		parents[i], requests[i] = r.m.spans.Parent(r.index), r.m.spans.Request(r.index)
		if !r.op().tried {
			tracing.Passed(parents[i].Into(ctx), tracing.Worker, "wait", r.m.arrived)
		}
	}
	return tracing.Batch(ctx, tracing.Worker, "commit", parents, requests)
}

// take processes persdb's result for one operation of a commit. n is the number of operations in the commit, and to is
// the cluster that the commit was sent to. take reports whether the operation came closer to its end.
func (m *Master) take(ctx context.Context, r ref, to dbaas.ClusterID, result dbaas.OperationResult, n int) bool {
	op := r.op()
	op.maybe = false     // persdb has looked up the id
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
		if !op.waits() && op.leavesNothing(to) {
			m.Log.WarnContext(ctx, "accepted write of another cluster not done", logkey.Op, op.ID.String(), logkey.RequestID, op.RequestID, logkey.Cluster, op.Cluster)
			r.reject()
			return true
		}
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
	var c dbaas.Commit
	var err error
	m.Pulse.committing.Wait(func() { c, err = m.Store.Commit(ctx, by, ops) })
	if err == nil {
		failpoint.Hit(failpoint.MasterAfterCommit)
	}
	return c, err
}

// complete removes the completed messages from pending and queues all new answers for finish. If entry, the commit's
// entry, is not nil, it is broadcast before them.
func (m *Master) complete(ctx context.Context, entry *dbaas.EncodedEntry) (err error) {
	f := finished{entry: entry}
	m.mu.Lock()
	m.pending = slices.DeleteFunc(m.pending, func(msg *message) bool {
		if len(msg.answers) > 0 || msg.left == 0 {
			f.replies = append(f.replies, reply{
				end: msg.end, arrived: msg.arrived, ops: msg.ops, shard: msg.shard, latest: msg.latest, answers: msg.answers,
				last: msg.left == 0, reject: msg.reject, spans: msg.spans,
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
	m.Pulse.committing.Wait(func() {
		select {
		case m.done <- f:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	})
	return err
}

// tryAgainError means that persdb did not accept a commit, or that its outcome is unknown. The commit must be retried.
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
