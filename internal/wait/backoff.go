package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff waits longer after each failure: First, then twice as long each time, up to Cap. Jitter is the part of each
// wait that is random, from 0 to 1; it keeps many clients of one lost server from returning at the same moment. A
// Backoff belongs to one goroutine.
type Backoff struct {
	First, Cap time.Duration
	Jitter     float64

	bound time.Duration // the longest that the last wait could be; zero before the first
}

// Next returns the next wait.
func (b *Backoff) Next() time.Duration {
	b.bound = min(max(b.First, 2*b.bound), b.Cap)
	luck := rand.Float64() //nolint:gosec // jitter is no secret.
	return time.Duration(float64(b.bound) * (1 - b.Jitter*luck))
}

// Wait waits for Next, or until ctx ends. It reports whether ctx is still valid at the end.
func (b *Backoff) Wait(ctx context.Context) bool { return For(ctx, b.Next()) }

// Reset begins again with First.
func (b *Backoff) Reset() { b.bound = 0 }
