// Package reqlog says how loud the line about one request is. Each part on a
// request's way, from the HTTP API to persdb, writes one with the request's id, so
// that one grep shows the whole way.
package reqlog

import (
	"log/slog"
	"time"

	"rideshare/internal/dbaas"
)

// SlowAfter is when a request is worth a line of its own: 1 s, a fifth of the
// default deadline and hundreds of times what most take.
const SlowAfter = time.Second

// Level returns info for a request that was slow or whose caller is left without
// its result, and debug for all others: also for those that were refused before anything
// was done, of which an outage makes thousands, and which the first line of the outage tells of.
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
