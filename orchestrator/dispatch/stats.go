package dispatch

import "sync/atomic"

type laneStats struct {
	requests, messages, refused, timeouts, resent, malformed atomic.Uint64
}

// LaneStats is what one class of requests has done since the start.
type LaneStats struct {
	Lane string
	// Requests were taken, Messages sent; their ratio is the size of a batch.
	Requests, Messages uint64
	// Refused had no place, or nobody to serve them; Timeouts ended at their deadline.
	Refused, Timeouts uint64
	// Resent messages were sent a second time, Malformed replies not understood.
	Resent, Malformed uint64
	// Waiting requests and InFlight messages are those of this moment.
	Waiting, InFlight int
}

// Stats returns what each class has done. Its order is fixed.
func (d *Dispatcher) Stats() []LaneStats {
	return []LaneStats{d.points.snapshot(), d.ranges.snapshot(), d.linears.snapshot(), d.writes.snapshot()}
}

func (l *lane[Q, R]) snapshot() LaneStats {
	l.mu.Lock()
	waiting, inFlight := l.waiting.n, len(l.open)
	l.mu.Unlock()
	return LaneStats{
		Lane:      l.name,
		Requests:  l.stats.requests.Load(),
		Messages:  l.stats.messages.Load(),
		Refused:   l.stats.refused.Load(),
		Timeouts:  l.stats.timeouts.Load(),
		Resent:    l.stats.resent.Load(),
		Malformed: l.stats.malformed.Load(),
		Waiting:   waiting,
		InFlight:  inFlight,
	}
}
