package amqp

import (
	"context"
	"math/rand/v2"
	"time"

	"rideshare/internal/pause"
)

const (
	// backoffBase bounds the first wait; each further bound is twice as long.
	backoffBase = 100 * time.Millisecond
	// backoffCap is the longest wait, and so bounds how long after the broker's
	// return everybody is back.
	backoffCap = 5 * time.Second
)

// backoff returns how long to wait after a number of failures in a row. luck is in [0, 1): full
// jitter keeps a fleet that lost the same broker from coming back in step.
func backoff(failures int, luck float64) time.Duration {
	bound := backoffCap
	if failures < 10 { // beyond, the shift is above the cap anyway
		bound = min(backoffCap, backoffBase<<max(0, failures-1))
	}
	return time.Duration(luck * float64(bound))
}

// backOff waits after a number of failures in a row, or until ctx ends.
func backOff(ctx context.Context, failures int) {
	luck := rand.Float64() //nolint:gosec // jitter needs no secrecy
	pause.For(ctx, backoff(failures, luck))
}
