// Package pause waits for a while, unless a context ends first. It is for retries and periodic work; code that waits
// for events has its own channels.
package pause

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
