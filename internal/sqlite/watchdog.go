package sqlite

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// watched is what the watchdog sees of the statement that runs on a connection.
type watched struct {
	onStuck  func(sql string)
	text     atomic.Pointer[string] // nil: none runs
	deadline atomic.Int64           // nanoseconds since 1970; 0: none
}

// begin shows the statement to the watchdog. text stays as it is.
func (w *watched) begin(text *string, deadline time.Time) {
	if w.onStuck == nil || deadline.IsZero() {
		return
	}
	w.deadline.Store(deadline.UnixNano())
	w.text.Store(text)
}

func (w *watched) end() {
	if w.onStuck != nil && w.text.Load() != nil {
		w.text.Store(nil)
	}
}

// watchEvery is how often the watchdog looks, and how much later than a statement's beginning it may see it first.
const watchEvery = 100 * time.Millisecond

// stuckAfter is how long after twice its time a statement is stuck.
const stuckAfter = time.Second

// watchStart begins the watchdog's goroutine, one for the process, with the first connection that wants it.
var watchStart sync.Once

func watch() {
	type sight struct {
		statement uint64
		first     time.Time // zero: it was stuck
	}
	seen := map[*meter]sight{}
	for range time.Tick(watchEvery) {
		now := time.Now()
		running := map[*meter]sight{}
		for i := range meters {
			m := meters[i].Load()
			if m == nil {
				continue
			}
			statement, text := m.statement.Load(), m.watched.text.Load()
			if text == nil {
				continue
			}
			s, ok := seen[m]
			if !ok || s.statement != statement {
				s = sight{statement: statement, first: now}
			}
			deadline := time.Unix(0, m.watched.deadline.Load())
			if !s.first.IsZero() && now.Sub(deadline) > max(0, deadline.Sub(s.first))+stuckAfter && m.statement.Load() == statement {
				s.first = time.Time{}
				m.watched.onStuck(strings.Clone(*text))
			}
			running[m] = s
		}
		seen = running
	}
}
