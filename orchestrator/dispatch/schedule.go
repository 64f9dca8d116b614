package dispatch

import (
	"context"
	"time"
)

// This file decides which requests may be sent, and when. All functions except finish, hold, released
// and tick are called with the lane locked.

// mayOpen reports whether another window may be sent now.
func (l *lane[Q, R]) mayOpen() bool {
	if l.waiting.Len() == 0 || len(l.open)-l.held >= l.cfg.MaxMessages || l.room() < 1 {
		return false
	}
	if l.counted == 0 || l.cfg.Unbatched {
		return true
	}
	slaves, _ := l.slaves()
	return l.counted < l.windows(slaves) && l.waiting.Len() >= min(l.minBatch.each*l.counted, l.minBatch.most)
}

// askAndOpen starts as many windows as may be sent, or fails the waiting requests if no worker can serve any more.
func (l *lane[Q, R]) askAndOpen() {
	now := l.cfg.Now()
	if l.mayOpen() {
		if err := l.gate(now); err != nil {
			l.failWaiting(err)
			return
		}
	}
	l.openWindows(now)
}

// openWindows starts as many windows as may be sent; the caller has asked the gate. It takes the batch of each window while
// the lane is locked, so that no waiting request is counted for two windows.
func (l *lane[Q, R]) openWindows(now time.Time) {
	for l.mayOpen() {
		win := l.wins.Get().(*window[Q, R]) // the pool holds only windows.
		if l.take(win, now); len(win.members) == 0 {
			l.wins.Put(win)
			l.signalIdle()
			return
		}
		l.open = append(l.open, win)
		go win.run() // ends when no further message may be sent; drain waits for it.
	}
	l.arm()
}

// reserved is the part of a small lane limit for requests that wait: fewer could all be those of a user who sends little.
const reserved = 16

// room returns how many more requests may be handed over. A quarter of the lane's limit, or 16 of a small limit but at most
// half of it, is reserved for requests that wait. So a full lane always has some that can be refused to make room for other
// users.
func (l *lane[Q, R]) room() int {
	limit := l.limit.Limit()
	return limit - max(limit/4, min(limit/2, reserved)) - int(l.handed.Load())
}

// take moves waiting requests into win, within the bounds of a message. It ends requests whose deadline is over: their
// callers are about to time out anyway.
func (l *lane[Q, R]) take(win *window[Q, R], now time.Time) {
	win.members = win.members[:0]
	most, bytes := min(l.cfg.MaxBatch, l.room()), 0
	for place := l.waiting.Next(); place != nil && len(win.members) < most; place = l.waiting.Next() {
		w := place.Value
		if !w.deadline.After(now) {
			l.stats.timeouts.Add(1)
			l.end(w, l.unsent(&w.req, context.DeadlineExceeded))
			continue
		}
		if bytes += w.size; bytes > l.cfg.MaxBytes && len(win.members) > 0 {
			break
		}
		l.waiting.Take(place)
		l.stats.waited.Add(int64(now.Sub(w.since)))
		win.members = append(win.members, w)
	}
	if len(win.members) > 0 {
		l.stats.sent.Add(uint64(len(win.members)))
		l.handed.Add(int64(len(win.members)))
		win.since, win.counts = now, true
		l.counted++
	}
}

// finish removes win, whose message is complete, and fills win again if another message
// may be sent. more reports whether it did. If no worker can serve any more, it fails the waiting requests.
func (l *lane[Q, R]) finish(win *window[Q, R]) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uncount(win)
	l.unhold(win)
	// win frees its own place first, so that it may take that place again.
	l.remove(win)
	if l.mayOpen() {
		now := l.cfg.Now()
		if err := l.gate(now); err != nil {
			l.failWaiting(err)
		} else if l.take(win, now); len(win.members) > 0 {
			l.open = append(l.open, win)
			l.openWindows(win.since)
			return true
		}
	}
	l.arm()
	l.signalIdle()
	l.wins.Put(win)
	return false
}

func (l *lane[Q, R]) remove(win *window[Q, R]) {
	for i, other := range l.open {
		if other == win {
			last := len(l.open) - 1
			l.open[i] = l.open[last]
			l.open[last] = nil
			l.open = l.open[:last]
			return
		}
	}
}

func (l *lane[Q, R]) uncount(win *window[Q, R]) {
	if win.counts {
		win.counts = false
		l.counted--
	}
}

// hold records whether a worker has announced that it holds win's message. A held message no longer counts against
// MaxMessages: it has left the queue, and the workers bound how many messages they hold.
func (l *lane[Q, R]) hold(win *window[Q, R], on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if win.isHeld == on {
		return
	}
	l.unhold(win)
	if on {
		win.isHeld = true
		l.held++
		l.uncount(win)
		l.askAndOpen()
	}
}

func (l *lane[Q, R]) unhold(win *window[Q, R]) {
	if win.isHeld {
		win.isHeld = false
		l.held--
	}
}

// released lets further messages be sent although win still waits for the rest of its
// answers: the worker has sent those that were ready and is working on the slow ones.
func (l *lane[Q, R]) released(win *window[Q, R]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if win.counts {
		l.uncount(win)
		l.askAndOpen()
	}
}

// arm schedules tick after staleAfter if any request waits.
func (l *lane[Q, R]) arm() {
	if l.armed || l.waiting.Len() == 0 {
		return
	}
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(l.staleAfter, l.tick)
		return
	}
	l.timer.Reset(l.staleAfter)
}

// tick stops counting windows that are stale, so that one slow message does not block the
// lane. If no worker can serve any more, it fails the waiting requests.
func (l *lane[Q, R]) tick() {
	now := l.cfg.Now()
	err := l.gate(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	if err != nil {
		l.failWaiting(err)
		return
	}
	stale := len(l.open) - l.held - l.counted
	after := time.Duration(1+min(stale, l.patience)) * l.staleAfter
	for _, win := range l.open {
		if now.Sub(win.since) >= after {
			l.uncount(win)
		}
	}
	l.openWindows(now)
}
