package commitlog

import (
	"errors"
	"time"

	"rideshare/internal/dbaas"
)

// sizes holds the limits of one entry.
type sizes struct {
	entry   int64 // bytes of changes
	results int   // bytes of results that all operations return
	result  int   // bytes of rows that one statement returns
}

// defaultSizes leaves room for encoding within the 96 MiB of a frame.
func defaultSizes() sizes { return sizes{entry: 80 << 20, results: 48 << 20, result: 32 << 20} }

// slowPerBatch bounds the time of a batch: after slowPerBatch times SharedLimit, operations that have not begun are
// deferred, and so is an operation whose failure would make the batch run again.
const slowPerBatch = 10

// errRetry means that the plan has changed and the batch must be run again from its start.
var errRetry = errors.New("run the batch again")

// stmtRef names one statement of a batch.
type stmtRef struct{ op, statement int }

// plan holds what earlier rounds of a batch have found, and the progress of this round.
type plan struct {
	failed map[stmtRef]*dbaas.Error // statements that must fail without being run
	tried  int                      // for an operation alone: statements before this index succeeded in an earlier round, unless listed in failed
	full   int                      // if not 0: operations from this index on are not run
	writes []bool                   // by operation: it wrote, or may have written
	strict bool                     // check the size of the tables after each operation
	undo   bool                     // a statement failed after it had changed rows: give each statement a savepoint
	watch  bool                     // find the statement that changed the schema without being recorded
	// sequence means that the last statement may have changed sqlite_sequence, which no count of rows shows.
	sequence bool
	used     int64 // pages of the file at the last check
	// unlinked makes a load run without foreign keys, which are checked at its end.
	unlinked bool

	returned int           // bytes of results
	ran      int           // operations run in this round
	opEnd    time.Time     // deadline of the running operation
	good     time.Duration // total time of the running operation's successful statements
}

// runOnce runs the operations once, inside the open transaction, and stores the results and changes in b. It returns
// errRetry after it has changed the plan.
func (b *batch) runOnce() error {
	p := &b.plan
	p.returned, p.ran = 0, 0
	p.writes = make([]bool, len(b.ops))
	if err := b.begin(); err != nil {
		return unavailable(err)
	}
	defer b.s.capture.End()
	version, err := b.s.conn.SchemaVersion()
	if err != nil {
		return unavailable(err)
	}
	for _, i := range b.run {
		if b.results[i].Code != dbaas.CodeOK { // refused in an earlier round
			continue
		}
		if p.ran > 0 && (p.full != 0 && i >= p.full || b.over()) {
			b.refuse(i, dbaas.CodeAgain, "the batch is full")
			continue
		}
		if err = b.operation(i); err != nil {
			return err
		}
		if b.s.capture.Size() > b.s.sizes.entry {
			return b.overflow(i, errTooMuch)
		}
		if err = b.checkGrowth(i); err != nil {
			return err
		}
		p.ran++
	}
	if err = b.checkSize(); err != nil {
		return err
	}
	if b.changes, err = b.s.capture.Take(); err != nil {
		return unavailable(err)
	}
	return b.schemaRecorded(version)
}

// schemaRecorded returns errRetry if the schema changed and the entry records no schema change. The next round then
// finds the statement (plan.watch).
func (b *batch) schemaRecorded(version int64) error {
	now, err := b.s.conn.SchemaVersion()
	if err != nil {
		return unavailable(err)
	}
	for i := range b.changes {
		if b.changes[i].Kind == dbaas.ChangeSchema {
			return nil
		}
	}
	if now == version {
		return nil
	}
	if b.plan.watch {
		return dbaas.Errorf(dbaas.CodeUnavailable, "the schema changed and no statement of the batch did it")
	}
	b.plan.watch = true
	return errRetry
}

var errTooMuch = &dbaas.Error{Code: dbaas.CodeTooLarge, Message: "the operation changes or returns too much at once"}

// overflow removes operation i from the batch. If the operation is too large even alone, it is refused with err.
// Otherwise it and all later operations are deferred to a later batch.
func (b *batch) overflow(i int, err *dbaas.Error) error {
	if b.plan.ran > 0 {
		b.plan.full = i
	} else {
		b.refuse(i, err.Code, err.Message)
		b.plan.failed = nil
	}
	return errRetry
}

// over reports whether the time of the batch has passed.
func (b *batch) over() bool { return time.Since(b.began) > slowPerBatch*b.s.cfg.SharedLimit }

// alone reports whether the batch runs only one operation.
func (b *batch) alone() bool { return len(b.run) == 1 }

// operation runs one operation and stores its result.
func (b *batch) operation(i int) error {
	op := &b.ops[i]
	if op.GiveUp != "" {
		b.results[i], b.plan.writes[i] = b.givenUp(op), true
		return nil
	}
	b.results[i] = dbaas.OperationResult{ID: op.ID, Statements: make([]dbaas.StatementResult, 0, len(op.Statements))}
	b.s.conn.ForgetLastInsertID()
	b.limit(op)
	if op.Load != dbaas.LoadNone {
		return b.load(i)
	}
	if b.atomic(i) {
		return b.runAtomic(i)
	}
	for k := range op.Statements {
		result, err := b.statement(stmtRef{i, k})
		if err != nil {
			return err
		}
		b.results[i].Statements = append(b.results[i].Statements, result)
	}
	return nil
}

// limit sets the deadline of op, which is about to run: OperationLimit after the start of the batch if op is alone in
// it, otherwise SharedLimit from now. A load ends LoadGrace before its own deadline.
func (b *batch) limit(op *dbaas.Operation) {
	b.plan.good = 0
	if op.Load != dbaas.LoadNone && !op.Deadline.IsZero() {
		b.plan.opEnd = op.Deadline.Add(-dbaas.LoadGrace)
	} else if b.alone() {
		b.plan.opEnd = b.began.Add(b.s.cfg.OperationLimit)
	} else {
		b.plan.opEnd = time.Now().Add(b.s.cfg.SharedLimit)
	}
}

// again reports whether a statement of an operation alone in its batch has succeeded in an earlier round. Such a
// statement gets its full time again.
func (b *batch) again(at stmtRef) bool { return b.alone() && at.statement < b.plan.tried }

// late returns nil until the operation's deadline. After it, late returns errLate if the operation is alone: the
// statement fails. Otherwise late refuses the operation with CodeSlow, so that the master commits it alone, and returns
// errRetry.
func (b *batch) late(at stmtRef) error {
	if b.again(at) || time.Now().Before(b.plan.opEnd) {
		return nil
	}
	if b.alone() {
		return errLate
	}
	return b.slow(at.op)
}

// slow refuses operation i with CodeSlow and returns errRetry.
func (b *batch) slow(i int) error {
	b.refuse(i, dbaas.CodeSlow, "the operation takes longer than others may wait")
	b.plan.failed = nil // other operations may have failed because of its changes
	return errRetry
}

var errLate = &dbaas.Error{Code: dbaas.CodeTimeout, Message: "execute timeout"}

// atomic reports whether the statements of an operation take effect together or not at all.
func (b *batch) atomic(i int) bool {
	return b.ops[i].Load != dbaas.LoadNone || b.ops[i].Atomic && len(b.ops[i].Statements) > 1
}

// runAtomic runs an atomic operation: the first failure undoes all its statements.
func (b *batch) runAtomic(i int) error {
	c, mark := b.s.conn, b.s.capture.Mark()
	if err := c.Savepoint(); err != nil {
		return unavailable(err)
	}
	failed, err := b.upToFailure(i)
	if err != nil {
		return err
	}
	if !failed {
		return unavailableOrNil(c.Release())
	}
	if err := c.RollbackTo(); err != nil {
		return unavailable(err)
	}
	b.s.capture.Rewind(mark)
	return nil
}

func (b *batch) upToFailure(i int) (failed bool, err error) {
	results := &b.results[i].Statements
	for k := range b.ops[i].Statements {
		result, err := b.statement(stmtRef{i, k})
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
