package dispatch

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
)

// Read sends r to a slave, or to the master if r is linearizable, and returns
// the answer. The earlier of r.Deadline and ctx's deadline counts.
//
// Errors are *dbaas.Error: CodeUnavailable when no worker can serve r now, CodeTimeout when
// no answer came in time, CodeNotCaughtUp when no worker reached r.MinSeq in time or no write
// has that position yet, else the worker's error. A read is safe to retry after any of them.
func (d *Dispatcher) Read(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
	deadline := d.deadline(ctx, r.Deadline)
	r.Deadline = answerBy(d.cfg.Now(), deadline)
	if err := d.place(ctx, &r); err != nil {
		return dbaas.ReadResult{}, err
	}
	lane := d.points
	key := d.classKey(&r)
	switch {
	case r.Linearizable:
		lane = d.linears
	case d.classes.isHeavy(key):
		lane = d.ranges
	}
	result, late, err := lane.do(ctx, r, sizeOf(r.Statements), deadline)
	if err != nil {
		return dbaas.ReadResult{}, err
	}
	slow := late || result.Code == dbaas.CodeTimeout || result.Code == dbaas.CodeUnavailable
	d.classes.learn(key, slow || len(result.Body) >= heavyBytes)
	if result.Code != dbaas.CodeOK {
		return dbaas.ReadResult{}, &dbaas.Error{Code: result.Code, Message: result.Message}
	}
	if err = d.keep(ctx, &result); err != nil {
		return dbaas.ReadResult{}, err
	}
	return result, nil
}

// answerBy returns the deadline for the worker. It is an eighth of the remaining time, at most
// 100 ms, before the caller's deadline, so that the worker's error, such as CodeNotCaughtUp,
// reaches the caller before the caller times out.
func answerBy(now, deadline time.Time) time.Time {
	return deadline.Add(-max(0, min(100*time.Millisecond, deadline.Sub(now)/8)))
}

func (d *Dispatcher) deadline(ctx context.Context, deadline time.Time) time.Time {
	if deadline.IsZero() {
		deadline = d.cfg.Now().Add(d.cfg.Timeout)
	}
	if own, ok := ctx.Deadline(); ok && own.Before(deadline) {
		return own
	}
	return deadline
}

func (d *Dispatcher) readCodec(q mq.Queue, windows func(int) int, gate func(time.Time) error) codec[dbaas.Read, dbaas.ReadResult] {
	return codec[dbaas.Read, dbaas.ReadResult]{
		queue:      q,
		staleAfter: d.cfg.StaleAfter,
		windows:    windows,
		minBatch:   readThreshold(),
		slaves:     d.cfg.Availability.Slaves,
		gate:       gate,
		encode: func(reads []dbaas.Read, again bool) ([]byte, error) {
			return wire.ReadRequest{Again: again, Cluster: d.Cluster(), Reads: reads}.Encode(d.cfg.Now())
		},
		decode: decodeReads,
		holder: readHolder,
		unsent: readError,
		lost:   readError,
		code:   func(r *dbaas.ReadResult) dbaas.Code { return r.Code },
		share:  func(r *dbaas.Read) (string, int) { return r.User, len(r.Statements) },
	}
}

func decodeReads(body []byte, each func(int, dbaas.ReadResult)) (bool, error) {
	reply, err := wire.DecodeReadReply(body)
	if err != nil {
		return true, err
	}
	for i := range reply.Answers {
		each(reply.Answers[i].Index, reply.Answers[i].Result)
	}
	return reply.Last, nil
}

func readHolder(body []byte) *wire.ReadHeld {
	if kind, err := wire.KindOf(body); err != nil || kind != wire.KindReadHeld {
		return nil
	}
	held, err := wire.DecodeReadHeld(body)
	if err != nil {
		return nil // decode returns the error
	}
	return &held
}

// readError returns the error of a read that ends without an answer. It does not matter whether the
// read was handed over, since a read has no effect.
func readError(_ *dbaas.Read, cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return ended(dbaas.CodeTimeout, "no answer came in time", cause)
	}
	if errors.Is(cause, errHolderGone) {
		return dbaas.WrapError(dbaas.CodeUnavailable, "the workers that ran this read ended; it was not tried again", cause)
	}
	return ended(dbaas.CodeUnavailable, "reads cannot be served at the moment", cause)
}

// The approximate overhead, in bytes, of a request, a statement and a value in a frame.
const (
	perRequest   = 64
	perStatement = 8
	perValue     = 12
)

// sizeOf returns the approximate size, in bytes, of a request with these statements in a
// message.
func sizeOf(statements []dbaas.Statement) int {
	size := perRequest
	for i := range statements {
		s := &statements[i]
		size += perStatement + len(s.SQL)
		for j := range s.Args {
			size += perValue + len(s.Args[j].Text) + len(s.Args[j].Blob)
		}
		for j := range s.Named {
			v := &s.Named[j]
			size += perValue + len(v.Name) + len(v.Value.Text) + len(v.Value.Blob)
		}
	}
	return size
}
