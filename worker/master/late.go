package master

import (
	"context"
	"errors"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
)

// commitLate is commit with a deliberate fault (failpoint.AckBeforeCommit): it reports success and acknowledges the
// messages before it calls persdb. Tests use it to prove that they would detect the fault.
func (m *Master) commitLate(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation, batch []ref) error {
	for i, r := range batch {
		r.m.answer(r.index, dbaas.OperationResult{Statements: make([]dbaas.StatementResult, len(ops[i].Statements))})
	}
	if err := m.complete(ctx, nil); err != nil {
		return err
	}
	c, err := m.store(ctx, by, ops)
	switch {
	case err == nil:
		return m.complete(ctx, c.Entry)
	case ctx.Err() != nil || errors.Is(err, dbaas.ErrStaleEpoch):
		return err
	default: // the fault has lost acknowledged writes
		m.Log.ErrorContext(ctx, "acknowledged writes lost", logkey.Count, len(ops), logkey.Error, err)
		return nil
	}
}
