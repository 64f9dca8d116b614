package admission

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
)

const (
	// maxWaiting is how many operations may wait at the stages before the lane, all stages together.
	maxWaiting = 1000
	// early is how long before the deadline a wait ends, so that the operation is answered 503 and not 504.
	early = 50 * time.Millisecond
)

// waiting describes how an operation waits: how long it pauses between checks, and what ends the wait.
type waiting struct {
	user            string
	reason, message string
	// pause returns the pause before check number a (1, 2, ...), and whether there is such a check.
	pause func(a int) (time.Duration, bool)
	// look is the check. It reports whether the wait is over.
	look func(now time.Time) bool
}

// waitFor returns nil once a check has ended the wait. Otherwise it returns the refusal, or ctx's error.
func (g *Gate) waitFor(ctx context.Context, deadline time.Time, w waiting) error {
	refused := dbaas.Refuse(w.reason, 0, w.message)
	stage := stageOf(w.reason)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	place := &place{Value: end}
	if !g.beginWait(place, w.user, stage) {
		return refused
	}
	began := g.cfg.Now()
	defer func() {
		g.endWait(place, stage)
		g.cfg.Waited(stage, g.cfg.Now().Sub(began))
	}()
	for a := 1; ; a++ {
		pause, more := w.pause(a)
		if !more || g.cfg.Now().Add(pause).After(deadline.Add(-early)) {
			return refused
		}
		if pause > 0 && !wait.For(ctx, pause) {
			if errors.Is(context.Cause(ctx), errDisplaced) {
				return refused
			}
			return ctx.Err()
		}
		if w.look(g.cfg.Now()) {
			return nil
		}
	}
}

// place is an operation that waits before the lane. Its value is the function that ends the wait.
type place = Item[context.CancelCauseFunc]

// errDisplaced ends the wait of an operation that makes room for another user's operation.
var errDisplaced = errors.New("another user has fewer operations that wait")

// beginWait adds an operation to the waiting operations, and reports whether there was room. If there was no room, it
// refuses the newest operation of the user with the most waiting operations (by weight) instead, unless the new
// operation's user has as many.
func (g *Gate) beginWait(p *place, user, stage string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.places.Len() >= maxWaiting {
		last := g.places.Displaced(user)
		if last == nil {
			return false
		}
		g.places.Remove(last)
		last.Value(errDisplaced)
	}
	g.places.Push(p, user, 1)
	g.waiting[stage]++
	return true
}

func (g *Gate) endWait(p *place, stage string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting[stage]--
	if p.Queued() {
		g.places.Remove(p)
	}
}
