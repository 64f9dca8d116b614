package wait

import "time"

// Streak counts consecutive failures, so that the log has a line for the first one and a line for their end. It belongs
// to one goroutine.
type Streak struct {
	count int64
	since time.Time
}

// Fail counts a failure and reports whether it is the first of the streak.
func (s *Streak) Fail() (first bool) {
	if s.count == 0 {
		s.since = time.Now()
	}
	s.count++
	return s.count == 1
}

// Count returns the number of failures in the streak.
func (s *Streak) Count() int64 { return s.count }

// Took returns the time since the first failure of the streak; zero if there is none.
func (s *Streak) Took() time.Duration {
	if s.count == 0 {
		return 0
	}
	return time.Since(s.since)
}

// End ends the streak, and returns how many failures it had.
func (s *Streak) End() (failures int64) {
	failures = s.count
	*s = Streak{}
	return failures
}
