package scene

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/ledger"
	"rideshare/internal/wait"
)

// attempts is how often a request is sent at most.
const attempts = 5

// Request is a request that may be retried.
type Request struct {
	Method string // "": POST
	URL    string
	Body   any
	Header []string // names and values in turn
	// Repeatable says that a request whose outcome is unknown may be retried: a GET, or a write with an idempotency key.
	Repeatable bool
	Rest       time.Duration // before the last attempt
	Done       []int         // the statuses after which no attempt follows; none: 200, 201 and 202
}

// Attempts sends a request until its answer has a status of Done, up to five times. Its fate is then Applied.
func (r *Run) Attempts(ctx context.Context, q Request) (last api.Reply, fate ledger.Fate) {
	fate = ledger.Refused
	if len(q.Done) == 0 {
		q.Done = []int{http.StatusOK, http.StatusCreated, http.StatusAccepted}
	}
	for attempt := 1; attempt <= attempts && (q.Repeatable || fate == ledger.Refused); attempt++ {
		if attempt > 1 {
			pause := last.Pause()
			if attempt == attempts {
				pause = max(pause, q.Rest)
			}
			wait.For(ctx, pause)
		}
		last = r.API.Send(ctx, cmp.Or(q.Method, http.MethodPost), q.URL, q.Body, q.Header...)
		switch {
		case last.Err == nil && slices.Contains(q.Done, last.Status):
			return last, ledger.Applied
		case last.Fate(http.StatusOK) == ledger.Unknown: // A refusal of a later attempt says nothing about this one.
			fate = ledger.Unknown
		}
	}
	return last, fate
}

// Seq returns the position of an answer, 0 if it has none.
func Seq(r api.Reply) uint64 {
	seq, _ := strconv.ParseUint(r.Header.Get("X-Seq"), 10, 64) // An answer without a position has none.
	return seq
}
