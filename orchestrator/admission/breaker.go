package admission

import "time"

// State is the state of a breaker. The numbers are also the values of the metric.
type State int

// The states. A half-open breaker admits a few requests as probes.
const (
	Closed State = iota
	HalfOpen
	Open
)

var stateNames = [...]string{Closed: "closed", HalfOpen: "half-open", Open: "open"}

func (s State) String() string { return stateNames[s] }

const (
	// probes is how many requests a half-open breaker admits at a time, and how many in a row must succeed to close it.
	probes = 5
	// A breaker first opens for firstOpen. Each failed probe doubles that time, up to longestOpen.
	firstOpen, longestOpen = 2 * time.Second, 30 * time.Second
	// probeTime is how long a probe keeps its place. A read may wait for a position for much longer.
	probeTime = firstOpen
)

// Breaker is a circuit breaker that closes after successful probes. It is a value: its methods return the next state.
// The zero value is closed.
type Breaker struct {
	State State
	// Until is when an open breaker may become half-open. Why is the reason that the breaker is not closed.
	Until time.Time
	Why   string
	last  time.Duration // the longest time for which it was opened since it was last closed
	life  int           // counts the changes of State, so that the result of an old probe is ignored
	// places has the time since which a probe has had each place; zero for a free place. passed is how many probes have
	// succeeded since the breaker became half-open.
	places [probes]time.Time
	passed int
}

// Pass is what Enter returns for a request and the caller passes to Left. The zero value belongs to a request that is
// not a probe.
type Pass struct {
	life, place int
	since       time.Time
}

// Outcome is how a request ended.
type Outcome int

// The outcomes. Inconclusive means that the request proves nothing about the service, for example because its client has gone.
const (
	Inconclusive Outcome = iota
	Succeeded
	Failed
)

func (b Breaker) open(length time.Duration, now time.Time, why string) Breaker {
	return Breaker{State: Open, Until: now.Add(length), Why: why, last: max(length, b.last), life: b.life + 1}
}

func (b Breaker) halfOpen() Breaker {
	return Breaker{State: HalfOpen, Why: b.Why, last: b.last, life: b.life + 1}
}

func (b Breaker) closed() Breaker { return Breaker{life: b.life + 1} }

// Enter returns the breaker after a request has arrived at now; ok reports whether the request is admitted. A closed breaker
// admits every request, an open breaker none. A half-open breaker admits up to five requests at a time, as probes. A probe
// that takes longer than probeTime gives its place to another request; its outcome still counts.
func (b Breaker) Enter(now time.Time) (_ Breaker, p Pass, ok bool) {
	switch b.State {
	case Open:
		return b, p, false
	case HalfOpen:
		for i, since := range b.places {
			if since.IsZero() || now.Sub(since) >= probeTime {
				b.places[i] = now
				return b, Pass{b.life, i, now}, true
			}
		}
		return b, p, false
	case Closed:
	}
	return b, p, true
}

// Left returns the breaker after an admitted request has ended at now. Only a probe changes it: five successes in a row
// close it, and one failure opens it for twice as long as the last time.
func (b Breaker) Left(p Pass, outcome Outcome, now time.Time) Breaker {
	if b.State != HalfOpen || p.life != b.life {
		return b
	}
	if b.places[p.place].Equal(p.since) {
		b.places[p.place] = time.Time{}
	}
	switch outcome {
	case Failed:
		return b.open(min(2*max(b.last, firstOpen), longestOpen), now, b.Why)
	case Succeeded:
		if b.passed++; b.passed == probes {
			return b.closed()
		}
	case Inconclusive:
	}
	return b
}
