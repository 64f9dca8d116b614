package pause

import (
	"context"
	"time"
)

const (
	// leastTurn is the shortest turn: a timer is no finer.
	leastTurn = time.Millisecond
	// mostRest bounds a rest, so that work that itself waits for others, such as a slow reader, is not made slower.
	mostRest = 8 * time.Millisecond
)

// Turns is for long work that may take longer, on cores that others need: it takes every second turn. It
// belongs to one goroutine.
type Turns struct{ began time.Time }

// NewTurns begins the first turn.
func NewTurns() *Turns { return &Turns{began: time.Now()} }

// Rest is called between parts of the work. It waits for as long as the turn took, 8 ms at most, and begins the next one; a turn of
// less than a millisecond goes on. It reports whether ctx has not ended by then.
func (t *Turns) Rest(ctx context.Context) bool {
	took := time.Since(t.began)
	if took < leastTurn {
		return ctx.Err() == nil
	}
	on := For(ctx, min(took, mostRest))
	t.began = time.Now()
	return on
}
