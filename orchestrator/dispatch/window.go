package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/tracing"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
	"rideshare/orchestrator/admission"
)

// window is one message in flight. All fields but since, counts and isHeld belong to its
// goroutine, or to the goroutine in which Call passes on a reply: those two never run
// at the same time.
type window[Q, R any] struct {
	lane    *lane[Q, R]
	members []*waiter[Q, R] // nil once a member has its answer
	left    int             // members without an answer
	reqs    []Q
	replies int
	last    bool
	deaths  deaths

	since  time.Time // guarded by the lane's mutex
	counts bool      // guarded by the lane's mutex
	isHeld bool      // guarded by the lane's mutex
}

var errLost = errors.New("no answer came")

// run sends the members, and then the requests that gathered in the meantime, until no further message
// may be sent.
func (win *window[Q, R]) run() {
	for {
		win.send()
		if !win.lane.finish(win) {
			return
		}
	}
}

// send sends the members as one message and ends each of them with an answer or an error.
//
// If the message, its answer or its worker may be lost, send resends the message once; outlives decides on further
// resends. Reads may run twice. A write that did run is found by its id and gets its first answer again, so
// that its outcome does not stay unknown. The gate is not asked again: it would only make outcomes unknown.
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

// call publishes the members that still wait and receives their answers. The members count as handed
// over unless call's error is one of notTaken's.
func (win *window[Q, R]) call() (err error) {
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
	traced, span := win.trace(ctx)
	defer func() { span.End(err) }()
	l.stats.messages.Add(1)
	if l.cfg.ObserveMessage != nil {
		l.cfg.ObserveMessage(l.name, win.left)
	}
	err = l.cfg.Caller.Call(traced, l.queue, body, func(body []byte, repeated bool) bool {
		if held := l.holder(body); held != nil {
			if win.deaths.note(held, l.cfg.Now()) {
				l.hold(win, true)
				go l.watch(ctx, cancel, held.Worker) // ends with ctx
			}
			return false
		}
		return win.onReply(body, repeated)
	})
	if err != nil && notTaken(err) {
		return err
	}
	if errors.Is(err, context.Canceled) && !wait.Closed(l.stopping) {
		err = errHolderGone // only watch cancels a message before its deadline
	}
	for _, w := range win.members {
		if w != nil {
			w.sent = true
		}
	}
	return err
}

// trace starts the span of the message, and ends the members' spans of their wait. Each of the two links the other: they
// may be in different traces. The context has the headers of the message.
func (win *window[Q, R]) trace(ctx context.Context) (context.Context, tracing.Span) {
	if !tracing.On() {
		return ctx, tracing.Span{}
	}
	requests := make([]tracing.Link, len(win.members))
	for i, w := range win.members {
		requests[i] = w.request
	}
	ctx, span := tracing.Batch(ctx, tracing.Orchestrator, "message", requests, requests)
	if !span.Recorded() {
		return ctx, span
	}
	span.Text("rideshare.lane", win.lane.name)
	for _, w := range win.members {
		w.inLane.LinkTo(span.Link())
		w.inLane.End(nil)
	}
	return mq.WithHeaders(ctx, span.Headers(requests)), span
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

// compact removes the members that have their answers or whose callers have left,
// so that an index in the message is an index in members.
func (win *window[Q, R]) compact() {
	kept := win.members[:0]
	for _, w := range win.members {
		switch {
		case w == nil:
		case w.abandoned():
			win.lane.handed.Add(-1)
			win.lane.free(w)
		default:
			kept = append(kept, w)
		}
	}
	clear(win.members[len(kept):])
	win.members, win.left, win.replies, win.last = kept, len(kept), 0, false
}

// onReply passes the answers in one reply to their callers, and reports whether no further reply is needed. If repeated
// is true, a copy of the message may still be executed.
func (win *window[Q, R]) onReply(body []byte, repeated bool) bool {
	late := win.replies > 0
	win.replies++
	before := win.left
	win.lane.stats.replies.Add(1)
	last, err := win.lane.decode(body, func(i int, r R) {
		if i >= len(win.members) || win.members[i] == nil {
			return // the member is answered already, or the index is not in this message.
		}
		w := win.members[i]
		win.members[i] = nil
		win.left--
		w.late = late
		if (w.sent || repeated) && win.lane.onResent != nil {
			win.lane.onResent(&r)
		}
		if !w.answer(r, nil) {
			win.lane.free(w)
		}
	})
	win.lane.handed.Add(int64(win.left - before))
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

// pause waits before a message is resent. It returns false if the message must not be resent: resending is
// off, err is final, or the dispatcher is closing.
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

// final reports whether a retry is pointless after err: the deadline is over, or the fault is
// in the message itself.
func final(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, wire.ErrTooLarge)
}

// settle gives every member without an answer its error. err is nil if the worker
// has sent its last reply and left some members out.
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
		l.handed.Add(-1)
		if !w.answer(none, win.failure(w, err)) {
			l.free(w)
		}
	}
}

func tooLarge(cause error) error {
	return dbaas.WrapError(dbaas.CodeTooLarge, "the request is too large", fmt.Errorf("%w: %w", admission.ErrNotSent, cause))
}

func (win *window[Q, R]) failure(w *waiter[Q, R], err error) error {
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return tooLarge(err)
	case w.sent:
		return win.lane.lost(&w.req, err)
	default:
		return win.lane.unsent(&w.req, err)
	}
}
