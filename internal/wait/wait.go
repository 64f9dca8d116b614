// Package wait has the ways in which goroutines wait: for a time (For), between failures (Backoff, Streak), for a wake-up
// (Token, Signal), for progress of a long call (UntilStalled), and between turns of background work (Turns). Often does something
// while a long call runs. Closed does not wait: it says whether the wait for a channel is over.
package wait

import (
	"context"
	"time"
)

// Often calls f after each interval until ctx ends, in a goroutine of its own. stop prevents the first call of f, so a short operation
// costs only a timer. Once f was called, only the end of ctx ends the loop.
func Often(ctx context.Context, interval time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(interval, func() {
		for ctx.Err() == nil {
			f()
			For(ctx, interval)
		}
	}).Stop
}

// Closed reports, without waiting, whether c is closed. Nothing is ever sent on c.
func Closed[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// For waits for d, or until ctx ends. If d is not positive it does not wait. It reports whether ctx is still valid at
// the end.
func For(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
