package progressbar

import (
	"fmt"
	"sync"
	"time"
)

// Steps are the planned steps of a run, of about the same length.
type Steps struct {
	// End ends the display.
	End func()

	total int

	mu          sync.Mutex // guards the fields below
	what        string
	done        int
	first, last time.Time // when the first step began and when the last one that is done ended
}

// Plan follows a run of total steps.
func (o Output) Plan(total int) *Steps {
	s := &Steps{total: total}
	s.End = o.Follow(s.state)
	return s
}

// Begin says what begins: a step, which Done ends, or work before or after the steps.
func (s *Steps) Begin(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what = fmt.Sprintf(format, args...)
	if s.done == 0 {
		s.first = time.Now()
	}
}

// Done ends a step.
func (s *Steps) Done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	s.last = time.Now()
}

// state estimates the time left by the steps that are done.
func (s *Steps) state(now time.Time) (string, float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == 0 {
		return "0%  " + s.what, 0
	}
	each := s.last.Sub(s.first) / time.Duration(s.done)
	left := each*time.Duration(s.total-s.done) - min(each, now.Sub(s.last))
	return line(float64(s.done)/float64(s.total), max(0, left), s.what)
}
