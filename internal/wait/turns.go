package wait

import (
	"context"
	"time"
)

const (
	// leastTurn is the shortest turn, because timers are not more precise.
	leastTurn = time.Millisecond
	// mostRest bounds a rest, so that work that mostly waits, such as for a slow reader, is not slowed down further.
	mostRest = 8 * time.Millisecond
)

// Turns throttles background work to half of one core, on cores that other work needs: it rests as long as it works.
// It belongs to one goroutine.
type Turns struct{ began time.Time }

// NewTurns begins the first turn.
func NewTurns() *Turns { return &Turns{began: time.Now()} }

// Rest is called between parts of the work. It waits for as long as the turn took, 8 ms at most, and begins the next
// turn. A turn of less than a millisecond continues instead. Rest reports whether ctx is still valid at the end.
func (t *Turns) Rest(ctx context.Context) bool {
	took := time.Since(t.began)
	if took < leastTurn {
		return ctx.Err() == nil
	}
	on := For(ctx, min(took, mostRest))
	t.began = time.Now()
	return on
}
