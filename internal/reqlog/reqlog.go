// Package reqlog decides the level of the log line about a request. Each part that a request passes, from the HTTP API
// to persdb, writes one line with the request's id, so that one grep shows the whole path.
package reqlog

import (
	"log/slog"
	"time"

	"rideshare/internal/dbaas"
)

// SlowAfter is the duration from which a request is logged at info: 1 s, a fifth of the default deadline and hundreds of
// times what most requests take.
const SlowAfter = time.Second

// Level returns info for a request that was slow or whose caller received no definite result, and debug for all others.
// Requests that were refused before anything was done are debug too: an outage causes thousands of them, and the first
// line of the outage reports it.
func Level(code dbaas.Code, took time.Duration) slog.Level {
	switch code { //nolint:exhaustive // all others are results.
	case dbaas.CodeUnknown, dbaas.CodeTimeout, dbaas.CodeExpired, dbaas.CodeInternal:
		return slog.LevelInfo
	}
	if took >= SlowAfter {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
