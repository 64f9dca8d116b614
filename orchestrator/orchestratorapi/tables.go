package orchestratorapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"rideshare/internal/dbaas"
)

// tablesEvery is how long a result of tables.check stays valid.
const tablesEvery = time.Second

// tables remembers whether the application's tables exist.
type tables struct {
	query string // Config.Present

	mu      sync.Mutex // guards the fields below; held during the read, so that only one runs at a time
	at      time.Time  // when missing was determined
	missing string
}

// check returns which of the application's tables is missing, or "" if none is. If no slave answers in time, the tables
// count as present. The read does not count for scaling, since no client sent it.
func (t *tables) check(ctx context.Context, now func() time.Time, read func(context.Context, dbaas.Read) (dbaas.ReadResult, error)) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	start := now()
	if since := start.Sub(t.at); !t.at.IsZero() && since >= 0 && since < tablesEvery {
		return t.missing
	}
	deadline, bounded := ctx.Deadline()
	if !bounded {
		deadline = start.Add(tablesEvery)
	}
	_, err := read(ctx, dbaas.Read{Deadline: deadline, Format: dbaas.FormatObjects, Cache: dbaas.CacheNone, Statements: []dbaas.Statement{{SQL: t.query}}})
	t.at, t.missing = start, ""
	if e, ok := errors.AsType[*dbaas.Error](err); ok && e.Code == dbaas.CodeInvalid {
		t.missing = "the application's tables (" + e.Message + ")"
	}
	return t.missing
}
