package sqlite

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// watched is the watchdog's view of the running statement of a connection. The statement is watched only while the
// engine works on it: from the begin to the end of its preparation, and from its first step to its reset.
type watched struct {
	onStuck  func(sql string)
	number   atomic.Uint64          // of this watch on the connection
	text     atomic.Pointer[string] // nil: no statement runs
	deadline atomic.Int64           // nanoseconds since 1970; 0: none
	limit    atomic.Int64           // nanoseconds from the begin to the deadline, leastAllowed at least
	ending   sync.Mutex             // held while text becomes nil, and while the watchdog interrupts the statement
}

// begin makes the statement visible to the watchdog. text must not change.
func (w *watched) begin(text *string, deadline time.Time) {
	if w.onStuck == nil || deadline.IsZero() {
		return
	}
	w.deadline.Store(deadline.UnixNano())
	w.limit.Store(int64(max(leastAllowed, time.Until(deadline))))
	w.number.Add(1)
	w.text.Store(text)
}

func (w *watched) end() {
	if w.onStuck != nil && w.text.Load() != nil {
		w.ending.Lock()
		w.text.Store(nil)
		w.ending.Unlock()
	}
}

// runs reports whether the statement of watch number n still runs.
func (w *watched) runs(n uint64) bool { return w.number.Load() == n && w.text.Load() != nil }

// interrupt makes the engine end the statement that is watch number n, if it still runs. The engine forgets that at the
// next first step on the connection. tls is the watchdog's own.
func (m *meter) interrupt(tls *libc.TLS, n uint64) {
	m.watched.ending.Lock()
	defer m.watched.ending.Unlock()
	if m.watched.runs(n) {
		lib.Xsqlite3_interrupt(tls, m.c.db)
	}
}

// watchEvery is the interval of the watchdog's checks. It first sees a statement at most that late.
const watchEvery = 100 * time.Millisecond

// stuckAfter: a statement is stuck if it still runs this long after twice its allowed time, as the watchdog counts time.
const stuckAfter = time.Second

// leastAllowed is the least time that counts as a statement's allowed time. The deadline may be very near, when many statements share a
// batch's time. A disk that does not answer for a second must not end the process then.
const leastAllowed = 2 * time.Second

// watchStart starts the watchdog's goroutine, one for the process, with the first connection that needs it.
var watchStart sync.Once

// sight is what the watchdog knows of a statement that it sees.
type sight struct {
	number   uint64        // of the watch
	limit    time.Duration // the statement's allowed time
	over     time.Duration // how long the watchdog has seen it run after its deadline
	reported bool
}

// stuck is called at each check. elapsed is the time since the previous check. A late check counts no more time than a
// punctual one: the process had no processor, or was stopped, and so was the statement.
func (s *sight) stuck(now, deadline time.Time, elapsed time.Duration) bool {
	if s.reported || !now.After(deadline) {
		return false
	}
	s.over += min(elapsed, now.Sub(deadline), watchEvery)
	return s.over > s.limit+stuckAfter
}

// watch interrupts the statements whose deadline has passed: usually the meter has ended them by then, but a few loops
// of the engine, such as that of count(*), look only at the interrupt. It reports the statements that still go on.
func watch() {
	tls := libc.NewTLS() // never closed: watch does not end
	seen := map[*meter]sight{}
	last := time.Now()
	for range time.Tick(watchEvery) {
		now := time.Now()
		elapsed := now.Sub(last)
		last = now
		running := map[*meter]sight{}
		for i := range meters {
			m := meters[i].Load()
			if m == nil {
				continue
			}
			number, text := m.watched.number.Load(), m.watched.text.Load()
			if text == nil {
				continue
			}
			s, ok := seen[m]
			if !ok || s.number != number {
				s = sight{number: number, limit: time.Duration(m.watched.limit.Load())}
			}
			deadline := time.Unix(0, m.watched.deadline.Load())
			if now.After(deadline) {
				m.interrupt(tls, number)
			}
			if s.stuck(now, deadline, elapsed) && m.watched.runs(number) {
				s.reported = true
				m.watched.onStuck(strings.Clone(*text))
			}
			running[m] = s
		}
		seen = running
	}
}
