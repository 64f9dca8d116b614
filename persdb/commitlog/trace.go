package commitlog

import (
	"context"
	"log/slog"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/reqlog"
)

// trace logs a line for each operation of a batch with its outcome and its request's id. err is the error of the whole
// batch.
func (s *Store) trace(ctx context.Context, ops []dbaas.Operation, out dbaas.Commit, err error, took time.Duration) {
	lowest := reqlog.Level(dbaas.CodeOf(err), took)
	if lowest == slog.LevelDebug && !s.cfg.Log.Enabled(ctx, lowest) {
		return
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
