package admission

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultLaneLimit is the lane limit if none is set.
	DefaultLaneLimit = 1024
	// adaptiveStart is the highest initial value of an adaptive limit. To grow from 64 to 1024 takes 24,000 answers: a
	// few seconds where a limit of 1024 makes sense. To fall from 1024 would take many seconds where answers are slow.
	adaptiveStart = 64
	// The bounds of an adaptive limit.
	minLaneLimit, maxLaneLimit = 16, 8192
	// A window ends after windowAnswers answers or windowTime.
	windowAnswers = 100
	windowTime    = time.Second
	// tolerance is how many times as long as usual an answer may take before the limit falls.
	tolerance = 1.5
	// longWindows is the number of windows over which the usual time is averaged.
	longWindows = 600
	// failFactor lowers the limit after a failure.
	failFactor = 0.9
)

// LaneSetting is the setting of a lane limit: a number of operations, or adaptive. Zero is DefaultLaneLimit.
type LaneSetting struct {
	Adaptive bool
	Limit    int
}

var errLaneSetting = errors.New(`must be "adaptive" or a number of operations from 1`)

// adaptive is the text of an adaptive LaneSetting.
const adaptive = "adaptive"

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *LaneSetting) UnmarshalText(text []byte) error {
	if string(text) == adaptive {
		*s = LaneSetting{Adaptive: true}
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return errLaneSetting
	}
	*s = LaneSetting{Limit: n}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler: a number, or the string "adaptive".
func (s *LaneSetting) UnmarshalJSON(text []byte) error {
	if string(text) == strconv.Quote(adaptive) {
		*s = LaneSetting{Adaptive: true}
		return nil
	}
	var n LaneSetting
	if err := n.UnmarshalText(text); err != nil || n.Adaptive {
		return fmt.Errorf("lanes: %s %w", text, errLaneSetting)
	}
	*s = n
	return nil
}

// MarshalJSON implements json.Marshaler.
func (s LaneSetting) MarshalJSON() ([]byte, error) {
	if s.Adaptive {
		return []byte(strconv.Quote(adaptive)), nil
	}
	return []byte(s.String()), nil
}

func (s LaneSetting) String() string {
	if s.Adaptive {
		return adaptive
	}
	return strconv.Itoa(s.limit())
}

// limit returns the initial limit.
func (s LaneSetting) limit() int { return cmp.Or(s.Limit, DefaultLaneLimit) }

// Gradient is the state of an adaptive limit. The limit falls while answers take longer than usual, and otherwise grows
// by a fifth of its square root in each window. While the lane is less than half full, only failures change the limit.
// Source: the gradient algorithm of Netflix's concurrency-limits.
type Gradient struct {
	Limit float64
	// Long is the usual time until an answer, in seconds; zero before the first window.
	Long float64
}

// Window is what was measured in one window.
type Window struct {
	Short    float64 // mean time until an answer, in seconds; zero if there was none
	InFlight int     // the largest number of operations in the lane
	Failed   bool    // an operation was LaneFailed or LaneLate
}

// Next returns the state after a window.
func (g Gradient) Next(w Window) Gradient {
	next := g
	if w.Short > 0 {
		next.Long += (w.Short - g.Long) * 2 / (longWindows + 1)
		if g.Long == 0 || w.Short < g.Long/2 {
			next.Long = w.Short
		}
	}
	switch {
	case w.Failed:
		next.Limit *= failFactor
	case w.Short > 0 && float64(w.InFlight) >= g.Limit/2:
		long := g.Long
		if long == 0 {
			long = w.Short
		}
		gradient := min(1, max(0.5, tolerance*long/w.Short))
		next.Limit = 0.8*g.Limit + 0.2*(gradient*g.Limit+math.Sqrt(g.Limit))
	}
	next.Limit = min(maxLaneLimit, max(minLaneLimit, next.Limit))
	return next
}

// LaneEnd is how an operation in a lane ended.
type LaneEnd int

// The ends. LaneIgnored means that the lane itself refused the operation, or that its caller has left.
const (
	LaneIgnored  LaneEnd = iota
	LaneAnswered         // whatever the answer says
	LaneFailed           // 503: not published, or a dependency is missing
	LaneLate             // 503 or 504: the deadline is over
)

// LaneLimit bounds how many operations wait or are in flight in a lane. It is safe for concurrent use.
type LaneLimit struct {
	adaptive atomic.Bool
	limit    atomic.Int64
	most     atomic.Int64 // the largest number of operations in the lane in this window

	mu       sync.Mutex // guards the fields below
	state    Gradient
	began    time.Time
	answers  int
	sum      time.Duration
	failures int
}

// NewLaneLimit returns the limit of a lane.
func NewLaneLimit(s LaneSetting) *LaneLimit {
	l := &LaneLimit{}
	l.limit.Store(int64(s.limit()))
	l.Set(s)
	return l
}

// Set applies a setting. An adaptive limit starts at s.Limit. If s.Limit is zero, a limit that is adaptive already stays
// as it is, and any other starts at its current value, but not above adaptiveStart.
func (l *LaneLimit) Set(s LaneSetting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	start := s.limit()
	switch {
	case s.Adaptive && s.Limit == 0 && l.adaptive.Load():
		return
	case s.Adaptive && s.Limit == 0:
		start = min(adaptiveStart, int(l.limit.Load()))
	}
	l.limit.Store(int64(start))
	l.state = Gradient{Limit: float64(start)}
	l.began, l.answers, l.sum, l.failures = time.Time{}, 0, 0, 0
	l.adaptive.Store(s.Adaptive)
}

// Allows reports whether another operation may join the n that are in the lane. The caller holds the lane's lock.
func (l *LaneLimit) Allows(n int) bool {
	if l.adaptive.Load() && int64(n) >= l.most.Load() {
		l.most.Store(int64(n) + 1)
	}
	return int64(n) < l.limit.Load()
}

// Limit returns the current limit.
func (l *LaneLimit) Limit() int { return int(l.limit.Load()) }

// Adaptive reports whether Ended has an effect.
func (l *LaneLimit) Adaptive() bool { return l.adaptive.Load() }

// Ended records that an operation ended at now and spent took in the lane. A missed deadline counts as a failure only
// after tolerance times the usual time: otherwise one client with short deadlines would lower the limit for all.
func (l *LaneLimit) Ended(how LaneEnd, now time.Time, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		l.began = now.Add(-took)
	}
	switch {
	case how == LaneAnswered:
		l.answers++
		l.sum += took
	case how == LaneFailed, how == LaneLate && took.Seconds() > tolerance*l.state.Long:
		l.failures++
	}
	if l.answers < windowAnswers && now.Sub(l.began) < windowTime {
		return
	}
	w := Window{InFlight: int(l.most.Swap(0)), Failed: l.failures > 0}
	if l.answers > 0 {
		w.Short = (l.sum / time.Duration(l.answers)).Seconds()
	}
	l.state = l.state.Next(w)
	if l.adaptive.Load() {
		l.limit.Store(int64(math.Round(l.state.Limit)))
	}
	l.began, l.answers, l.sum, l.failures = now, 0, 0, 0
}
