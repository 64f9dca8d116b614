package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"
)

// errHolderGone is the error of a message whose worker acknowledged it and died before the last answer.
var errHolderGone = errors.New("the worker that held the request is gone")

// watch cancels a message once the worker that holds it is gone: no answer can arrive any more,
// and the broker does not redeliver the message. watch returns when the message is over.
func (l *lane[Q, R]) watch(ctx context.Context, cancel context.CancelFunc, holder dbaas.WorkerID) {
	since := l.cfg.Now() // the holder has just sent a message, so it was alive
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

// deaths is what a window knows about the workers that held its message.
type deaths struct {
	again   bool             // a worker that held the message has died
	holders []dbaas.WorkerID // of the current message
	// running is the index of the one read that holder is running, or nil if holder has not named one. holder sent that
	// announcement at since.
	running *int
	holder  dbaas.WorkerID
	since   time.Time
}

// note records which worker holds the message and reports whether that worker is new.
func (d *deaths) note(held *wire.ReadHeld, now time.Time) bool {
	d.running, d.holder, d.since = held.Running, held.Worker, now
	if slices.Contains(d.holders, held.Worker) {
		return false
	}
	d.holders = append(d.holders, held.Worker)
	return true
}

// forget clears the holders, since the next message is a new one.
func (d *deaths) forget() { *d = deaths{again: d.again, holders: d.holders[:0]} }

// outlives decides what happens after the worker that held the message has died, and reports whether to resend
// anything. After the first death all unanswered reads are resent, to be run one at a time. From then on each worker
// names the read that it is about to run. After another death the named read fails, since it may be what kills the
// workers, and the others are resent. Without a named read nothing is resent.
func (win *window[Q, R]) outlives() bool {
	d, l := &win.deaths, win.lane
	i := d.running
	blamed := i != nil && *i < len(win.members) && win.members[*i] != nil && l.cfg.Availability.Gone(d.holder, d.since)
	if blamed {
		var none R
		w := win.members[*i]
		win.members[*i] = nil
		win.left--
		l.handed.Add(-1)
		if !w.answer(none, l.lost(&w.req, errHolderGone)) {
			l.free(w)
		}
	}
	first := !d.again
	d.again = true
	return (first || blamed) && win.left > 0
}
