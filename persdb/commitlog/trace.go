package commitlog

import (
	"context"
	"log/slog"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/reqlog"
)

// trace writes a line for each operation of a batch: what became of it, under its
// request's id. An error is the whole batch's.
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
