package master

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
)

// failed handles the error of a whole commit. If the error concerns the operations rather than persdb, it isolates
// them.
func (m *Master) failed(ctx context.Context, batch []ref, epoch dbaas.Epoch, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.Stats.CommitErrors.Add(1)
	code := dbaas.CodeOf(err)
	// A connection that was not made in time sent nothing, so the commit was certainly not done.
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, dbaas.ErrUnreachable) {
		code = dbaas.CodeUnknown
	}
	switch {
	case code == dbaas.CodeStaleEpoch && m.Epoch() <= epoch:
		return err
	case code == dbaas.CodeStaleEpoch || code != dbaas.CodeUnknown && errors.Is(err, dbaas.ErrUnreachable):
		return tryAgainError{err}
	case code == dbaas.CodeUnknown || code == dbaas.CodeTimeout || code == dbaas.CodeInternal:
		for _, r := range batch {
			m.lost[r.op().ID] = struct{}{}
		}
	}
	if m.isolate(ctx, batch, code, err) {
		return tryAgainError{err}
	}
	return m.complete(ctx, nil)
}

// isolate finds the operation that makes a commit fail. It halves the batch and tries each half, and refuses an
// operation that failed several times alone. If the error may be transient, the whole batch is first retried once.
// isolate reports whether to pause before the next commit.
func (m *Master) isolate(ctx context.Context, batch []ref, code dbaas.Code, err error) (pause bool) {
	passing := code == dbaas.CodeUnknown || code == dbaas.CodeTimeout || code == dbaas.CodeUnavailable || code == dbaas.CodeInternal
	if len(batch) == 1 {
		op := batch[0].op()
		last := op.failedAlone(time.Now())
		if op.alone == 1 {
			m.Log.WarnContext(ctx, "commit of one operation not taken", logkey.Op, op.ID.String(), logkey.RequestID, op.RequestID, logkey.Error, err)
		}
		if code == dbaas.CodeFull {
			op.maybe = false // persdb looked up the id before it ran the operation
		}
		if last || !passing {
			m.giveUp(ctx, batch[0], code, err)
		}
		return false // only this operation waits
	}
	again := passing
	for _, r := range batch {
		r.op().failures++
		again = again && r.op().failures == 1
	}
	if again {
		return true
	}
	m.Stats.Splits.Add(1)
	for _, r := range batch {
		r.op().share = (len(batch) + 1) / 2
	}
	return passing
}

// giveUp refuses an operation that persdb does not accept even in a commit of its own.
func (m *Master) giveUp(ctx context.Context, r ref, code dbaas.Code, err error) {
	op := r.op()
	var message string
	if e, ok := errors.AsType[*dbaas.Error](err); ok {
		message = e.Message
	}
	m.Log.ErrorContext(ctx, "operation refused", logkey.Op, op.ID.String(), logkey.RequestID, op.RequestID, logkey.Code, code, logkey.Error, err)
	switch code { //nolint:exhaustive // all other codes say what the operation has done wrong.
	case dbaas.CodeUnknown, dbaas.CodeTimeout, dbaas.CodeInternal, dbaas.CodeUnavailable:
		code, message = dbaas.CodeUnavailable, "the database failed each time that it was asked for this write; it was not done"
	}
	m.refuse(r, code, message)
}

// refuse answers an operation with code, or with CodeUnknown if it may have been done.
func (m *Master) refuse(r ref, code dbaas.Code, message string) {
	op := r.op()
	if op.waits() && (op.maybe || m.isLost(op.ID)) {
		r.m.answer(r.index, dbaas.OperationResult{Code: dbaas.CodeUnknown, Message: unknownText})
		return
	}
	r.refuse(code, message)
}

const unknownText = "the outcome of the write is not known"

// isLost reports whether this master sent a commit with the operation and lost the answer. Whatever persdb says later,
// that commit may still arrive.
func (m *Master) isLost(id dbaas.OpID) bool {
	_, lost := m.lost[id]
	return lost
}

// expire refuses the operations whose deadline has passed.
//
// An operation that persdb may have from an earlier message is still sent once: if it has run, persdb returns the
// stored result; otherwise persdb refuses to run it.
func (m *Master) expire(pending []*message, now time.Time) {
	eachUnanswered(pending, func(r ref) bool {
		op := r.op()
		if !op.waits() || op.Deadline.After(now) || op.maybe && !op.tried {
			return true
		}
		m.Stats.Expired.Add(1)
		if op.tried {
			m.refuse(r, dbaas.CodeUnavailable, "the database did not take the write in time; it was not done")
		} else {
			m.refuse(r, dbaas.CodeUnavailable, "the write came past its deadline and was not done")
		}
		return true
	})
}

// forget drops the lost operations that are no longer pending.
func (m *Master) forget(pending []*message) {
	if len(m.lost) == 0 {
		return
	}
	old := m.lost
	m.lost = map[dbaas.OpID]struct{}{}
	for _, msg := range pending {
		for i := range msg.ops {
			if _, lost := old[msg.ops[i].ID]; lost {
				m.lost[msg.ops[i].ID] = struct{}{}
			}
		}
	}
}
