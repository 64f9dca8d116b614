package master

import (
	"context"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/frame"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
)

// read serves linearizable reads: it asks persdb for its head after the reads have arrived. If
// the epoch there is still this master's, every write that was acknowledged
// before is at or below that position, so the replica may answer from there on.
func (m *Master) read(ctx context.Context, d mq.Delivery, req frame.ReadRequest) error {
	head, err := m.confirm(ctx, latest(req.Reads))
	m.confirming.Done()
	switch {
	case err == nil && failpoint.On(failpoint.NoReadPosition):
		m.Reads.Serve(ctx, d, req)
		return nil
	case err == nil:
		for i := range req.Reads {
			req.Reads[i].MinSeq = max(req.Reads[i].MinSeq, head.Seq)
		}
		m.Reads.Serve(ctx, d, req)
		return nil
	case ctx.Err() != nil || dbaas.CodeOf(err) == dbaas.CodeStaleEpoch:
		return err // no answer and no ack: the next master does it
	}
	reply := frame.ReadReply{Shard: req.Shard, Last: true}
	for i := range req.Reads {
		reply.Answers = append(reply.Answers, frame.ReadAnswer{Index: i, Result: dbaas.ReadResult{
			Code: dbaas.CodeUnavailable, Message: "the mastership could not be confirmed",
		}})
	}
	body, err := reply.Encode()
	if err != nil {
		return err
	}
	m.send(ctx, d.Message(), body)
	m.ack(ctx, d)
	return nil
}

// confirm returns persdb's head. It tries again until deadline, and returns
// dbaas.ErrStaleEpoch when this is not the newest mastership any more.
func (m *Master) confirm(ctx context.Context, deadline time.Time) (dbaas.Head, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	backoff := m.newBackoff()
	for {
		epoch := m.Mastership()
		head, err := m.Store.Head(ctx)
		if err == nil && head.Epoch > epoch && head.Epoch > m.Mastership() {
			return head, dbaas.ErrStaleEpoch
		}
		if err == nil {
			return head, nil
		}
		m.Log.DebugContext(ctx, "head not read", logkey.Error, err)
		if werr := backoff.wait(ctx, time.Time{}); werr != nil {
			return head, err
		}
	}
}

// maxReadWait bounds a read that came without a deadline.
const maxReadWait = 30 * time.Second

func latest(reads []dbaas.Read) time.Time {
	var t time.Time
	for i := range reads {
		if d := reads[i].Deadline; d.After(t) {
			t = d
		}
	}
	if t.IsZero() {
		return time.Now().Add(maxReadWait)
	}
	return t
}
