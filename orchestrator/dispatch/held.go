package dispatch

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
)

// errHolderGone is how a message ends whose worker had acknowledged it and died.
var errHolderGone = errors.New("the worker that held the request is gone")

// watch ends a message, by cancel, once the worker that holds it is gone: no answer can come
// any more, and the broker gives it to nobody else. It returns when the message is over.
func (l *lane[Q, R]) watch(ctx context.Context, cancel context.CancelFunc, holder dbaas.WorkerID) {
	since := l.cfg.Now() // it has just said that it lives
	ticker := time.NewTicker(l.cfg.HeldCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if l.cfg.Availability.Gone(holder, since) {
			cancel()
			return
		}
	}
}

// stops reports whether the dispatcher ends what is in flight.
func (l *lane[Q, R]) stops() bool {
	select {
	case <-l.stopping:
		return true
	default:
		return false
	}
}
