package commitlog

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// statement runs one statement. An error ends the round; a failure of the
// statement alone is a result, and then it has left no trace.
func (b *batch) statement(at stmtRef) (dbaas.StatementResult, error) {
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
	if err := b.s.capture.Next(); err != nil {
		return dbaas.StatementResult{}, unavailable(err)
	}
	var stmt *sqlite.Stmt
	err := b.timed(at, func() (err error) {
		stmt, err = c.Prepare(b.sql(at), sqlite.GuardWrite)
		return err
	})
	if err != nil {
		b.plan.writes[at.op] = true
		return b.classify(at, err, true)
	}
	b.plan.writes[at.op] = b.plan.writes[at.op] || !stmt.OnlyReads()
	began := time.Now()
	result, err := b.execute(at, stmt)
	if err != nil {
		return b.classify(at, err, stmt.ReadOnly())
	}
	b.plan.good += time.Since(began)
	b.plan.rows += rowsSize(&result)
	if !b.atomic(at.op) && c.OpenForeignKeys() { // of the deferred kind; alone, the statement would fail at its commit.
		return b.exclude(at, errForeignKey)
	}
	return result, nil
}

func (b *batch) sql(at stmtRef) string { return b.ops[at.op].Statements[at.statement].SQL }

// execute runs a prepared statement in the way that fits it.
func (b *batch) execute(at stmtRef, stmt *sqlite.Stmt) (dbaas.StatementResult, error) {
	if stmt.Schema() {
		return b.schema(at, stmt)
	}
	if name := sqlite.EmptiedTable(b.sql(at)); name != "" {
		began := time.Now()
		rows, done, err := b.s.capture.Empty(name)
		if err != nil || done {
			b.plan.opEnd = b.plan.opEnd.Add(time.Since(began)) // it cannot be interrupted, and must be possible at any size
			return dbaas.StatementResult{RowsAffected: rows}, err
		}
	}
	changes, version := b.s.conn.TotalChanges(), int64(0)
	var err error
	if b.plan.watch {
		if version, err = b.s.conn.SchemaVersion(); err != nil {
			return dbaas.StatementResult{}, err
		}
	}
	var result dbaas.StatementResult
	err = b.timed(at, func() (err error) {
		result, err = stmt.Run(&b.ops[at.op].Statements[at.statement], b.s.sizes.result)
		return err
	})
	if err != nil {
		return result, err
	}
	return result, b.recorded(stmt, changes, version)
}

// recorded makes sure that what a statement changed will be in the entry. It looks from another side than
// the capture: at the engine's own count of rows and, where a statement of the batch changed the schema unseen, at its version.
func (b *batch) recorded(stmt *sqlite.Stmt, changes, version int64) error {
	capture := b.s.capture
	if err := capture.Err(); err != nil {
		return err
	}
	if stmt.WritesSequence() { // these rows are not counted; all of the table is compared at the end.
		return nil
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

// schema runs a statement that changes the schema. It becomes a part of the entry of its own, as text. Alone, it is
// undone if replicas could not follow the new schema; in an operation that holds together the whole operation is undone.
func (b *batch) schema(at stmtRef, stmt *sqlite.Stmt) (dbaas.StatementResult, error) {
	c, capture, atomic := b.s.conn, b.s.capture, b.atomic(at.op)
	mark := capture.Mark()
	if !atomic {
		if err := c.Savepoint(); err != nil {
			return dbaas.StatementResult{}, err
		}
	}
	var result dbaas.StatementResult
	err := capture.Schema(b.sql(at), stmt.Rewritten(), func() error {
		return b.droppedWhole(stmt, func() error {
			return b.timed(at, func() (err error) {
				result, err = stmt.Run(&b.ops[at.op].Statements[at.statement], b.s.sizes.result)
				return err
			})
		})
	})
	if err == nil {
		err = c.CheckReplicable()
	}
	if atomic || !c.InTransaction() {
		return result, err
	}
	if err != nil {
		undone := c.RollbackTo()
		capture.Rewind(mark)
		return result, errors.Join(err, undone)
	}
	return result, c.Release()
}

// droppedWhole calls run, without foreign keys where that makes no difference but time: a table that is dropped
// and has foreign keys on it is deleted row by row otherwise.
func (b *batch) droppedWhole(stmt *sqlite.Stmt, run func() error) error {
	for _, name := range stmt.Dropped() {
		whole, err := b.s.conn.Droppable(name)
		if err != nil {
			return err
		}
		if whole {
			return b.s.conn.WithoutForeignKeys(run)
		}
	}
	return run()
}

// timed runs a part of a statement within the statement's and the operation's time. An operation alone whose
// statements stand by themselves keeps the time back that it takes to run the good ones again.
func (b *batch) timed(at stmtRef, fn func() error) error {
	end, limit := time.Now().Add(b.s.cfg.StatementLimit), b.plan.opEnd
	if b.alone() && !b.atomic(at.op) {
		limit = limit.Add(-b.plan.good)
	}
	if limit.Before(end) && !b.again(at) {
		end = limit
	}
	return b.s.conn.Until(end, fn)
}

// exclude lets the statement fail with err in the next round without being run.
func (b *batch) exclude(at stmtRef, err *dbaas.Error) (dbaas.StatementResult, error) {
	b.fails(at, err)
	return dbaas.StatementResult{}, errRetry
}

// fails notes that the statement fails, also if the batch runs again.
func (b *batch) fails(at stmtRef, err *dbaas.Error) {
	if b.plan.failed == nil {
		b.plan.failed = map[stmtRef]*dbaas.Error{}
	}
	b.plan.failed[at] = err
	b.plan.tried = max(b.plan.tried, at.statement)
}

// classify decides what an error of one statement means for the batch. readOnly
// means that the statement cannot have left a trace.
func (b *batch) classify(at stmtRef, err error, readOnly bool) (dbaas.StatementResult, error) {
	e, ok := errors.AsType[*dbaas.Error](err)
	if !ok {
		return dbaas.StatementResult{}, unavailable(err)
	}
	switch e.Code { //nolint:exhaustive // all other codes are the statement's own fault.
	case dbaas.CodeUnavailable:
		return dbaas.StatementResult{}, e
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
		if b.s.conn.Interrupted() { // by the caller's context: it is the batch that took too long.
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

// ownFull reports whether a statement that found no room is alone at fault: the disk has room, or a counter of AUTOINCREMENT has
// reached its end, which the engine reports in the same way.
func (b *batch) ownFull() (bool, error) {
	room, err := b.s.conn.RoomToGrow()
	if err != nil || room && freeBytes(b.s.cfg.Dir) > 2*b.s.sizes.entry {
		return err == nil, err
	}
	return b.s.conn.CounterUsedUp()
}

// untouched reports whether a statement that failed has left the transaction as it was, or is undone with its operation.
//
// Not so after OR ROLLBACK and after an interrupt, which end the transaction; after a failure that came when the statement had run;
// and where rows were recorded or a deferred key is open: OR FAIL keeps the rows before the one that failed, and without a statement
// journal the engine keeps them too, as with a wrong type in a STRICT table.
func (b *batch) untouched(at stmtRef, e *dbaas.Error, readOnly bool) bool {
	if !b.s.conn.InTransaction() {
		return false
	}
	if readOnly || b.atomic(at.op) {
		return true
	}
	return b.s.capture.Rows() == 0 && !b.s.conn.OpenForeignKeys() && (e.Code == dbaas.CodeInvalid || e.Code == dbaas.CodeConstraint)
}
