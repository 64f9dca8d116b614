package wait

import "time"

// RepeatAfter is the time between two log lines about one streak of failures: short enough that any part of the log shows
// the streak, long enough that the streak does not fill the log.
const RepeatAfter = time.Minute

// Streak counts consecutive failures, so that the log has a line for the first one, a line every RepeatAfter, and a line
// for their end. It belongs to one goroutine.
type Streak struct {
	count       int64
	since, told time.Time
}

// Fail counts a failure and reports whether to log it: the first of the streak, and the next one after each RepeatAfter.
func (s *Streak) Fail() (report bool) {
	now := time.Now()
	if s.count == 0 {
		s.since = now
	}
	s.count++
	if report = s.told.IsZero() || now.Sub(s.told) >= RepeatAfter; report {
		s.told = now
	}
	return report
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
