package dispatch

import (
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
)

type laneStats struct {
	requests, messages, refused, timeouts, resent, malformed, sent atomic.Uint64
	waited, took                                                   atomic.Int64 // nanoseconds
}

// Call is one request that has ended, with or without an answer.
type Call struct {
	Queue mq.Queue
	Lane  string
	Code  dbaas.Code // CodeOK, or how it failed
	Took  time.Duration
}

// LaneStats is what one class of requests has done since the start.
type LaneStats struct {
	Lane string
	// Slaves says that slaves serve the class.
	Slaves bool
	// Requests were taken, Messages sent; their ratio is the size of a batch.
	Requests, Messages uint64
	// Refused had no place, or nobody to serve them; Timeouts ended at their deadline.
	Refused, Timeouts uint64
	// Sent requests have left in a message. Waited is how long they waited for that, Took
	// how long all requests that have ended took, both summed up.
	Sent         uint64
	Waited, Took time.Duration
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
		Slaves:    l.queue == mq.ReadQ,
		Requests:  l.stats.requests.Load(),
		Messages:  l.stats.messages.Load(),
		Refused:   l.stats.refused.Load(),
		Timeouts:  l.stats.timeouts.Load(),
		Sent:      l.stats.sent.Load(),
		Waited:    time.Duration(l.stats.waited.Load()),
		Took:      time.Duration(l.stats.took.Load()),
		Resent:    l.stats.resent.Load(),
		Malformed: l.stats.malformed.Load(),
		Waiting:   waiting,
		InFlight:  inFlight,
	}
}
