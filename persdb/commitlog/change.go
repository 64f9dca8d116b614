package commitlog

import (
	"errors"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// schema runs a statement that changes the schema. It becomes a part of the entry
// of its own, as text, between the rows before it and after it. Rows of other
// tables that it changes itself, as the cascades of DROP TABLE, come after the text.
func (b *batch) schema(at point, stmt *sqlite.Stmt, atomic bool) (dbaas.StatementResult, error) {
	p, c := &b.plan, b.s.conn
	if atomic && !p.schema[at.op] {
		if p.schema == nil {
			p.schema = map[int]bool{}
		}
		p.schema[at.op] = true
		return dbaas.StatementResult{}, errAgain
	}
	if err := b.cut(stmt.Rewritten()...); err != nil {
		return dbaas.StatementResult{}, err
	}
	result, err := b.schemaAlone(at, stmt, atomic)
	if err != nil {
		p.session.Close()
		if again := b.record(); again != nil {
			return dbaas.StatementResult{}, unavailable(again)
		}
		return b.judge(at, err, false)
	}
	text := []byte(b.ops[at.op].Statements[at.statement].SQL)
	p.changes = append(p.changes, dbaas.Change{Kind: dbaas.ChangeSchema, Data: text})
	p.size += int64(len(text))
	if err := b.cut(); err != nil {
		return dbaas.StatementResult{}, err
	}
	if !atomic && c.OpenForeignKeys() {
		return b.takeOut(at, errForeignKey)
	}
	return result, nil
}

// schemaAlone runs the statement and undoes it if the new schema cannot be
// replicated. In an atomic operation the whole operation is undone instead.
func (b *batch) schemaAlone(at point, stmt *sqlite.Stmt, atomic bool) (dbaas.StatementResult, error) {
	c := b.s.conn
	if !atomic {
		if err := c.Savepoint(); err != nil {
			return dbaas.StatementResult{}, err
		}
	}
	result, err := b.timed(stmt, &b.ops[at.op].Statements[at.statement])
	if err == nil {
		err = c.CheckReplicable()
	}
	if atomic || !c.InTransaction() {
		return result, err
	}
	if err != nil {
		return result, errors.Join(err, c.RollbackTo())
	}
	return result, c.Release()
}
