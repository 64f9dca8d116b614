package dispatch

import "time"

// What may leave, and when. Everything here but finish, released and tick is
// called with the lane locked.

// mayOpen says whether a further window may leave now.
func (l *lane[Q, R]) mayOpen() bool {
	if l.waiting.n == 0 || len(l.open)-l.held >= l.cfg.MaxMessages {
		return false
	}
	if l.counted == 0 || l.cfg.Unbatched {
		return true
	}
	slaves, _ := l.slaves()
	return l.counted < l.windows(slaves) && l.waiting.n >= min(l.opens.each*l.counted, l.opens.most)
}

// openWindows starts as many windows as may leave. The batch of a window is taken here,
// while the lane is locked, so that what waits is never counted for two.
func (l *lane[Q, R]) openWindows(now time.Time) {
	for l.mayOpen() {
		win := l.wins.Get().(*window[Q, R]) // the pool holds nothing else.
		if l.take(win, now); len(win.members) == 0 {
			l.wins.Put(win)
			return
		}
		l.open = append(l.open, win)
		go win.run() // ends when nothing may leave any more; drain waits for it.
	}
	l.arm()
}

// take fills win with what waits, within the bounds of a message. Those whose
// deadline is over are left to their callers, who are leaving at this moment.
func (l *lane[Q, R]) take(win *window[Q, R], now time.Time) {
	win.members = win.members[:0]
	bytes := 0
	for w := l.waiting.first; w != nil && len(win.members) < l.cfg.MaxBatch; {
		next := w.next
		if w.deadline.After(now) {
			if bytes += w.size; bytes > l.cfg.MaxBytes && len(win.members) > 0 {
				break
			}
			l.waiting.remove(w)
			l.stats.waited.Add(int64(now.Sub(w.since)))
			win.members = append(win.members, w)
		}
		w = next
	}
	if len(win.members) > 0 {
		l.stats.sent.Add(uint64(len(win.members)))
		win.since, win.counts = now, true
		l.counted++
	}
}

// finish tells the lane that win's message is done with, and fills it again if
// something may leave.
func (l *lane[Q, R]) finish(win *window[Q, R]) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uncount(win)
	l.unhold(win)
	// win itself holds a place that it may use again.
	l.remove(win)
	if l.mayOpen() {
		if l.take(win, l.cfg.Now()); len(win.members) > 0 {
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

// hold notes whether a worker has win's message for itself: then it is in no queue any more, and how many such there are
// is bounded by the workers.
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
		l.openWindows(l.cfg.Now())
	}
}

func (l *lane[Q, R]) unhold(win *window[Q, R]) {
	if win.isHeld {
		win.isHeld = false
		l.held--
	}
}

// released lets others leave although win still waits for the rest of its
// answers: the worker has sent what was ready and is at the slow ones.
func (l *lane[Q, R]) released(win *window[Q, R]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if win.counts {
		l.uncount(win)
		l.openWindows(l.cfg.Now())
	}
}

// arm makes tick run soon while something waits.
func (l *lane[Q, R]) arm() {
	if l.armed || l.waiting.n == 0 {
		return
	}
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(l.staleAfter, l.tick)
		return
	}
	l.timer.Reset(l.staleAfter)
}

// tick stops counting windows that are too old, so that one slow message does
// not hold up the lane, and fails what waits when nobody can serve any more.
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
