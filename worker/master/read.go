package master

import (
	"context"
	"errors"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
)

// readPrefetch is how many unacknowledged messages of linearizable reads a master may hold. These reads have their own
// queue and their own bound, so that long reads do not delay writes.
const readPrefetch = 8

// receiveRead serves one delivery of linearizable reads from the replica, in a goroutine that reads counts.
//
// linearQ normally has one consumer, the master. Briefly during a fail-over it may have two, and the broker delivers to
// both. Then the confirmation at persdb decides, as for commits: a stale master ends, and its reads are redelivered to
// the new master.
func (m *Master) receiveRead(ctx context.Context, cancel context.CancelCauseFunc, d mq.Delivery, reads *sync.WaitGroup) {
	req, err := wire.DecodeReadRequest(d.Message().Body, time.Now())
	if err != nil {
		m.Log.WarnContext(ctx, "message rejected", logkey.Queue, mq.LinearQ, logkey.Error, err)
		m.Pulse.taking.Wait(func() { m.reject(ctx, d) }) // the broker must confirm a copy
		return
	}
	m.confirming.Add(1)
	reads.Go(func() {
		if stale := m.read(ctx, d, req); errors.Is(stale, dbaas.ErrStaleEpoch) {
			cancel(stale)
		}
	})
}

// read serves linearizable reads. After they have arrived, it asks persdb for its head. If the epoch there is still
// this master's, that position includes every write that was acknowledged before, so the replica may answer once it has
// reached the position.
func (m *Master) read(ctx context.Context, d mq.Delivery, req wire.ReadRequest) error {
	head, err := m.confirm(ctx, latest(req.Reads))
	m.confirming.Done()
	switch {
	case err == nil && failpoint.On(failpoint.NoReadPosition):
		m.Reads.Serve(ctx, d, req)
		return nil
	case err == nil:
		req.Cluster = head.Cluster
		for i := range req.Reads {
			req.Reads[i].MinSeq = max(req.Reads[i].MinSeq, head.Seq)
		}
		m.Reads.Serve(ctx, d, req)
		return nil
	case ctx.Err() != nil || dbaas.CodeOf(err) == dbaas.CodeStaleEpoch:
		return err // no answer and no ack: the next master serves the reads
	}
	reply := wire.ReadReply{Shard: req.Shard, Last: true}
	for i := range req.Reads {
		reply.Answers = append(reply.Answers, wire.ReadAnswer{Index: i, Result: dbaas.ReadResult{
			Code: dbaas.CodeUnavailable, Message: "the leadership could not be confirmed",
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

// confirm returns persdb's head. It retries until deadline, and returns dbaas.ErrStaleEpoch when a newer leadership
// exists.
func (m *Master) confirm(ctx context.Context, deadline time.Time) (dbaas.Head, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	backoff := m.newBackoff()
	for {
		by := m.by()
		head, err := m.Store.Head(ctx)
		if err == nil && !by.Cluster.IsZero() && head.Cluster != by.Cluster {
			return head, dbaas.Errorf(dbaas.CodeStaleEpoch, "the leadership is of cluster %s, the database is cluster %s", by.Cluster, head.Cluster)
		}
		if err == nil && head.Epoch > by.Epoch && head.Epoch > m.Epoch() {
			return head, dbaas.ErrStaleEpoch
		}
		if err == nil {
			return head, nil
		}
		m.Log.DebugContext(ctx, "head not read", logkey.Error, err)
		if !backoff.Wait(ctx) {
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
