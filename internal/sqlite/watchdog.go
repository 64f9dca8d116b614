package sqlite

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// watched is the watchdog's view of the running statement of a connection.
type watched struct {
	onStuck  func(sql string)
	text     atomic.Pointer[string] // nil: none runs
	deadline atomic.Int64           // nanoseconds since 1970; 0: none
}

// begin makes the statement visible to the watchdog. text must not change.
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

// watchEvery is how often the watchdog checks, and so how late it may first see a statement.
const watchEvery = 100 * time.Millisecond

// stuckAfter: a statement is stuck if it still runs this long after twice its time.
const stuckAfter = time.Second

// watchStart starts the watchdog's goroutine, one for the process, with the first connection that needs it.
var watchStart sync.Once

func watch() {
	type sight struct {
		statement uint64
		first     time.Time // zero: already reported as stuck
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
