package commitlog

import (
	"slices"

	"rideshare/internal/dbaas"
)

const (
	// maxKeptRows is how many bytes of rows the log keeps of one operation's result.
	maxKeptRows = 64 << 10
	// notKept is the message of a statement whose rows are left out. Its code is CodeOK.
	notKept = "done, its answer was not kept"
)

// kept returns what the log keeps of a result: all of it, or, if its rows are large, all but the rows.
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

// rowsSize returns about how many bytes the rows of a result take.
func rowsSize(s *dbaas.StatementResult) int {
	size := 0
	for _, row := range s.Rows {
		for i := range row {
			size += 16 + len(row[i].Text) + len(row[i].Blob)
		}
	}
	return size
}

// needsRecord reports whether the log must remember operation i, which ran. To run one whose statements all succeeded and only
// read a second time does no harm, so it needs no record, with two exceptions: somebody may ask for the result of a queued
// one (without a deadline) later, and a client's own id always stands for the same statements and the same answer.
// An operation that failed is remembered: a later delivery must not succeed.
func (b *batch) needsRecord(i int) bool {
	op, results := &b.ops[i], b.results[i].Statements
	failed := len(results) < len(op.Statements) || slices.ContainsFunc(results, func(s dbaas.StatementResult) bool { return s.Code != dbaas.CodeOK })
	return failed || b.plan.writes[i] || op.Deadline.IsZero() || !op.ID.Generated()
}
