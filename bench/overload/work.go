package overload

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"

	"rideshare/bench/api"
	"rideshare/bench/ledger"
	"rideshare/internal/httpapi"
)

// The works. They are slow enough that the system is the bottleneck, not the generator.
const (
	workRead  = "read"  // an aggregate over all rows of a small table, no two with the same parameter: about 1 ms
	workWrite = "write" // adds rowsPerWrite rows after the same aggregate
)

// Works returns the names of the works.
func Works() []string { return []string{workRead, workWrite} }

const (
	// readRows is how many rows an aggregate reads by default.
	readRows = 10_000
	// rowsPerWrite is how many rows a write adds.
	rowsPerWrite = 20
	// valueBound is above every value of the table of the aggregates.
	valueBound = 1000
)

// counter numbers the writes.
type counter struct{ atomic.Int64 }

func tables() []any {
	return []any{
		"CREATE TABLE IF NOT EXISTS scene_rows(id INTEGER PRIMARY KEY, v INTEGER NOT NULL)",
		"CREATE TABLE IF NOT EXISTS scene_writes(id INTEGER PRIMARY KEY, run TEXT NOT NULL, n INTEGER NOT NULL, row INTEGER NOT NULL)",
		"CREATE INDEX IF NOT EXISTS scene_writes_by_n ON scene_writes(run, n)",
		"DELETE FROM scene_rows",
	}
}

// fillRows fills the table of the aggregates.
func fillRows(n int) []any {
	return []any{[]any{
		"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < ?) INSERT INTO scene_rows(id, v) SELECT i, i*7919%? FROM c", n, valueBound,
	}}
}

// insert is the statement of a write. Without the aggregate the generator would be the bottleneck.
const insert = "INSERT INTO scene_writes(run, n, row) SELECT ?, ?, id FROM scene_rows WHERE id <= ? AND (SELECT sum(v) FROM scene_rows) > 0"

// asProblem asks for error answers as problem documents, which have the reason.
var asProblem = []string{"Accept", "application/json, application/problem+json"}

// send sends one request of a work as a user.
func (s *stage) send(ctx context.Context, work, user string) api.Reply {
	header := asProblem
	if user != "" {
		header = append([]string{httpapi.HeaderUser, user}, asProblem...)
	}
	if work == workRead {
		factor := rand.Int64N(math.MaxInt64 / (valueBound * int64(s.cfg.Rows))) //nolint:gosec // no secret. The sum must not overflow.
		statement := []any{[]any{"SELECT sum(v*?) FROM scene_rows", factor}}
		return s.client.Send(ctx, http.MethodPost, s.url+"/db/query", statement, header...)
	}
	n := s.sent.Add(1)
	s.writes.Note(n, ledger.Unknown)
	r := s.client.Send(ctx, http.MethodPost, s.url+"/db/execute", []any{[]any{insert, s.run, n, rowsPerWrite}}, header...)
	if !wrong(r) {
		s.writes.Note(n, ledger.FateOf(r.Status, r.Err, http.StatusOK))
	}
	return r
}

// wrong reports whether an answer 200 has the error of a statement.
func wrong(r api.Reply) bool {
	return r.Status == http.StatusOK && strings.Contains(string(r.Body), `"error"`)
}
