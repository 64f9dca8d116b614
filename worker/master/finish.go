package master

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/reqlog"
	"rideshare/internal/tracing"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
)

// minReplyTTL is the shortest TTL of a reply whose operations are all past their deadline: the caller may wait a little
// longer than its deadline.
const minReplyTTL = 100 * time.Millisecond

// finished is one commit to be broadcast and answered.
type finished struct {
	entry   *dbaas.EncodedEntry
	replies []reply
}

// reply holds answers to operations of one message.
type reply struct {
	end     *settlement
	arrived time.Time
	shard   dbaas.ShardID
	ops     []operation // of the whole message; only fields that never change may be read
	latest  time.Time
	answers []wire.WriteAnswer
	last    bool
	reject  bool // the message ends as a dead letter
	spans   tracing.Message
}

// settlement ensures that a delivery ends only once: by an answer, or because another copy of its message replaces it.
type settlement struct {
	delivery mq.Delivery
	state    atomic.Int32
}

// The states of a settlement.
const (
	unsettled = iota
	answered
	replaced // or its acknowledgement failed, so that the broker redelivers the message
)

// claim sets the state if the delivery is unsettled, and reports whether it was.
func (s *settlement) claim(state int32) bool { return s.state.CompareAndSwap(unsettled, state) }

// finish broadcasts and answers commits in order until done is closed. It runs concurrently with the next commit, so
// waiting for the broker's confirms takes no commit time. After the end of ctx it no longer answers or acknowledges.
func (m *Master) finish(ctx context.Context) {
	var failing wait.Streak
	beat := &m.Pulse.finishing
	for f := range m.done {
		beat.Work()
		var known sync.WaitGroup
		if f.entry != nil && ctx.Err() == nil {
			m.sendEntry(ctx, f.entry, &known, &failing)
			failpoint.Hit(failpoint.MasterAfterBroadcast)
		}
		for i := range f.replies {
			known.Go(func() {
				beat.Work()
				defer beat.Rest()
				m.trace(ctx, &f.replies[i])
				m.reply(ctx, &f.replies[i])
			})
		}
		beat.Rest()
		known.Wait()
	}
}

// sendEntry broadcasts an entry and returns as soon as the entry is sent, without waiting for the broker's confirm.
// known is done when the confirm or an error has arrived. Answers sent after sendEntry do not overtake the entry, so a
// caller's next read seldom has to wait for it. failing counts consecutive failed broadcasts.
func (m *Master) sendEntry(ctx context.Context, e *dbaas.EncodedEntry, known *sync.WaitGroup, failing *wait.Streak) {
	onSent := make(chan struct{})
	known.Go(func() {
		switch err := m.broadcast(ctx, e.Frame, func() { close(onSent) }); {
		case err != nil:
			m.Stats.BroadcastErrors.Add(1)
			if failing.Fail() {
				m.Log.WarnContext(ctx, "entry not broadcast", logkey.Seq, e.Seq, logkey.Error, err)
			}
		case failing.Count() > 0:
			m.Log.InfoContext(ctx, "entries broadcast again", logkey.Seq, e.Seq, logkey.Count, failing.End())
		}
	})
	m.Pulse.finishing.Wait(func() { <-onSent })
}

// trace logs a line for each answered operation, with its request's id.
func (m *Master) trace(ctx context.Context, r *reply) {
	took := time.Since(r.arrived)
	for i := range r.answers {
		a := &r.answers[i]
		level := reqlog.Level(a.Result.Code, took)
		if !m.Log.Enabled(ctx, level) {
			continue
		}
		m.Log.Log(r.spans.Context(ctx, a.Index), level, "write answered", logkey.RequestID, r.ops[a.Index].RequestID, logkey.Op, a.Result.ID.String(),
			logkey.Seq, a.Result.Seq, logkey.Code, a.Result.Code, logkey.Took, took)
	}
}

// broadcast sends the frame of an entry to the slaves. An entry that does not reach them is not lost: they fetch it from
// persdb when the next entry reveals the gap, or by polling. broadcast calls onSent as Bus.Broadcast does.
func (m *Master) broadcast(ctx context.Context, frame []byte, onSent func()) error {
	ctx, cancel := context.WithTimeout(ctx, m.SendTimeout)
	defer cancel()
	return m.Bus.Broadcast(ctx, frame, onSent)
}

// reply sends answers and, after the last answers of a message, acknowledges it. It acknowledges even if the reply
// could not be sent: the results are stored, and a caller that retries with the same ids gets the stored results.
//
// Refusals are not stored, and a redelivered message could run an operation that was refused. So a message is
// acknowledged before a refusal is sent.
func (m *Master) reply(ctx context.Context, r *reply) {
	if ctx.Err() != nil {
		return
	}
	request := r.end.delivery.Message()
	if request.ReplyTo != "" && len(r.answers) > 0 {
		if refuses(r.answers) && !m.ackFirst(ctx, r) {
			markUnknown(r.answers)
		}
		body, err := wire.WriteReply{Shard: r.shard, Last: r.last, Answers: r.answers}.Encode()
		if err != nil {
			body, err = tooLarge(r).Encode()
		}
		if err == nil {
			m.Pulse.finishing.Wait(func() { m.sendFor(ctx, request, body, r.latest) })
		}
	}
	failpoint.Hit(failpoint.MasterAfterReply)
	if r.last && r.end.claim(answered) {
		m.Pulse.finishing.Wait(func() {
			if r.reject {
				m.reject(ctx, r.end.delivery)
			} else {
				m.ack(ctx, r.end.delivery)
			}
		})
	}
}

// ackFirst acknowledges a message before its refusal is sent, and reports whether the message can no longer be
// redelivered. It does not acknowledge a message with an operation that no caller waits for: the broker must keep such
// a message until all its operations are settled.
func (m *Master) ackFirst(ctx context.Context, r *reply) bool {
	if r.end.state.Load() == answered {
		return true
	}
	for i := range r.ops {
		if !r.ops[i].waits() {
			return false
		}
	}
	if !r.end.claim(answered) {
		return false
	}
	if m.ack(ctx, r.end.delivery) {
		return true
	}
	r.end.state.Store(replaced) // later refusals of the message are in doubt too
	return false
}

// refuses reports whether any answer says that its operation was not done.
func refuses(answers []wire.WriteAnswer) bool {
	return slices.ContainsFunc(answers, func(a wire.WriteAnswer) bool { return isRefusal(a.Result.Code) })
}

func isRefusal(code dbaas.Code) bool {
	switch code { //nolint:exhaustive // all other codes are refusals.
	case dbaas.CodeOK, dbaas.CodeMismatch, dbaas.CodeExpired, dbaas.CodeUnknown:
		return false
	default:
		return true
	}
}

// markUnknown changes the refusals among answers to CodeUnknown.
func markUnknown(answers []wire.WriteAnswer) {
	for i := range answers {
		if r := &answers[i].Result; isRefusal(r.Code) {
			r.Code, r.Message = dbaas.CodeUnknown, unknownText
		}
	}
}

// tooLarge returns a reply that replaces r, which is too large for a frame: the operations are done, but their rows do
// not fit.
func tooLarge(r *reply) wire.WriteReply {
	out := wire.WriteReply{Shard: r.shard, Last: r.last}
	for _, a := range r.answers {
		a.Result.Statements = nil
		if a.Result.Code == dbaas.CodeOK {
			a.Result.Code, a.Result.Message = dbaas.CodeTooLarge, "the write is done, its answer is over the size limit"
		}
		out.Answers = append(out.Answers, a)
	}
	return out
}

func (m *Master) send(ctx context.Context, request mq.Message, body []byte) {
	m.sendFor(ctx, request, body, time.Time{})
}

// sendFor sends a reply whose TTL ends at latest.
func (m *Master) sendFor(ctx context.Context, request mq.Message, body []byte, latest time.Time) {
	ttl := maxReadWait
	if !latest.IsZero() {
		ttl = max(time.Until(latest), minReplyTTL)
	}
	ctx, cancel := context.WithTimeout(ctx, m.SendTimeout)
	defer cancel()
	err := m.Bus.Reply(ctx, request.ReplyTo, mq.Message{Body: body, ID: request.ID, TTL: ttl})
	switch {
	case err == nil:
	case errors.Is(err, mq.ErrUnroutable):
		m.Stats.Unroutable.Add(1)
	default:
		m.Stats.ReplyErrors.Add(1)
		m.Log.DebugContext(ctx, "reply not sent", logkey.Queue, mq.WriteQ, logkey.Error, err)
	}
}

// ack acknowledges d and reports whether the acknowledgement was sent. If not, the broker redelivers the message.
func (m *Master) ack(ctx context.Context, d mq.Delivery) bool {
	err := d.Ack()
	if err != nil {
		m.Stats.LateAcks.Add(1)
		m.Log.DebugContext(ctx, "ack came too late", logkey.Error, err)
	}
	return err == nil
}

// reject turns a message into a dead letter.
func (m *Master) reject(ctx context.Context, d mq.Delivery) {
	m.Stats.Rejected.Add(1)
	if err := d.Reject(); err != nil {
		m.Log.DebugContext(ctx, "reject came too late", logkey.Queue, mq.WriteQ, logkey.Error, err)
	}
}
