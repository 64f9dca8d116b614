package slave

import (
	"context"
	"sync/atomic"
	"time"
)

// turnTime is how long a slow read works before it lets another slow read work.
const turnTime = 5 * time.Millisecond

// turn makes slow reads take turns on half of the cores. If all ran at the same time, they would starve the fast reads:
// all runnable goroutines share the cores evenly, and a point read that waits for 16 others at each of its steps takes
// a second. All fields but slow belong to the read's goroutine.
type turn struct {
	turns chan struct{}
	slow  atomic.Bool // from now on the read takes turns
	since time.Time   // start of the current turn; zero while the read has none
	calls int         // of pace since the read began
}

// pace is called periodically while the read runs. It waits for a turn, or for the end of ctx.
func (t *turn) pace(ctx context.Context) {
	t.calls++
	if !t.slow.Load() || !t.since.IsZero() && time.Since(t.since) < turnTime {
		return
	}
	t.end()
	select {
	case t.turns <- struct{}{}:
		t.since = time.Now()
	case <-ctx.Done():
	}
}

// end releases the turn, if the read has one.
func (t *turn) end() {
	if !t.since.IsZero() {
		t.since = time.Time{}
		<-t.turns
	}
}
