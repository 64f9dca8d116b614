package master

import (
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/frame"
	"rideshare/internal/mq"
)

// operation is one operation in hand.
type operation struct {
	dbaas.Operation

	answered bool
	// tried says that persdb was asked at least once.
	tried bool
	// maybe says that persdb may have the operation: a commit's outcome is not known, or an
	// earlier delivery of the message may have been committed.
	maybe bool
}

// message is one delivery of operations. It belongs to the committing goroutine.
type message struct {
	delivery mq.Delivery
	arrived  time.Time
	shard    dbaas.ShardID
	ops      []operation
	left     int // operations without an answer
	latest   time.Time
	answers  []frame.WriteAnswer // not sent yet
}

func newMessage(d mq.Delivery, req frame.WriteRequest) *message {
	m := &message{delivery: d, arrived: time.Now(), shard: req.Shard, ops: make([]operation, len(req.Operations)), left: len(req.Operations)}
	for i, op := range req.Operations {
		m.ops[i] = operation{Operation: op, maybe: d.Redelivered()}
		if op.Deadline.After(m.latest) {
			m.latest = op.Deadline
		}
	}
	return m
}

// answer settles the operation at place i.
func (m *message) answer(i int, r dbaas.OperationResult) {
	r.ID = m.ops[i].ID
	m.ops[i].answered = true
	m.left--
	m.answers = append(m.answers, frame.WriteAnswer{Index: i, Result: r})
}

// ref names one operation in hand.
type ref struct {
	m     *message
	index int
}

func (r ref) op() *operation { return &r.m.ops[r.index] }

func (r ref) refuse(code dbaas.Code, message string) {
	r.m.answer(r.index, dbaas.OperationResult{Code: code, Message: message})
}

// expire answers an operation whose deadline has passed, with what is known of
// it, and reports whether it did.
//
// One that persdb may have is passed on once more although it is late: persdb
// knows the answer if it has run, and refuses to run it otherwise.
func (r ref) expire(now time.Time) bool {
	op := r.op()
	if op.Deadline.IsZero() || op.Deadline.After(now) {
		return false
	}
	switch {
	case op.maybe && !op.tried:
		return false
	case op.maybe:
		r.refuse(dbaas.CodeUnknown, "the outcome of the write is not known")
	case op.tried:
		r.refuse(dbaas.CodeUnavailable, "the database did not take the write in time")
	default:
		r.refuse(dbaas.CodeExpired, "the write came past its deadline and was not run")
	}
	return true
}

// pending calls f for each unanswered operation in order of arrival until f
// returns false.
func pending(hand []*message, f func(ref) bool) {
	for _, m := range hand {
		for i := range m.ops {
			if !m.ops[i].answered && !f(ref{m, i}) {
				return
			}
		}
	}
}

// gather returns the operations for one commit: whole messages in order of
// arrival, at least one, up to the bounds. Those that are late were answered before.
func gather(hand []*message) []ref {
	var batch []ref
	size := 0
	for _, m := range hand {
		size += len(m.delivery.Message().Body)
		if len(batch) > 0 && (size > maxBatchBytes || len(batch)+m.left > maxBatchOps) {
			break
		}
		pending([]*message{m}, func(r ref) bool {
			batch = append(batch, r)
			return true
		})
	}
	return batch
}
