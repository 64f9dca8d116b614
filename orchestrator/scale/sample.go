package scale

import (
	"fmt"
	"strings"
	"time"
)

// Sample is what a policy knows of one window. All numbers except Reads may be
// missing; then Missing is not empty.
type Sample struct {
	// Reads is how many valid reads arrived, at all orchestrators.
	Reads int `json:"reads"`
	// Desired is how many slaves are wanted when the decision is made, Slaves how many served at the window's end.
	Desired int `json:"desired_slaves"`
	Slaves  int `json:"slaves"`
	// QueueAge is how long a read waited, on average, before it was sent to a slave.
	QueueAge Milliseconds `json:"queue_age_ms"`
	// InFlight is the average number of reads in flight.
	InFlight float64 `json:"in_flight"`
	// Busy is the average fraction of the slaves' read slots that was in use, 0 to 1.
	Busy float64 `json:"busy"`
	// Lag is how many entries the slowest slave was behind the head.
	Lag uint64 `json:"lag"`
	// Missing names what could not be measured.
	Missing []string `json:"missing,omitempty"`
}

// Milliseconds is a duration that JSON shows as a number of milliseconds.
type Milliseconds float64

// InMilliseconds returns d in milliseconds.
func InMilliseconds(d time.Duration) Milliseconds {
	return Milliseconds(float64(d) / float64(time.Millisecond))
}

// Duration returns m as a time.Duration.
func (m Milliseconds) Duration() time.Duration {
	return time.Duration(float64(m) * float64(time.Millisecond))
}

func (s *Sample) complete() bool { return len(s.Missing) == 0 }

// describe returns the sample as text for Proposal.Why.
func (s *Sample) describe() string {
	if !s.complete() {
		return "not known: " + strings.Join(s.Missing, ", ")
	}
	return fmt.Sprintf("queue age %.1f ms, %.1f reads in flight, slaves %.0f %% busy, lag %d",
		float64(s.QueueAge), s.InFlight, 100*s.Busy, s.Lag)
}
