package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/frame"
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

// deaths is what a window knows of the workers that had its message.
type deaths struct {
	again   bool             // one has ended
	holders []dbaas.WorkerID // of the present message
	// running is the read that the present holder runs, alone; since is when it said so.
	running *int
	holder  dbaas.WorkerID
	since   time.Time
}

// note takes note of who holds the message and reports whether that is news.
func (d *deaths) note(held *frame.ReadHeld, now time.Time) bool {
	d.running, d.holder, d.since = held.Running, held.Worker, now
	if slices.Contains(d.holders, held.Worker) {
		return false
	}
	d.holders = append(d.holders, held.Worker)
	return true
}

// forget forgets who had the message: it is going to be another one.
func (d *deaths) forget() { *d = deaths{again: d.again, holders: d.holders[:0]} }

// outlives decides what happens after the worker that held the message has ended. The first time, all is sent again,
// to be run read by read. Then it is known what ran at the end: that read ends here, since it may be what
// the workers die of, and the others are sent again. It reports whether any are to be sent.
func (win *window[Q, R]) outlives() bool {
	d, l := &win.deaths, win.lane
	i := d.running
	blamed := i != nil && *i < len(win.members) && win.members[*i] != nil && l.cfg.Availability.Gone(d.holder, d.since)
	if blamed {
		var none R
		w := win.members[*i]
		win.members[*i] = nil
		win.left--
		if !w.answer(none, l.lost(&w.req, errHolderGone)) {
			l.free(w)
		}
	}
	first := !d.again
	d.again = true
	return (first || blamed) && win.left > 0
}
