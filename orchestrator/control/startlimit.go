package control

import (
	"slices"
	"time"

	"rideshare/internal/wait"
)

const (
	// After a failed start no worker is started for firstStartPause. The pause doubles with each further failure, up to
	// lastStartPause: the cause of the failure, such as a missing image, has to be fixed by a person.
	firstStartPause = 500 * time.Millisecond
	lastStartPause  = 15 * time.Second
)

// A streak of held-back starts is over once no start has been held back for heldQuiet.
const heldQuiet = 10 * time.Second

// startLimit limits how many workers are started, so that neither workers that die immediately nor failing
// starts keep the engine busy. It is a token bucket with room for perMinute tokens; a start takes one token, and
// one token is added per interval. It has no clock and is not safe for concurrent use.
type startLimit struct {
	perMinute int
	idle      time.Time // when the bucket is full again
	failed    wait.Streak
	pause     wait.Backoff // after failed starts
	again     time.Time    // no start is allowed before this time

	held   int       // starts that wait for a token
	heldAt time.Time // when held was last more than zero
	streak int       // starts that had to wait in the present streak; zero if there is none
	total  int       // starts that ever had to wait
}

func newStartLimit(perMinute int) startLimit {
	return startLimit{perMinute: perMinute, pause: wait.Backoff{First: firstStartPause, Cap: lastStartPause}}
}

func (s *startLimit) interval() time.Duration { return time.Minute / time.Duration(s.perMinute) }

// free returns how many tokens there are at now.
func (s *startLimit) free(now time.Time) int {
	taken := (max(0, s.idle.Sub(now)) + s.interval() - 1) / s.interval()
	return max(0, s.perMinute-int(taken))
}

// allowed returns how many workers may be started at now: as many as there are tokens, but after a failure at most one,
// and none during the pause.
func (s *startLimit) allowed(now time.Time) int {
	switch {
	case now.Before(s.again):
		return 0
	case s.failed.Count() > 0:
		return min(s.free(now), 1)
	default:
		return s.free(now)
	}
}

// begun takes a token for a start.
func (s *startLimit) begun(now time.Time) {
	if s.idle.Before(now) {
		s.idle = now
	}
	s.idle = s.idle.Add(s.interval())
}

// permit returns the actions that may be done at now: all except starts beyond the allowed number. It counts the starts
// that wait for the limit, but not those that wait after a failure, since the failure itself is logged.
func (s *startLimit) permit(actions []Action, now time.Time) []Action {
	wanted, allowed := 0, s.allowed(now)
	permitted := slices.DeleteFunc(actions, func(a Action) bool {
		if a.Kind != ActionStart {
			return false
		}
		wanted++
		return wanted > allowed
	})
	waiting := max(0, s.held-min(wanted, allowed)) // starts that waited before go first
	s.held = max(0, wanted-s.free(now))
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

// failure records that a start failed at now, and reports whether it is the first failure of a streak.
func (s *startLimit) failure(now time.Time) (first bool) {
	if again := now.Add(s.pause.Next()); again.After(s.again) {
		s.again = again
	}
	return s.failed.Fail()
}

// success records that a start succeeded, and returns how many had failed since the last success.
func (s *startLimit) success() (failed int64) {
	s.pause.Reset()
	s.again = time.Time{}
	return s.failed.End()
}
