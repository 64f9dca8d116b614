package sqlite

import (
	"math"
	"slices"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqljson"

	lib "modernc.org/sqlite/lib"
)

// Run is RunPart for a text with a single statement.
func (s *Stmt) Run(in *dbaas.Statement, limit int) (dbaas.StatementResult, error) {
	return s.RunPart(&Input{Statement: in}, limit)
}

// RunPart runs a prepared client statement, which is a part of in, with in's values. It returns the statement's result,
// including returned rows. Errors are *dbaas.Error. After CodeInvalid, CodeConstraint or CodeTooLarge only this
// statement failed, and it changed nothing. After any other code InTransaction is false if the engine rolled the
// transaction back. Exception: if returned rows are the reason (more than limit bytes, too many rows, an infinity), the
// caller must undo the statement's effects.
func (s *Stmt) RunPart(in *Input, limit int) (dbaas.StatementResult, error) {
	defer s.reset()
	var out dbaas.StatementResult
	args, err := in.take(s)
	if err == nil {
		err = s.bind(args)
	}
	if err != nil {
		return out, err
	}
	size := 0
	for first := true; ; first = false {
		more, err := s.step()
		if err != nil {
			return dbaas.StatementResult{}, err
		}
		if first {
			s.refresh()
		}
		if first && len(s.results) > 0 {
			out.Columns, out.Types = slices.Clone(s.named(in.QualifyColumns)), slices.Clone(s.declared)
		}
		if !more {
			break
		}
		if max := s.c.limits.Rows; max > 0 && len(out.Rows) == max {
			return dbaas.StatementResult{}, errTooManyRows(max)
		}
		row, n, err := s.row(size, limit)
		if err != nil {
			return dbaas.StatementResult{}, err
		}
		size = n
		out.Rows = append(out.Rows, row)
	}
	if s.seen.rows && !s.readOnly && !s.seen.schema {
		out.RowsAffected = lib.Xsqlite3_changes64(s.c.tls, s.c.db)
		out.LastInsertID = lib.Xsqlite3_last_insert_rowid(s.c.tls, s.c.db)
	}
	return out, nil
}

// row fetches the current row of a result that has size bytes so far and may have limit bytes. It returns the new size.
func (s *Stmt) row(size, limit int) (dbaas.Row, int, error) {
	row := make(dbaas.Row, len(s.results))
	for i := range row {
		n := valueBytes + s.size(i, s.kind(i))
		if size += n; size > limit {
			return nil, size, sqljson.TooLarge(limit)
		}
		if err := s.c.meter.hold(n); err != nil {
			return nil, size, err
		}
		if row[i] = s.value(i); math.IsInf(row[i].Float, 0) {
			return nil, size, sqljson.Infinite(s.results[i])
		}
	}
	return row, size, nil
}

// valueBytes is the size counted for a value in addition to its text or blob.
const valueBytes = 16
