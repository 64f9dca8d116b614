package dispatch

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/frame"
)

// window is one message in flight. All but since and counts belongs to its
// goroutine, or to the goroutine of the reply that Call hands over: those two
// never run at once.
type window[Q, R any] struct {
	lane    *lane[Q, R]
	members []*waiter[Q, R] // nil where a member has its answer
	left    int             // members without one
	reqs    []Q
	replies int
	last    bool
	deaths  deaths

	since  time.Time // guarded by the lane's mutex
	counts bool      // guarded by the lane's mutex
	isHeld bool      // guarded by the lane's mutex
}

var errLost = errors.New("no answer came")

// run sends its members, and then what has gathered meanwhile, until nothing
// may leave.
func (win *window[Q, R]) run() {
	for {
		win.send()
		if !win.lane.finish(win) {
			return
		}
	}
}

// send sends the members as one message and gives each an end. A message that may
// have been lost on its way, or with its worker, or whose answer may have, is sent once more: reads
// may run twice, and a write that did run is found by its id and answered as
// it was the first time, so that the caller gets an answer in place of a doubt.
func (win *window[Q, R]) send() {
	win.left = len(win.members)
	win.deaths = deaths{}
	err := win.call()
	for lost := false; win.left > 0 && err != nil && !notTaken(err) && win.pause(err); {
		if errors.Is(err, errHolderGone) {
			if !win.outlives() {
				break
			}
		} else if lost {
			break
		} else {
			lost = true
		}
		win.lane.stats.resent.Add(1)
		win.lane.hold(win, false)
		err = win.call()
	}
	win.settle(err)
}

// call publishes the members that still wait and takes their answers. After an
// error that is not notTaken they count as handed over.
func (win *window[Q, R]) call() error {
	l := win.lane
	win.compact()
	win.deaths.forget()
	if win.left == 0 {
		return nil
	}
	body, deadline, err := win.encode()
	if err != nil {
		return err
	}
	ctx, cancel := l.life(deadline)
	defer cancel()
	l.stats.messages.Add(1)
	if l.cfg.ObserveMessage != nil {
		l.cfg.ObserveMessage(l.name, win.left)
	}
	err = l.cfg.Caller.Call(ctx, l.queue, body, func(body []byte) bool {
		if held := l.holder(body); held != nil {
			if win.deaths.note(held, l.cfg.Now()) {
				l.hold(win, true)
				go l.watch(ctx, cancel, held.Worker) // ends with ctx
			}
			return false
		}
		return win.onReply(body)
	})
	if err != nil && notTaken(err) {
		return err
	}
	if errors.Is(err, context.Canceled) && !l.stops() {
		err = errHolderGone // nobody else ends a message before its time
	}
	for _, w := range win.members {
		if w != nil {
			w.sent = true
		}
	}
	return err
}

func (win *window[Q, R]) encode() (body []byte, deadline time.Time, err error) {
	win.reqs = win.reqs[:0]
	for i, w := range win.members {
		win.reqs = append(win.reqs, w.req)
		if w.sent && win.lane.again != nil {
			win.lane.again(&win.reqs[i])
		}
		if w.deadline.After(deadline) {
			deadline = w.deadline
		}
	}
	body, err = win.lane.encode(win.reqs, win.deaths.again)
	clear(win.reqs)
	return body, deadline, err
}

// compact drops the members that have their answers or whose callers have left,
// so that places in the message are places in members.
func (win *window[Q, R]) compact() {
	kept := win.members[:0]
	for _, w := range win.members {
		switch {
		case w == nil:
		case w.abandoned():
			win.lane.free(w)
		default:
			kept = append(kept, w)
		}
	}
	clear(win.members[len(kept):])
	win.members, win.left, win.replies, win.last = kept, len(kept), 0, false
}

// onReply hands out the answers of one reply as they come and reports whether
// there is nothing left to wait for.
func (win *window[Q, R]) onReply(body []byte) bool {
	late := win.replies > 0
	win.replies++
	last, err := win.lane.decode(body, func(i int, r R) {
		if i >= len(win.members) || win.members[i] == nil {
			return // answered twice, or not one of ours.
		}
		w := win.members[i]
		win.members[i] = nil
		win.left--
		w.late = late
		if w.sent && win.lane.doubt != nil {
			win.lane.doubt(&r)
		}
		if !w.answer(r, nil) {
			win.lane.free(w)
		}
	})
	if err != nil {
		win.lane.stats.malformed.Add(1)
		return true
	}
	if win.last = last; last || win.left == 0 {
		return true
	}
	win.lane.released(win)
	return false
}

// pause waits before a second try. It reports false when there should be none:
// the deadline is over, or the dispatcher is closing.
func (win *window[Q, R]) pause(err error) bool {
	l := win.lane
	if l.cfg.ResendPause < 0 || final(err) {
		return false
	}
	timer := time.NewTimer(l.cfg.ResendPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.stopping:
		return false
	}
}

// final reports whether err leaves nothing to try: time is over, or the fault is
// in the message itself.
func final(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, frame.ErrTooLarge)
}

// settle gives every member that is left its error. err is nil when the worker
// has sent its last reply and left some out.
func (win *window[Q, R]) settle(err error) {
	l := win.lane
	if err == nil {
		err = errLost
	}
	var none R
	for i, w := range win.members {
		if w == nil {
			continue
		}
		win.members[i] = nil
		if !w.answer(none, win.failure(w, err)) {
			l.free(w)
		}
	}
}

func (win *window[Q, R]) failure(w *waiter[Q, R], err error) error {
	switch {
	case errors.Is(err, frame.ErrTooLarge):
		return dbaas.WrapError(dbaas.CodeTooLarge, "the request is too large", err)
	case w.sent:
		return win.lane.lost(&w.req, err)
	default:
		return win.lane.unsent(&w.req, err)
	}
}
