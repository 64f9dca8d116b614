package commitlog

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/reqlog"
	"rideshare/internal/tracing"
)

// trace logs a line for each operation of a batch with its outcome and its request's id. err is the error of the whole
// batch.
func (s *Store) trace(ctx context.Context, ops []dbaas.Operation, out dbaas.Commit, err error, took time.Duration) {
	lowest := reqlog.Level(dbaas.CodeOf(err), took)
	if lowest == slog.LevelDebug && !s.cfg.Log.Enabled(ctx, lowest) {
		return
	}
	if len(ops) > 1 {
		ctx = context.Background() // the trace of the batch is not that of each operation
	}
	for i := range ops {
		code, seq := dbaas.CodeOf(err), dbaas.Seq(0)
		if err == nil {
			code, seq = out.Results[i].Code, out.Results[i].Seq
		}
		s.cfg.Log.Log(ctx, lowest, "operation committed", logkey.RequestID, ops[i].RequestID, logkey.Op, ops[i].ID.String(),
			logkey.Seq, seq, logkey.Code, code, logkey.Took, took)
	}
}

// round is runOnce with its span.
func (b *batch) round(ctx context.Context) error {
	_, span := tracing.Start(ctx, tracing.Persdb, "sqlite")
	err := b.runOnce()
	if errors.Is(err, errRetry) { // not a failure: another round follows
		span.End(nil)
		return err
	}
	span.End(err)
	return err
}
