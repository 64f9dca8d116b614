package sqljson

import "rideshare/internal/dbaas"

// AppendStored is AppendResult for the result of a write. The rows are in memory already, so no limit applies.
func (r Renderer) AppendStored(b []byte, result *dbaas.StatementResult) ([]byte, error) {
	r.Limit = 0
	return r.AppendResult(b, NewColumns(result.Columns), &stored{result: result}, len(result.Rows) > 0)
}

// stored implements Rows on a StatementResult.
type stored struct {
	result *dbaas.StatementResult
	at     int
}

// Declared implements Rows.
func (s *stored) Declared(i int) string {
	if i < len(s.result.Types) {
		return s.result.Types[i]
	}
	return ""
}

// Kind implements Rows.
func (s *stored) Kind(i int) dbaas.ValueKind { return s.result.Rows[s.at][i].Kind }

// Value implements Rows.
func (s *stored) Value(i, _ int) (dbaas.Value, bool) { return s.result.Rows[s.at][i], true }

// Next implements Rows.
func (s *stored) Next(int) (bool, error) {
	s.at++
	return s.at < len(s.result.Rows), nil
}
