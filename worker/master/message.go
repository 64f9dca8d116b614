package master

import (
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/tracing"
	"rideshare/internal/wire"
)

const (
	// tries is how many commits of an operation alone may fail before the operation is refused. triesWithoutCaller is the same
	// for an operation without a deadline: no caller waits for it, so it may take longer.
	tries              = 4
	triesWithoutCaller = 8
	// firstPause and maxPause bound the pause between these attempts; each pause is five times the previous one.
	firstPause = 20 * time.Millisecond
	maxPause   = 5 * time.Second
)

// operation is one pending operation.
type operation struct {
	dbaas.Operation

	answered bool
	// tried reports whether persdb was asked at least once.
	tried bool
	// maybe reports whether persdb may have the operation from an earlier delivery or message. An answer from persdb
	// resets it.
	maybe bool
	// share bounds the number of operations in a commit with this operation; 0 means no bound. An operation with a share
	// waits in the side lane.
	share int
	// failures counts failed commits of this operation together with others, alone those of this operation alone.
	failures, alone int
	notBefore       time.Time
}

// waits reports whether a caller waits for the answer.
func (op *operation) waits() bool { return !op.Deadline.IsZero() }

// leavesNothing reports whether persdb stores no failure for the operation. That is so if the operation was accepted
// for a cluster other than the given one, under an id that the client chose: the same id may be sent to this cluster,
// where it then runs.
func (op *operation) leavesNothing(cluster dbaas.ClusterID) bool {
	return !op.Cluster.IsZero() && op.Cluster != cluster && !op.ID.Generated()
}

// failedAlone records another failed commit of this operation alone, and reports whether that was the last attempt.
func (op *operation) failedAlone(now time.Time) (last bool) {
	pause := firstPause
	for range op.alone {
		pause = min(5*pause, maxPause)
	}
	op.alone++
	op.share, op.notBefore = 1, now.Add(pause)
	if op.waits() {
		return op.alone >= tries
	}
	return op.alone >= triesWithoutCaller
}

// message is one delivery of operations. It belongs to the committing goroutine.
type message struct {
	delivery mq.Delivery
	size     int // of the body
	arrived  time.Time
	shard    dbaas.ShardID
	ops      []operation
	left     int // operations without an answer
	latest   time.Time
	answers  []wire.WriteAnswer // not sent yet
	end      *settlement
	dead     bool // the message is a dead letter
	reject   bool // an operation of the message must become a dead letter
	spans    tracing.Message
}

// newMessage returns the message of a delivery whose body was decoded as req. It lets the bus forget the body: a message
// may be pending for long, and the bodies of all of them need not fit into memory.
func newMessage(d mq.Delivery, req wire.WriteRequest) *message {
	m := &message{
		delivery: d, size: len(d.Message().Body), arrived: time.Now(), shard: req.Shard, ops: make([]operation, len(req.Operations)),
		left: len(req.Operations), end: &settlement{delivery: d},
		spans: tracing.Received(d.Message().Headers, len(req.Operations)),
	}
	for i, op := range req.Operations {
		m.ops[i] = operation{Operation: op, maybe: d.Redelivered() || op.Resent}
		if op.Deadline.After(m.latest) {
			m.latest = op.Deadline
		}
	}
	d.Forget()
	return m
}

// replaces reports whether m and old are deliveries of copies of the same message.
func (m *message) replaces(old *message) bool {
	a, b := m.delivery.Message(), old.delivery.Message()
	if m.dead != old.dead || a.ID != b.ID || a.ReplyTo != b.ReplyTo || len(m.ops) != len(old.ops) {
		return false
	}
	// The committing goroutine changes the rest of old's operations. The same key with another body has the same id, and is
	// another operation.
	for i := range m.ops {
		if m.ops[i].ID != old.ops[i].ID || m.ops[i].Fingerprint != old.ops[i].Fingerprint {
			return false
		}
	}
	return true
}

// answer settles operation i with r.
func (m *message) answer(i int, r dbaas.OperationResult) {
	r.ID = m.ops[i].ID
	m.drop(i)
	m.answers = append(m.answers, wire.WriteAnswer{Index: i, Result: r})
}

// drop settles operation i without an answer.
func (m *message) drop(i int) {
	m.ops[i].answered = true
	m.left--
}

// ref identifies one pending operation.
type ref struct {
	m     *message
	index int
}

func (r ref) op() *operation { return &r.m.ops[r.index] }

// refuse answers an operation that was certainly not done. An operation that no caller waits for is given up instead:
// it stays pending until persdb has stored its failure. If persdb does not accept the failure either, the message
// becomes a dead letter, and the master receives it again from the dead-letter queue. A dead letter stays pending until
// persdb accepts the failure, and is tried again after each maxPause.
func (r ref) refuse(code dbaas.Code, message string) {
	op := r.op()
	switch {
	case op.waits():
		r.m.answer(r.index, dbaas.OperationResult{Code: code, Message: message})
	case op.GiveUp == "":
		op.GiveUp, op.alone, op.share = message, 0, 1
	case r.m.dead:
		// One more attempt alone after the longest pause, also if persdb refused it by a result and no commit failed.
		op.alone, op.share, op.notBefore = triesWithoutCaller-1, 1, time.Now().Add(maxPause)
	default:
		r.reject()
	}
}

// reject settles an operation without an answer. Its message becomes a dead letter; a dead letter is acknowledged
// instead.
func (r ref) reject() {
	r.m.reject = r.m.reject || !r.m.dead
	r.m.drop(r.index)
}

// eachUnanswered calls f for each unanswered operation in order of arrival until f returns false.
func eachUnanswered(pending []*message, f func(ref) bool) {
	for _, m := range pending {
		for i := range m.ops {
			if !m.ops[i].answered && !f(ref{m, i}) {
				return
			}
		}
	}
}
