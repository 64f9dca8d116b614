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

// heldQuiet is how long no start is held back before a streak of those is over.
const heldQuiet = 10 * time.Second

// startLimit says how many workers may be started, so that neither workers that die at once nor starts
// that fail keep the engine busy. It is a bucket with places for perMinute starts, of which one comes free
// each interval. It has no clock and is not safe for concurrent use.
type startLimit struct {
	perMinute int
	idle      time.Time // when all places are free again
	failed    int       // starts that failed since one that did not
	again     time.Time // no start before

	held   int       // starts that wait for a place
	heldAt time.Time // when that was last more than zero
	streak int       // starts that had to wait in the present streak; zero if there is none
	total  int       // starts that ever had to wait
}

func (s *startLimit) interval() time.Duration { return time.Minute / time.Duration(s.perMinute) }

// places returns how many places are free at now.
func (s *startLimit) places(now time.Time) int {
	taken := (max(0, s.idle.Sub(now)) + s.interval() - 1) / s.interval()
	return max(0, s.perMinute-int(taken))
}

// allowed returns how many may be started at now. After a failure it is one at a time.
func (s *startLimit) allowed(now time.Time) int {
	switch {
	case now.Before(s.again):
		return 0
	case s.failed > 0:
		return min(s.places(now), 1)
	default:
		return s.places(now)
	}
}

// begun notes a start.
func (s *startLimit) begun(now time.Time) {
	if s.idle.Before(now) {
		s.idle = now
	}
	s.idle = s.idle.Add(s.interval())
}

// permit returns the actions that may be done at now: all but the starts that are not allowed. It notes those that
// wait for a place. Those that wait after a failure are told of with it.
func (s *startLimit) permit(actions []Action, now time.Time) []Action {
	wanted, allowed := 0, s.allowed(now)
	permitted := slices.DeleteFunc(actions, func(a Action) bool {
		if a.Kind != ActionStart {
			return false
		}
		wanted++
		return wanted > allowed
	})
	waiting := max(0, s.held-min(wanted, allowed)) // those who waited before go first
	s.held = max(0, wanted-s.places(now))
	more := max(0, s.held-waiting)
	s.streak += more
	s.total += more
	if s.held > 0 {
		s.heldAt = now
	} else if now.Sub(s.heldAt) >= heldQuiet {
		s.streak = 0
	}
	return permitted
}

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
