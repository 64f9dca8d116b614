// Package pause waits for a while, as long as somebody still wants it. It is for what is
// tried again or done now and then; what waits for events has channels of its own.
package pause

import (
	"context"
	"time"
)

// For waits for d, not at all if that is not above zero, and reports whether ctx has not ended by then. It
// returns at once when ctx ends.
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
