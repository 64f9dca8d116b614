package commitlog

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
)

// statement runs one statement. An error ends the round. If only the statement failed, the failure is returned as its
// result, and the statement has left no trace.
func (b *batch) statement(at stmtRef) (dbaas.StatementResult, error) {
	result, err := b.outcome(at)
	if err != nil {
		return dbaas.StatementResult{}, err
	}
	// An operation may have very many statements, so a check at its end would come too late.
	if b.plan.returned += resultSize(&result); b.plan.returned > b.s.sizes.results {
		return dbaas.StatementResult{}, b.overflow(at.op, errTooMuch)
	}
	return result, nil
}

// outcome is statement without the limit of the results.
func (b *batch) outcome(at stmtRef) (dbaas.StatementResult, error) {
	if err := b.plan.failed[at]; err != nil {
		b.plan.writes[at.op] = true
		return failure(err), nil
	}
	switch err := b.late(at); {
	case errors.Is(err, errLate):
		b.plan.writes[at.op] = true
		return failure(err), nil
	case err != nil:
		return dbaas.StatementResult{}, err
	}
	c := b.s.conn
	began := time.Now()
	result, untouched, err := b.text(at)
	if errors.Is(err, errRetry) {
		return result, err
	}
	if err != nil {
		return b.classify(at, err, untouched)
	}
	b.plan.good += time.Since(began)
	if !b.atomic(at.op) && c.OpenForeignKeys() { // a deferred foreign key; alone, the statement would fail at its commit.
		return b.exclude(at, errForeignKey)
	}
	return result, nil
}

// part is a statement of a text that may have several.
type part struct {
	at stmtRef
	*sqlite.Stmt
	in *sqlite.Input
	// undone means that after a failure the caller undoes the statement together with others.
	undone bool
}

// execute runs a prepared statement in the way that its kind requires.
func (b *batch) execute(p part) (dbaas.StatementResult, error) {
	if p.Schema() {
		return b.schema(p)
	}
	if name := emptied(p); name != "" {
		began := time.Now()
		rows, done, err := b.s.capture.Empty(name)
		if err != nil || done {
			b.plan.opEnd = b.plan.opEnd.Add(time.Since(began)) // emptying a table cannot be interrupted, and must be possible at any size
			return dbaas.StatementResult{RowsAffected: rows}, err
		}
	}
	changes, version := b.s.conn.TotalChanges(), int64(0)
	if b.plan.watch {
		var err error
		if version, err = b.s.conn.SchemaVersion(); err != nil {
			return dbaas.StatementResult{}, err
		}
	}
	result, err := b.runPart(p)
	if err != nil {
		return result, err
	}
	return result, b.recorded(p.Stmt, changes, version)
}

// runPart is runUnbounded within the time of the statement.
func (b *batch) runPart(p part) (result dbaas.StatementResult, err error) {
	err = b.timed(p.at, func() error {
		result, err = b.runUnbounded(p)
		return err
	})
	return result, err
}

// runUnbounded runs a statement without a time limit. It fails if a row that the statement changed, also by a cascade of DROP
// TABLE, has NULL in its primary key or could not be recorded.
func (b *batch) runUnbounded(p part) (result dbaas.StatementResult, err error) {
	if result, err = p.RunPart(p.in, b.s.sizes.result); err == nil {
		err = b.s.capture.Keys()
	}
	if err == nil {
		err = b.s.capture.Err()
	}
	return result, err
}

// emptied returns the table that a statement deletes as a whole, or "".
func emptied(p part) string {
	if p.in.HasValues() { // first, since looking at the text takes longer
		return ""
	}
	return replication.EmptiedTable(p.Text())
}

// recorded returns an error unless everything that a statement changed will be in the entry. It compares the capture
// with the engine's own count of changed rows and, if plan.watch is set, with the schema version.
func (b *batch) recorded(stmt *sqlite.Stmt, changes, version int64) error {
	capture := b.s.capture
	if stmt.WritesSequence() { // the engine does not count these rows; the whole table is compared at the end.
		return capture.CheckSequences()
	}
	if b.s.conn.TotalChanges()-changes > capture.Rows() {
		return errNotRecorded
	}
	if b.plan.watch {
		if now, err := b.s.conn.SchemaVersion(); err != nil || now != version {
			return errors.Join(errNotRecorded, err)
		}
	}
	return nil
}

var errNotRecorded = &dbaas.Error{Code: dbaas.CodeInternal, Message: "the statement was not run: what it changes could not be recorded for the replicas"}

// schema runs a statement that changes the schema. The change becomes a separate part of the entry, as text. If
// replicas could not follow the new schema, the statement is undone, or the whole operation if that is atomic.
func (b *batch) schema(p part) (result dbaas.StatementResult, err error) {
	if p.Parameters() > 0 { // the engine accepts them in a definition that it skips, as IF NOT EXISTS may make it do.
		return result, errSchemaParameters
	}
	if err = replication.CheckCalls(p.Calls()); err != nil {
		return result, err
	}
	run := func() error {
		return b.s.capture.Schema(p.Text(), p.Rewritten(), func() error {
			result, err = b.change(p)
			return err
		})
	}
	if p.undone {
		return result, run()
	}
	return result, b.together(run)
}

var errSchemaParameters = &dbaas.Error{Code: dbaas.CodeInvalid, Message: "a statement that changes the schema cannot have parameters"}

// together calls run within a savepoint, and undoes its changes if it fails.
func (b *batch) together(run func() error) error {
	c, mark := b.s.conn, b.s.capture.Mark()
	if err := c.Savepoint(); err != nil {
		return err
	}
	err := run()
	switch {
	case !c.InTransaction():
		return err
	case err != nil:
		undone := c.RollbackTo()
		b.s.capture.Rewind(mark)
		return errors.Join(err, undone)
	default:
		return c.Release()
	}
}

// change runs a statement that changes the schema. With foreign keys on, the engine deletes the rows of a dropped table one by
// one if other tables refer to it. change turns foreign keys off where they would only cost that time. The engine then drops
// the table in one step, which cannot be interrupted and must be possible at any size, so it has no time limit.
func (b *batch) change(p part) (result dbaas.StatementResult, err error) {
	for _, name := range p.Dropped() {
		whole := false
		if !b.plan.unlinked {
			whole, err = replication.Droppable(b.s.conn, name)
		}
		if err != nil {
			return result, err
		}
		if whole {
			began := time.Now()
			err = b.s.conn.WithoutForeignKeys(func() error {
				result, err = b.runUnbounded(p)
				return err
			})
			b.plan.opEnd = b.plan.opEnd.Add(time.Since(began))
			return result, err
		}
	}
	return b.runPart(p)
}

// timed runs a part of a statement within the time limits of the statement and the operation. If the operation is alone
// and not atomic, timed reserves the time needed to run its successful statements again.
func (b *batch) timed(at stmtRef, fn func() error) error {
	most := b.s.cfg.StatementLimit
	if own := b.ops[at.op].StatementTime; own > 0 {
		most = min(most, own)
	}
	end, limit := time.Now().Add(most), b.plan.opEnd
	if b.alone() && !b.atomic(at.op) {
		limit = limit.Add(-b.plan.good)
	}
	if limit.Before(end) && !b.again(at) {
		end = limit
	}
	return b.s.conn.Until(end, fn)
}

// exclude makes the statement fail with err in the next round without being run. An operation may need such a round for
// each of its statements: if that takes longer than a batch may, exclude refuses the operation with CodeSlow.
func (b *batch) exclude(at stmtRef, err *dbaas.Error) (dbaas.StatementResult, error) {
	if !b.alone() && b.over() {
		return dbaas.StatementResult{}, b.slow(at.op)
	}
	b.fails(at, err)
	b.plan.undo = true
	return dbaas.StatementResult{}, errRetry
}

// fails records that the statement fails, so that it fails again if the batch is rerun.
func (b *batch) fails(at stmtRef, err *dbaas.Error) {
	if b.plan.failed == nil {
		b.plan.failed = map[stmtRef]*dbaas.Error{}
	}
	b.plan.failed[at] = err
	b.plan.tried = max(b.plan.tried, at.statement)
}

// classify decides how an error of one statement affects the batch. readOnly means that the statement cannot have left
// a trace.
func (b *batch) classify(at stmtRef, err error, readOnly bool) (dbaas.StatementResult, error) {
	e, ok := errors.AsType[*dbaas.Error](err)
	if !ok {
		return dbaas.StatementResult{}, unavailable(err)
	}
	switch e.Code { //nolint:exhaustive // all other codes are the statement's own fault.
	case dbaas.CodeUnavailable:
		return dbaas.StatementResult{}, e
	case dbaas.CodeInternal:
		if e.Err != nil { // the disk failed, not the statement
			return dbaas.StatementResult{}, unavailable(e)
		}
	case dbaas.CodeFull:
		own, failed := b.ownFull()
		if failed != nil || !own {
			return dbaas.StatementResult{}, errors.Join(e, failed)
		}
		e = &dbaas.Error{Code: dbaas.CodeConstraint, Message: e.Message}
	case dbaas.CodeTimeout:
		if b.s.capture.Over() {
			return dbaas.StatementResult{}, b.overflow(at.op, errTooMuch)
		}
		if b.s.conn.Interrupted() { // by the caller's context: the batch took too long.
			return dbaas.StatementResult{}, unavailable(context.DeadlineExceeded)
		}
		if late := b.late(at); late != nil && !errors.Is(late, errLate) {
			return dbaas.StatementResult{}, late
		}
		e = errLate
		b.fails(at, e)
	}
	if b.untouched(at, e, readOnly) {
		return failure(e), nil
	}
	return b.exclude(at, e)
}

// ownFull reports whether a CodeFull error is the statement's own fault: the disk has room, or an AUTOINCREMENT counter
// is exhausted, which the engine reports in the same way.
func (b *batch) ownFull() (bool, error) {
	room, err := b.s.conn.RoomToGrow()
	if err != nil || room && freeBytes(b.s.cfg.Dir) > 2*b.s.sizes.entry {
		return err == nil, err
	}
	return b.s.conn.CounterUsedUp()
}

// untouched reports whether a failed statement has left the transaction unchanged, or is undone with its operation. It
// returns false
//   - after OR ROLLBACK or an interrupt, which end the transaction,
//   - after a failure that was found when the statement had already run,
//   - if the statement writes to sqlite_sequence, whose rows are not recorded,
//   - if rows were recorded or a deferred foreign key is open: OR FAIL keeps the rows before the failed one, and
//     without a statement journal the engine keeps them too, as with a wrong type in a STRICT table.
func (b *batch) untouched(at stmtRef, e *dbaas.Error, readOnly bool) bool {
	if !b.s.conn.InTransaction() {
		return false
	}
	if readOnly || b.atomic(at.op) {
		return true
	}
	return !b.plan.sequence && b.s.capture.Rows() == 0 && !b.s.conn.OpenForeignKeys() && (e.Code == dbaas.CodeInvalid || e.Code == dbaas.CodeConstraint)
}
