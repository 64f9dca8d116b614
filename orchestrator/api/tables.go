package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"rideshare/internal/dbaas"
)

// tablesEvery is how long it counts whether the application's tables were there.
const tablesEvery = time.Second

// tablesRead fails where a table or column that users and rides need is not there. It costs a row of each table at most.
const tablesRead = `SELECT EXISTS(SELECT username, password FROM users), EXISTS(SELECT rideId, created_by, timestamp, source, destination, seats FROM rides),
 EXISTS(SELECT rideId, user FROM riders), EXISTS(SELECT service_name, count FROM apicount)`

// tables knows whether the application's tables are there.
type tables struct {
	mu      sync.Mutex // guards the fields below, and lets one read run at a time
	at      time.Time  // when missing was found out
	missing string
}

// check returns what is missing of the application's tables, "" if nothing is. A slave that does not answer in time says
// nothing about them. The read is none of a client's, and so does not count for scaling.
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
	_, err := read(ctx, dbaas.Read{Deadline: deadline, Format: dbaas.FormatObjects, Statements: []dbaas.Statement{{SQL: tablesRead}}})
	t.at, t.missing = start, ""
	if e, ok := errors.AsType[*dbaas.Error](err); ok && e.Code == dbaas.CodeInvalid {
		t.missing = "the application's tables (" + e.Message + ")"
	}
	return t.missing
}
