package slave

import (
	"context"
	"sync/atomic"
	"time"
)

// turnTime is how long a slow read works before it lets another one work.
const turnTime = 5 * time.Millisecond

// turn lets slow reads work by turns, on half of the cores. All at once they would leave nothing of the
// machine to those that are fast: what is runnable shares the cores evenly, and a point read that waits for
// 16 others at each of its steps takes a second. All but slow belongs to the read's goroutine.
type turn struct {
	turns chan struct{}
	slow  atomic.Bool // the read is to take turns from now on
	since time.Time   // of the present turn; zero while it has none
}

// pace is called now and then while the read runs. It waits for a turn, or for ctx's end.
func (t *turn) pace(ctx context.Context) {
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

// end gives the turn back, if the read has one.
func (t *turn) end() {
	if !t.since.IsZero() {
		t.since = time.Time{}
		<-t.turns
	}
}
