// Package wait has the ways in which goroutines wait: for a time (For), between failures (Backoff, Streak), for a wake-up
// (Token, Signal), for progress of a long call (UntilQuiet), and between turns of background work (Turns).
package wait

import (
	"context"
	"time"
)

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
