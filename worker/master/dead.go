package master

import (
	"context"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
)

// deadPrefetch is how many dead letters a master may hold. Accepted writes may wait here until persdb answers; the
// letters behind them, whose callers have gone, must still be taken.
const deadPrefetch = 64

// deadText is the stored failure of an accepted write that ended as a dead letter.
const deadText = "the write was given up after several tries; it was not done"

// receiveDead takes one dead letter: a write that was redelivered too often, expired at the broker, or was rejected by
// a master. An accepted write (answered 202) must not end without a result, so its failure is stored at persdb before
// the letter is acknowledged. Other writes are dropped, since their callers have gone.
func (m *Master) receiveDead(ctx context.Context, d mq.Delivery) {
	m.Stats.DeadLetters.Add(1)
	req, err := wire.DecodeWriteRequest(d.Message().Body, time.Now())
	if err != nil {
		m.Log.ErrorContext(ctx, "dead letter cannot be read", logkey.Queue, mq.DeadQ, logkey.Error, err)
		if id, err := dbaas.ParseOpID(d.Message().ID); err == nil { // the message id shows that it is an accepted write
			req = wire.WriteRequest{Operations: []dbaas.Operation{{ID: id}}}
		}
	}
	msg := newMessage(d, req)
	msg.dead = true
	for i := range msg.ops {
		op := &msg.ops[i]
		if op.waits() {
			msg.drop(i)
			continue
		}
		op.Statements, op.GiveUp = nil, deadText
		m.Log.WarnContext(ctx, "accepted write given up", logkey.Op, op.ID.String(), logkey.RequestID, op.RequestID)
	}
	if msg.left == 0 {
		m.ack(ctx, d)
		return
	}
	m.put(msg)
}
