package commitlog

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// sizes bounds one entry.
type sizes struct {
	entry  int64 // bytes of changes
	rows   int   // bytes of rows that all operations return
	result int   // bytes of rows that one statement returns
}

// defaultSizes leave room for encoding below the 96 MiB of a frame.
func defaultSizes() sizes { return sizes{entry: 80 << 20, rows: 48 << 20, result: 32 << 20} }

// errAgain says that the plan has changed and the batch must be run from its start.
var errAgain = errors.New("run the batch again")

// point is one statement of a batch.
type point struct{ op, statement int }

// plan is what earlier rounds of a batch have learnt, and what this one has made.
type plan struct {
	failed map[point]*dbaas.Error // statements that fail without being run
	schema map[int]bool           // atomic operations that change the schema
	full   int                    // operations from this place on are not run, if not 0

	session *sqlite.Session
	changes []dbaas.Change
	size    int64 // of changes
	rows    int   // bytes of rows returned
	ran     int
}

// attempt runs the operations once, inside the open transaction, and leaves the
// results and changes. It returns errAgain after it has taken something out.
func (b *batch) attempt() error {
	p := &b.plan
	p.changes, p.size, p.rows, p.ran = nil, 0, 0, 0
	if err := b.record(); err != nil {
		return unavailable(err)
	}
	defer func() { p.session.Close() }()
	for _, i := range b.run {
		if p.full != 0 && i >= p.full {
			b.refuse(i, dbaas.CodeUnavailable, "the batch is full, send the operation again")
			continue
		}
		if b.results[i].Code == dbaas.CodeTooLarge {
			continue
		}
		if err := b.operation(i); err != nil {
			return err
		}
		if p.size+p.session.Size() > b.s.sizes.entry || p.rows > b.s.sizes.rows {
			return b.overflow(i)
		}
		p.ran++
	}
	return b.flush()
}

// overflow takes operation i out: for good if it alone is too large, else into a
// later batch, together with all after it.
func (b *batch) overflow(i int) error {
	if b.plan.ran > 0 {
		b.plan.full = i
	} else {
		b.refuse(i, dbaas.CodeTooLarge, "the operation changes or returns too much at once")
	}
	return errAgain
}

// record starts a new part of the entry, without the tables in skip.
func (b *batch) record(skip ...string) error {
	session, err := b.s.conn.NewSession(skip...)
	if err == nil {
		b.plan.session = session
	}
	return err
}

// flush ends the present part of the entry.
func (b *batch) flush() error {
	p := &b.plan
	changeset, err := p.session.Changeset()
	if err != nil {
		return unavailable(err)
	}
	p.session.Close()
	if len(changeset) > 0 {
		p.changes = append(p.changes, dbaas.Change{Kind: dbaas.ChangeRows, Data: changeset})
		p.size += int64(len(changeset))
	}
	return nil
}

// cut is flush and record.
func (b *batch) cut(skip ...string) error {
	if err := b.flush(); err != nil {
		return err
	}
	return b.record(skip...)
}

// operation runs one operation and writes its result.
func (b *batch) operation(i int) error {
	op := &b.ops[i]
	b.results[i] = dbaas.OperationResult{ID: op.ID, Statements: make([]dbaas.StatementResult, 0, len(op.Statements))}
	b.s.conn.ForgetLastInsertID()
	if op.Atomic && len(op.Statements) > 1 {
		return b.atomic(i)
	}
	for k := range op.Statements {
		result, err := b.statement(point{i, k})
		if err != nil {
			return err
		}
		b.results[i].Statements = append(b.results[i].Statements, result)
	}
	return nil
}

// atomic runs an operation whose statements hold together.
func (b *batch) atomic(i int) error {
	c, p := b.s.conn, &b.plan
	if p.schema[i] { // its parts can only be dropped as a whole if they begin with it.
		if err := b.cut(); err != nil {
			return err
		}
	}
	mark, size := len(p.changes), p.size
	if err := c.Savepoint(); err != nil {
		return unavailable(err)
	}
	failed, err := b.together(i)
	if err != nil {
		return err
	}
	if !failed {
		return unavailableOrNil(c.Release())
	}
	if err := c.RollbackTo(); err != nil {
		return unavailable(err)
	}
	if !p.schema[i] {
		return nil
	}
	p.changes, p.size = p.changes[:mark], size
	p.session.Close()
	return b.record()
}

// together runs the statements of an atomic operation up to the first failure.
func (b *batch) together(i int) (failed bool, err error) {
	results := &b.results[i].Statements
	for k := range b.ops[i].Statements {
		result, err := b.statement(point{i, k})
		if err != nil {
			return false, err
		}
		*results = append(*results, result)
		if result.Code != dbaas.CodeOK {
			return true, nil
		}
	}
	if !b.s.conn.OpenForeignKeys() {
		return false, nil
	}
	(*results)[len(*results)-1] = failure(errForeignKey)
	return true, nil
}

var errForeignKey = &dbaas.Error{Code: dbaas.CodeConstraint, Message: "FOREIGN KEY constraint failed"}

func failure(err error) dbaas.StatementResult {
	message := "internal error"
	if e, ok := errors.AsType[*dbaas.Error](err); ok {
		message = e.Message
	}
	return dbaas.StatementResult{Code: dbaas.CodeOf(err), Message: message}
}

// statement runs one statement. An error ends the round; a failure of the
// statement alone is a result, and then it has left no trace.
func (b *batch) statement(at point) (dbaas.StatementResult, error) {
	if err := b.plan.failed[at]; err != nil {
		return failure(err), nil
	}
	c := b.s.conn
	in := &b.ops[at.op].Statements[at.statement]
	stmt, err := c.Prepare(in.SQL, sqlite.GuardWrite)
	if err != nil {
		return b.judge(at, err, true)
	}
	atomic := b.ops[at.op].Atomic && len(b.ops[at.op].Statements) > 1
	if stmt.Schema() {
		return b.schema(at, stmt, atomic)
	}
	result, err := b.timed(stmt, in)
	if err != nil {
		return b.judge(at, err, stmt.ReadOnly())
	}
	for _, row := range result.Rows {
		for i := range row {
			b.plan.rows += 16 + len(row[i].Text) + len(row[i].Blob)
		}
	}
	if !atomic && c.OpenForeignKeys() { // of the deferred kind; alone, the statement would fail at its commit.
		return b.takeOut(at, errForeignKey)
	}
	return result, nil
}

func (b *batch) timed(stmt *sqlite.Stmt, in *dbaas.Statement) (result dbaas.StatementResult, err error) {
	err = b.s.conn.Until(time.Now().Add(b.s.cfg.StatementLimit), func() error {
		result, err = stmt.Run(in, b.s.sizes.result)
		return err
	})
	return result, err
}

// takeOut lets the statement fail with err in the next round without being run.
func (b *batch) takeOut(at point, err *dbaas.Error) (dbaas.StatementResult, error) {
	if b.plan.failed == nil {
		b.plan.failed = map[point]*dbaas.Error{}
	}
	b.plan.failed[at] = err
	return dbaas.StatementResult{}, errAgain
}

// judge decides what an error of one statement means for the batch. readOnly
// says that the statement can have left no trace.
func (b *batch) judge(at point, err error, readOnly bool) (dbaas.StatementResult, error) {
	open := b.s.conn.InTransaction()
	e, ok := errors.AsType[*dbaas.Error](err)
	if !ok {
		return dbaas.StatementResult{}, unavailable(err)
	}
	switch e.Code { //nolint:exhaustive // all other codes are the fault of the whole batch.
	case dbaas.CodeInvalid, dbaas.CodeConstraint:
		if open {
			return failure(e), nil
		}
		return b.takeOut(at, e) // OR ROLLBACK, RAISE(ROLLBACK): it would undo its neighbours.
	case dbaas.CodeTooLarge:
		if open && readOnly {
			return failure(e), nil
		}
		return b.takeOut(at, e)
	case dbaas.CodeTimeout:
		if b.s.conn.Interrupted() { // by the caller's context: it is the batch that took too long.
			return dbaas.StatementResult{}, unavailable(context.DeadlineExceeded)
		}
		if open && readOnly {
			return failure(e), nil
		}
		return b.takeOut(at, e)
	default:
		return dbaas.StatementResult{}, unavailable(err)
	}
}
