package dispatch

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/tracing"
	"rideshare/internal/wire"
)

// Write sends op to the master and returns its result. The earlier of op.Deadline and ctx's
// deadline counts. Write sets op's id and position if they are missing. The master's deadline is up
// to 100 ms before the caller's, so that the master's error reaches the caller before it times out.
//
// A nil error means that persdb has the operation on disk; single statements may still have failed, see the result.
// Errors are *dbaas.Error: CodeUnavailable when the operation was certainly not done; CodeMismatch when its id belongs
// to another operation; CodeUnknown, with the id, when the operation was handed over and may still be done. After
// CodeUnknown the same operation with the same id is safe to retry.
func (d *Dispatcher) Write(ctx context.Context, op dbaas.Operation) (dbaas.OperationResult, error) {
	deadline := d.deadline(ctx, op.Deadline)
	if err := d.accept(ctx, &op, deadline); err != nil {
		return dbaas.OperationResult{}, err
	}
	op.Deadline = answerBy(d.cfg.Now(), deadline)
	result, _, err := d.writes.do(ctx, op, sizeOf(op.Statements), deadline)
	if err != nil {
		return dbaas.OperationResult{}, err
	}
	if result.ID != op.ID {
		return dbaas.OperationResult{}, writeLost(&op, errForeign)
	}
	switch result.Code { //nolint:exhaustive // all other codes are passed on as they are.
	case dbaas.CodeOK:
		d.SawSeq(result.Seq)
		return result, nil
	case dbaas.CodeExpired, dbaas.CodeUnknown, dbaas.CodeInternal:
		// Expired: the operation did not run now, but it may have run so long ago that persdb has forgotten it.
		return dbaas.OperationResult{}, &dbaas.Error{Code: dbaas.CodeUnknown, Message: unknownText, Op: op.ID}
	default:
		return dbaas.OperationResult{}, &dbaas.Error{Code: result.Code, Message: result.Message}
	}
}

// Enqueue hands op to the broker, where op has no deadline and survives the death of any process. A nil error means
// that the broker has op on disk; persdb has its outcome under op's id once it has run. Enqueue itself ends at op's deadline.
// On a bus that is not durable, it calls Write instead, and op has ended when Enqueue returns.
//
// Errors are as for Write.
func (d *Dispatcher) Enqueue(ctx context.Context, op dbaas.Operation) (ended bool, err error) {
	if !d.cfg.Publisher.Durable() {
		_, err = d.Write(ctx, op)
		return true, err
	}
	return false, d.publish(ctx, op)
}

// publish hands op to the broker. Errors are as for Write.
func (d *Dispatcher) publish(ctx context.Context, op dbaas.Operation) error {
	deadline := d.deadline(ctx, op.Deadline)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if err := d.accept(ctx, &op, deadline); err != nil {
		return err
	}
	op.Deadline = time.Time{}
	body, err := wire.WriteRequest{Operations: []dbaas.Operation{op}}.Encode(d.cfg.Now())
	if err != nil {
		return tooLarge(err)
	}
	request := []tracing.Link{tracing.Of(ctx)}
	ctx, span := tracing.Batch(ctx, tracing.Orchestrator, "message", request, request)
	defer func() { span.End(err) }()
	err = d.cfg.Publisher.Publish(ctx, mq.WriteQ, mq.Message{Body: body, ID: op.ID.String(), Persistent: true, Headers: span.Headers(request)})
	switch {
	case err == nil:
		return nil
	case notTaken(err):
		return writeUnsent(&op, err)
	default:
		return writeLost(&op, err)
	}
}

// accept sets op's id, position and cluster if they are missing. The position is the one that AwaitSeen returns;
// accept waits for it until deadline. The cluster is read first: if it changes in between, the operation is refused.
func (d *Dispatcher) accept(ctx context.Context, op *dbaas.Operation, deadline time.Time) error {
	now := d.cfg.Now()
	if op.ID.IsZero() {
		op.ID = dbaas.NewOpID(now)
	}
	if _, err := d.AwaitSeen(ctx, deadline); err != nil {
		return err
	}
	if op.SeenSeq == 0 {
		op.Cluster = d.Cluster()
		op.SeenSeq = d.SeenSeq()
	}
	return nil
}

// resent marks a write that is sent again in another message.
func resent(op *dbaas.Operation) { op.Resent = true }

// refusalToUnknown turns a refusal of a resent write into CodeUnknown, since the write in the first message may still run.
func refusalToUnknown(r *dbaas.OperationResult) {
	if r.Code != dbaas.CodeOK && r.Code != dbaas.CodeMismatch {
		r.Code = dbaas.CodeUnknown
	}
}

func (d *Dispatcher) writeCodec() codec[dbaas.Operation, dbaas.OperationResult] {
	return codec[dbaas.Operation, dbaas.OperationResult]{
		queue:      mq.WriteQ,
		staleAfter: d.cfg.WriteStaleAfter,
		patience:   writePatience,
		windows:    masterWindows,
		minBatch:   writeThreshold(),
		slaves:     d.cfg.Availability.Slaves,
		gate:       d.masterGate,
		encode: func(ops []dbaas.Operation, _ bool) ([]byte, error) {
			return wire.WriteRequest{Operations: ops}.Encode(d.cfg.Now())
		},
		decode:   decodeWrites,
		holder:   func([]byte) *wire.ReadHeld { return nil }, // a master acknowledges after its answer
		unsent:   writeUnsent,
		lost:     writeLost,
		again:    resent,
		onResent: refusalToUnknown,
		code:     func(r *dbaas.OperationResult) dbaas.Code { return r.Code },
		share:    func(op *dbaas.Operation) (string, int) { return op.User, len(op.Statements) },
	}
}

func decodeWrites(body []byte, each func(int, dbaas.OperationResult)) (bool, error) {
	reply, err := wire.DecodeWriteReply(body)
	if err != nil {
		return true, err
	}
	for i := range reply.Answers {
		each(reply.Answers[i].Index, reply.Answers[i].Result)
	}
	return reply.Last, nil
}

const unknownText = "the write was handed over and its outcome is not known; send it again with the same Idempotency-Key"

// errForeign is the cause when the answer at a write's index has the id of another operation.
var errForeign = errors.New("the answer belongs to another operation")

// writeUnsent returns the error of a write that was certainly not handed over.
func writeUnsent(_ *dbaas.Operation, cause error) error {
	return ended(dbaas.CodeUnavailable, "writes cannot be taken at the moment; this one was not done", cause)
}

// writeLost returns the error of a write that was handed over, or may have been.
func writeLost(op *dbaas.Operation, cause error) error {
	err := ended(dbaas.CodeUnknown, unknownText, cause)
	err.Op = op.ID
	return err
}
