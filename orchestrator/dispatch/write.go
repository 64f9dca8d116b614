package dispatch

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/frame"
	"rideshare/internal/mq"
)

// Write sends op to the master and returns what it did. The earlier of
// op.Deadline and ctx's deadline counts; an op without id or position gets them. The master is given a deadline up
// to 100 ms before the caller's, so that its reason arrives in place of a time-out.
//
// A nil error means that persdb has the operation on disk; single statements of
// it may have failed, see the result. Errors are *dbaas.Error: CodeUnavailable
// when the operation was surely not done, CodeMismatch when its id belongs to
// another one, CodeUnknown, with the id, when it was handed over and may yet be
// done. After CodeUnknown the same operation with the same id is safe to send again.
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
		// Expired: it did not run now, and may have in what persdb has forgotten.
		return dbaas.OperationResult{}, &dbaas.Error{Code: dbaas.CodeUnknown, Message: unknownText, Op: op.ID}
	default:
		return dbaas.OperationResult{}, &dbaas.Error{Code: result.Code, Message: result.Message}
	}
}

// Enqueue hands op to the broker for good: it has no deadline and survives the
// death of every process. A nil error means that the broker has it on disk; what
// became of it is found in persdb under its id. On a bus that keeps nothing it runs
// op to its end instead, as Write does.
//
// Errors are as for Write.
func (d *Dispatcher) Enqueue(ctx context.Context, op dbaas.Operation) error {
	if !d.cfg.Publisher.Durable() {
		_, err := d.Write(ctx, op)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	if err := d.accept(ctx, &op, d.cfg.Now().Add(d.cfg.Timeout)); err != nil {
		return err
	}
	op.Deadline = time.Time{}
	body, err := frame.WriteRequest{Operations: []dbaas.Operation{op}}.Encode(d.cfg.Now())
	if err != nil {
		return dbaas.WrapError(dbaas.CodeTooLarge, "the request is too large", err)
	}
	err = d.cfg.Publisher.Publish(ctx, mq.WriteQ, mq.Message{Body: body, ID: op.ID.String(), Persistent: true})
	switch {
	case err == nil:
		return nil
	case notTaken(err):
		return writeUnsent(&op, err)
	default:
		return writeLost(&op, err)
	}
}

// accept gives op what it lacks: an id, and the position that this orchestrator has seen. Until it has
// seen one it waits, at most to deadline.
func (d *Dispatcher) accept(ctx context.Context, op *dbaas.Operation, deadline time.Time) error {
	now := d.cfg.Now()
	if op.ID.IsZero() {
		op.ID = dbaas.NewOpID(now)
	}
	seen, err := d.AwaitSeen(ctx, deadline)
	if err != nil {
		return err
	}
	if op.SeenSeq == 0 {
		op.SeenSeq = seen
	}
	return nil
}

// resent marks a write that is sent in a second message.
func resent(op *dbaas.Operation) { op.Resent = true }

// doubtRefusal makes a refusal of a second message unknown: the first one may still be run.
func doubtRefusal(r *dbaas.OperationResult) {
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
		opens:      writeThreshold(),
		slaves:     d.cfg.Availability.Slaves,
		gate:       d.masterGate,
		encode: func(ops []dbaas.Operation, _ bool) ([]byte, error) {
			return frame.WriteRequest{Operations: ops}.Encode(d.cfg.Now())
		},
		decode: decodeWrites,
		holder: func([]byte) *frame.ReadHeld { return nil }, // a master acknowledges after its answer
		unsent: writeUnsent,
		lost:   writeLost,
		again:  resent,
		doubt:  doubtRefusal,
		code:   func(r *dbaas.OperationResult) dbaas.Code { return r.Code },
	}
}

func decodeWrites(body []byte, each func(int, dbaas.OperationResult)) (bool, error) {
	reply, err := frame.DecodeWriteReply(body)
	if err != nil {
		return true, err
	}
	for i := range reply.Answers {
		each(reply.Answers[i].Index, reply.Answers[i].Result)
	}
	return reply.Last, nil
}

const unknownText = "the write was handed over and its outcome is not known; send it again with the same Idempotency-Key"

// errForeign is the cause when the answer at a write's place is that of another one.
var errForeign = errors.New("the answer belongs to another operation")

// writeUnsent is how a write ends that was surely not handed over.
func writeUnsent(_ *dbaas.Operation, cause error) error {
	return dbaas.WrapError(dbaas.CodeUnavailable, "writes cannot be taken at the moment; this one was not done", cause)
}

// writeLost is how a write ends that was handed over, or may have been.
func writeLost(op *dbaas.Operation, cause error) error {
	err := dbaas.WrapError(dbaas.CodeUnknown, unknownText, cause)
	err.Op = op.ID
	return err
}
