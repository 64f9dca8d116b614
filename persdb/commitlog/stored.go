package commitlog

import (
	"slices"

	"rideshare/internal/dbaas"
)

const (
	// maxKeptRows is the largest size in bytes of rows that the log stores with one operation's result.
	maxKeptRows = 64 << 10
	// notKept is the message of a statement whose rows are left out. Its code is CodeOK.
	notKept = "done, its answer was not kept"
)

// kept returns the part of a result that the log stores: all of it, or, if its rows are large, everything but the rows.
func kept(r dbaas.OperationResult) dbaas.OperationResult {
	size := 0
	for i := range r.Statements {
		size += rowsSize(&r.Statements[i])
	}
	if size <= maxKeptRows {
		return r
	}
	r.Statements = slices.Clone(r.Statements)
	for i := range r.Statements {
		if s := &r.Statements[i]; len(s.Rows) > 0 {
			s.Message, s.Columns, s.Types, s.Rows = notKept, nil, nil, nil
		}
	}
	return r
}

// rowsSize returns the approximate size in bytes of the rows of a result.
func rowsSize(s *dbaas.StatementResult) int {
	size := 0
	for _, row := range s.Rows {
		for i := range row {
			size += 16 + len(row[i].Text) + len(row[i].Blob)
		}
	}
	return size
}

// resultSize returns the approximate memory of a result, in bytes.
func resultSize(s *dbaas.StatementResult) int {
	const perResult, perName = 192, 16 // without the texts
	size := perResult + rowsSize(s) + len(s.Message)
	for _, names := range [][]string{s.Columns, s.Types} {
		for _, name := range names {
			size += perName + len(name)
		}
	}
	return size
}

// needsRecord reports whether the log must record operation i, which ran. An operation that succeeded and only read can
// safely run again, so it needs no record, with two exceptions: the result of a queued operation (without a deadline)
// may be queried later, and an id that a client chose must always stand for the same statements and the same answer. A
// failed operation is recorded: a later delivery must not succeed.
func (b *batch) needsRecord(i int) bool {
	op, results := &b.ops[i], b.results[i].Statements
	failed := len(results) < len(op.Statements) || slices.ContainsFunc(results, func(s dbaas.StatementResult) bool { return s.Code != dbaas.CodeOK })
	return failed || b.plan.writes[i] || op.Deadline.IsZero() || !op.ID.Generated()
}
