package admission

import "time"

// EventRule is the settings of an event-count breaker. Its behaviour is that of EventCountCircuitBreaker in commons-lang3.
type EventRule struct {
	// Opens: the breaker opens when more than Opens events come within Interval. Closes: it closes after an interval with
	// fewer than Closes events.
	Opens, Closes int
	Interval      time.Duration
	// Delay makes an operation wait until the breaker closes. Without Delay the operation is refused immediately.
	Delay bool
}

// EventState is the state of an event-count breaker. The zero value is closed and has seen no event.
type EventState struct {
	Open  bool
	Count int
	Start time.Time
}

// Next returns the state after an event of the given weight at now, and reports whether the event is admitted.
func (r EventRule) Next(s EventState, weight int, now time.Time) (EventState, bool) {
	finished := s.Start.IsZero() || now.Sub(s.Start) > r.Interval
	prev := s.Count
	if finished {
		s.Count, s.Start = weight, now
	} else {
		s.Count += weight
	}
	switch {
	case !s.Open && s.Count > r.Opens:
		s = EventState{Open: true, Start: now}
	case s.Open && finished && prev < r.Closes:
		s = EventState{Start: now}
	}
	return s, !s.Open
}

// rest returns the time until the interval of s ends.
func (r EventRule) rest(s EventState, now time.Time) time.Duration {
	return max(0, s.Start.Add(r.Interval).Sub(now))
}

const (
	// eventTick is how often an open breaker gets an event of weight 0, so that a quiet time closes it.
	eventTick = 100 * time.Millisecond
	// pauseCap bounds the pause between two checks to less than 2^pauseCap ms. With longer pauses an operation would often
	// sleep through a time in which the breaker is closed.
	pauseCap = 6
)

// eventPause returns how long an operation sleeps before check number a (1, 2, ...): a random number of whole
// milliseconds in [0, 2^min(a, most)). random is in [0, 1).
func eventPause(a, most int, random float64) time.Duration {
	return time.Duration(random*float64(int(1)<<min(a, most))) * time.Millisecond
}

// None is the name of the event-count preset, and of the limit, that refuses nothing.
const None = "none"

// presets are the event-count breakers that can be chosen by name.
var presets = map[string]EventRule{
	"2000-2s":  {Opens: 2000, Closes: 1600, Interval: 2 * time.Second, Delay: true},
	"7500-5s":  {Opens: 7500, Closes: 6000, Interval: 5 * time.Second},
	"10000-5s": {Opens: 10000, Closes: 7500, Interval: 5 * time.Second},
}
