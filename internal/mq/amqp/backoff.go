package amqp

import (
	"context"
	"math/rand/v2"
	"time"

	"rideshare/internal/pause"
)

const (
	// backoffBase is the upper bound of the first wait; the bound doubles with each further failure.
	backoffBase = 100 * time.Millisecond
	// backoffCap is the longest wait, and so limits how long clients take to reconnect once the broker is back.
	backoffCap = 5 * time.Second
)

// backoff returns how long to wait after a number of consecutive failures. luck is in [0, 1). Full jitter keeps the
// many clients of one lost broker from reconnecting at the same moments.
func backoff(failures int, luck float64) time.Duration {
	bound := backoffCap
	if failures < 10 { // beyond, the shift is above the cap anyway
		bound = min(backoffCap, backoffBase<<max(0, failures-1))
	}
	return time.Duration(luck * float64(bound))
}

// backOff waits after a number of consecutive failures, or until ctx ends.
func backOff(ctx context.Context, failures int) {
	luck := rand.Float64() //nolint:gosec // jitter needs no secrecy
	pause.For(ctx, backoff(failures, luck))
}
