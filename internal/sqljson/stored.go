package sqljson

import "rideshare/internal/dbaas"

// AppendStored is AppendResult for the result of a write. Its rows are in memory, so it has no limit and no error.
func (r Renderer) AppendStored(b []byte, result *dbaas.StatementResult) []byte {
	r.Limit = 0
	b, _ = r.AppendResult(b, NewColumns(result.Columns), &stored{result: result}, len(result.Rows) > 0) // stored has no errors.
	return b
}

// stored is the Rows of a StatementResult.
type stored struct {
	result *dbaas.StatementResult
	at     int
}

// Type implements Rows.
func (s *stored) Type(i int, _ bool) string {
	if i < len(s.result.Types) {
		return s.result.Types[i]
	}
	return ""
}

// Value implements Rows.
func (s *stored) Value(i, _ int) (dbaas.Value, bool) { return s.result.Rows[s.at][i], true }

// Next implements Rows.
func (s *stored) Next(int) (bool, error) {
	s.at++
	return s.at < len(s.result.Rows), nil
}
