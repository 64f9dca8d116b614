package dispatch

import (
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
)

type laneStats struct {
	requests, messages, refused, timeouts, resent, malformed, sent, replies atomic.Uint64
	waited, took                                                            atomic.Int64 // nanoseconds
}

// Call is one request that has ended, with or without an answer.
type Call struct {
	Queue mq.Queue
	Lane  string
	Code  dbaas.Code // CodeOK, or how it failed
	Took  time.Duration
	Trace string // the id of the request's trace, or "" if it is not recorded
}

// LaneStats is what one class of requests has done since the start.
type LaneStats struct {
	Lane string
	// Slaves reports whether slaves, not the master, serve the class.
	Slaves bool
	// Requests is how many requests were accepted, Messages how many messages were sent; their ratio is the batch size.
	Requests, Messages uint64
	// Refused requests found no room or no worker to serve them. Timeouts is how many callers left without an answer.
	Refused, Timeouts uint64
	// Sent is how many requests were sent in a message. Waited is the total time that they waited in the lane before
	// that. Took is the total time of all requests that have ended.
	Sent         uint64
	Waited, Took time.Duration
	// Resent is how many messages were sent again, Malformed how many replies could not be decoded.
	Resent, Malformed uint64
	// Waiting is how many requests wait now, InFlight how many messages are in flight, and HandedOver how many requests
	// in those messages have no answer yet.
	Waiting, InFlight, HandedOver int
	// Limit is how many requests may wait or be in flight now.
	Limit int
}

// Stats returns what each class has done since the start. The order of the classes is fixed.
func (d *Dispatcher) Stats() []LaneStats {
	return []LaneStats{d.points.snapshot(), d.ranges.snapshot(), d.linears.snapshot(), d.writes.snapshot()}
}

// WriteReplies returns how many reply messages to writes have arrived from the master since the start.
func (d *Dispatcher) WriteReplies() uint64 { return d.writes.stats.replies.Load() }

func (l *lane[Q, R]) snapshot() LaneStats {
	l.mu.Lock()
	waiting, inFlight := l.waiting.Len(), len(l.open)
	l.mu.Unlock()
	return LaneStats{
		Lane:       l.name,
		Slaves:     l.queue == mq.ReadQ,
		Requests:   l.stats.requests.Load(),
		Messages:   l.stats.messages.Load(),
		Refused:    l.stats.refused.Load(),
		Timeouts:   l.stats.timeouts.Load(),
		Sent:       l.stats.sent.Load(),
		Waited:     time.Duration(l.stats.waited.Load()),
		Took:       time.Duration(l.stats.took.Load()),
		Resent:     l.stats.resent.Load(),
		Malformed:  l.stats.malformed.Load(),
		Waiting:    waiting,
		InFlight:   inFlight,
		HandedOver: int(l.handed.Load()),
		Limit:      l.limit.Limit(),
	}
}
