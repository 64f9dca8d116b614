package commitlog

import (
	"errors"
	"time"

	"rideshare/internal/dbaas"
)

// sizes bounds one entry.
type sizes struct {
	entry  int64 // bytes of changes
	rows   int   // bytes of rows that all operations return
	result int   // bytes of rows that one statement returns
}

// defaultSizes leave room for encoding below the 96 MiB of a frame.
func defaultSizes() sizes { return sizes{entry: 80 << 20, rows: 48 << 20, result: 32 << 20} }

// slowPerBatch is how many operations that take the whole SharedLimit a batch takes: what has not run by then is put off.
const slowPerBatch = 10

// errRetry means that the plan has changed and the batch must run from its start.
var errRetry = errors.New("run the batch again")

// stmtRef names one statement of a batch.
type stmtRef struct{ op, statement int }

// plan is what earlier rounds of a batch have learnt, and how far this round is.
type plan struct {
	failed map[stmtRef]*dbaas.Error // statements that fail without being run
	tried  int                      // statements of an operation alone before this place ran well in an earlier round, unless they failed
	full   int                      // operations from this place on are not run, if not 0
	writes map[int]bool             // operations that did, or may do, more than read
	strict bool                     // look at each operation for whether it lets the tables grow too large
	watch  bool                     // look for the statement that changes the schema unseen
	used   int64                    // pages of the file at the last look

	rows  int // bytes of rows returned
	ran   int
	opEnd time.Time     // when the running operation must have ended
	good  time.Duration // how long its statements took that succeeded
}

// runOnce runs the operations once, inside the open transaction, and leaves the
// results and changes. It returns errRetry after it has changed the plan.
func (b *batch) runOnce() error {
	p := &b.plan
	p.rows, p.ran = 0, 0
	p.writes = map[int]bool{}
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
		if p.ran > 0 && (p.full != 0 && i >= p.full || time.Since(b.began) > slowPerBatch*b.s.cfg.SharedLimit) {
			b.refuse(i, dbaas.CodeAgain, "the batch is full")
			continue
		}
		if err = b.operation(i); err != nil {
			return err
		}
		if b.s.capture.Size() > b.s.sizes.entry || p.rows > b.s.sizes.rows {
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

// schemaRecorded makes sure that no statement has changed the schema without a part of the entry that
// says so. If one has, the next round finds out which.
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

// overflow takes operation i out: for good, with err, if it alone is too much, else into a
// later batch, together with all after it.
func (b *batch) overflow(i int, err *dbaas.Error) error {
	if b.plan.ran > 0 {
		b.plan.full = i
	} else {
		b.refuse(i, err.Code, err.Message)
		b.plan.failed = nil
	}
	return errRetry
}

// alone reports whether no other operation waits in the batch.
func (b *batch) alone() bool { return len(b.run) == 1 }

// operation runs one operation and writes its result.
func (b *batch) operation(i int) error {
	op := &b.ops[i]
	if op.GiveUp != "" {
		b.results[i], b.plan.writes[i] = b.givenUp(op), true
		return nil
	}
	b.results[i] = dbaas.OperationResult{ID: op.ID, Statements: make([]dbaas.StatementResult, 0, len(op.Statements))}
	b.s.conn.ForgetLastInsertID()
	b.limit()
	if b.atomic(i) {
		return b.together(i)
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

// limit sets the time of the operation that begins: OperationLimit from the start of the batch for an
// operation alone, SharedLimit for one with neighbours.
func (b *batch) limit() {
	b.plan.good = 0
	if b.alone() {
		b.plan.opEnd = b.began.Add(b.s.cfg.OperationLimit)
	} else {
		b.plan.opEnd = time.Now().Add(b.s.cfg.SharedLimit)
	}
}

// again reports whether the statement of an operation alone ran well in an earlier round: it has its time again.
func (b *batch) again(at stmtRef) bool { return b.alone() && at.statement < b.plan.tried }

// late returns what becomes of a statement when its operation's time is over: nil while it is not. An operation with
// neighbours is put off, to be committed alone.
func (b *batch) late(at stmtRef) error {
	if b.again(at) || time.Now().Before(b.plan.opEnd) {
		return nil
	}
	if b.alone() {
		return errLate
	}
	b.refuse(at.op, dbaas.CodeSlow, "the operation takes longer than others may wait")
	b.plan.failed = nil // others may have failed because of what it did
	return errRetry
}

var errLate = &dbaas.Error{Code: dbaas.CodeTimeout, Message: "execute timeout"}

// atomic reports whether the statements of an operation hold together.
func (b *batch) atomic(i int) bool { return b.ops[i].Atomic && len(b.ops[i].Statements) > 1 }

// together runs an operation whose statements hold together: the first failure undoes them all.
func (b *batch) together(i int) error {
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
