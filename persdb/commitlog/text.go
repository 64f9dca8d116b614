package commitlog

import (
	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// text runs the statements of one text, in order. Its result is that of the last statement; it is empty if the text has
// no statement. Several statements take effect together or not at all. After an error, untouched means that the text
// has left no trace in the open transaction.
func (b *batch) text(at stmtRef) (result dbaas.StatementResult, untouched bool, err error) {
	op := &b.ops[at.op]
	p := part{at: at, in: &sqlite.Input{Statement: &op.Statements[at.statement], QualifyColumns: op.QualifyColumns}, undone: b.atomic(at.op)}
	if err = b.prepare(&p, p.in.Statement.SQL); err != nil {
		if err == sqlite.ErrNoStatement { //nolint:errorlint // it is returned as it is.
			err = p.in.Nothing()
		}
		b.plan.writes[at.op] = b.plan.writes[at.op] || err != nil
		return result, true, err
	}
	if p.Rest() == "" && (p.undone || !b.plan.undo) {
		result, err = b.execute(p)
		b.plan.sequence = p.WritesSequence() && !p.Schema() // a schema change that fails is undone as a whole
		return result, p.ReadOnly(), err
	}
	several := func() (err error) {
		result, err = b.several(p)
		return err
	}
	if p.undone {
		return result, true, several()
	}
	p.undone = true
	err = b.together(several)
	return result, true, err
}

// several runs p and the statements after it.
func (b *batch) several(p part) (result dbaas.StatementResult, err error) {
	for {
		if result, err = b.execute(p); err != nil || p.Rest() == "" {
			return result, err
		}
		if err = b.late(p.at); err != nil {
			return result, err
		}
		if err = b.prepare(&p, p.Rest()); err != nil {
			b.plan.writes[p.at.op] = true
			return result, err
		}
	}
}

// prepare prepares the first statement in text and stores it in p.
func (b *batch) prepare(p *part, text string) error {
	if err := b.s.capture.Next(); err != nil {
		return unavailable(err)
	}
	err := b.timed(p.at, func() (err error) {
		p.Stmt, err = b.s.conn.Prepare(text, b.s.guard)
		return err
	})
	if err == nil {
		b.plan.writes[p.at.op] = b.plan.writes[p.at.op] || !p.OnlyReads()
	}
	return err
}
