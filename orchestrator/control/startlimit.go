package control

import (
	"slices"
	"time"
)

const (
	// firstStartPause and lastStartPause are how long no worker is started after a start that failed; it doubles
	// between them. What made it fail, such as a missing image, is put right by a person.
	firstStartPause = 500 * time.Millisecond
	lastStartPause  = 15 * time.Second
)

// startLimit says how many workers may be started, so that neither workers that die at once nor starts
// that fail keep the engine busy. It has no clock and is not safe for concurrent use.
type startLimit struct {
	perMinute int
	starts    []time.Time // of the last minute
	failed    int         // starts that failed since one that did not
	again     time.Time   // no start before
}

// allowed returns how many may be started at now. After a failure it is one at a time.
func (s *startLimit) allowed(now time.Time) int {
	s.starts = slices.DeleteFunc(s.starts, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	left := max(0, s.perMinute-len(s.starts))
	switch {
	case now.Before(s.again):
		return 0
	case s.failed > 0:
		return min(left, 1)
	default:
		return left
	}
}

// begun notes a start.
func (s *startLimit) begun(now time.Time) { s.starts = append(s.starts, now) }

// failure notes that a start failed at now, and reports whether it is the first of a streak.
func (s *startLimit) failure(now time.Time) (first bool) {
	pause := lastStartPause
	if s.failed < 5 { // 0.5 s, 1, 2, 4, 8
		pause = firstStartPause << s.failed
	}
	s.failed++
	if again := now.Add(pause); again.After(s.again) {
		s.again = again
	}
	return s.failed == 1
}

// success notes that a start did not fail, and returns how many had before it.
func (s *startLimit) success() (failed int) {
	failed = s.failed
	s.failed, s.again = 0, time.Time{}
	return failed
}
