package loadgen

import "time"

// schedule is the due times of an open loop: request n is due when the integral of the plan's rate reaches n. It depends
// only on the plan, so a late generator never shifts later requests.
type schedule struct {
	plan  Plan
	phase int
	// begin and before are the time and the amount due at the start of the phase.
	begin  time.Duration
	before float64
	next   int64
}

// due returns when the next request is due, since the start. ok is false after the last.
func (s *schedule) due() (at time.Duration, ok bool) {
	for s.phase < len(s.plan) {
		phase := s.plan[s.phase]
		// The first request of a phase that starts immediately is due at its start.
		if within := float64(s.next) - s.before; within < phase.amount() {
			s.next++
			return s.begin + phase.when(within), true
		}
		s.begin += phase.Duration
		s.before += phase.amount()
		s.phase++
	}
	return 0, false
}
