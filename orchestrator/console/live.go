package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/wait"
)

const (
	// period is the time from one event of the stream to the next.
	period = time.Second
	// history is how many points are kept: 15 minutes.
	history = 900
	// stateTimeout bounds one call of Live.State.
	stateTimeout = 800 * time.Millisecond
	// maxStreams bounds the open streams. All share one call of Live.State per second.
	maxStreams = 64
	// writeLimit is how long a client may take to accept an event. A slower client is disconnected.
	writeLimit = 10 * time.Second
)

// Live measures the traffic and streams it together with the state of the system. It is safe for concurrent use.
type Live struct {
	// State returns the state of the system, to be rendered as JSON. It must be set before Run and ServeHTTP.
	State func(ctx context.Context) any

	traffic traffic
	slots   chan struct{} // one element per open stream

	mu     sync.Mutex // guards the fields below
	points []Point    // oldest first, at most history
	latest []byte     // the newest event
	more   wait.Signal
	closed bool
}

// NewLive returns a Live without measurements. Run makes them.
func NewLive() *Live { return &Live{slots: make(chan struct{}, maxStreams), points: []Point{}} }

// Observe counts one answered request; its arguments are those of httpapi.Config.Observe.
func (l *Live) Observe(route, _ string, status int, took time.Duration) {
	l.traffic.observe(route, status, took)
}

// Run takes a measurement once a second until ctx ends. It calls State only while a stream is open.
func (l *Live) Run(ctx context.Context) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		point := l.traffic.take(now, now.Sub(last))
		last = now
		var state any
		if len(l.slots) > 0 {
			looking, cancel := context.WithTimeout(ctx, stateTimeout)
			state = l.State(looking)
			cancel()
		}
		l.add(point, state)
	}
}

// update is the data of an event.
type update struct {
	Point Point `json:"point"`
	State any   `json:"state"`
}

func (l *Live) add(p Point, state any) {
	data, err := json.Marshal(update{p, state})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.points = append(l.points, p); len(l.points) > history {
		l.points = l.points[1:]
	}
	if err == nil && state != nil {
		l.latest = data
		l.more.Notify()
	}
}

// Close ends all streams.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.more.Notify()
}

// next returns the newest event, and a channel that is closed when there is a newer one. Both are nil once Live is
// closed.
func (l *Live) next() (latest []byte, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil
	}
	return l.latest, l.more.Next()
}

// ServeHTTP streams an event "history" with the points of the last 15 minutes, and then an event "now" each second with
// the newest point and the state of the system. A client that reads slowly misses events and gets only the newest.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		httpapi.WriteError(w, r, false, dbaas.Errorf(dbaas.CodeUnavailable, "%d streams are open, and no more are allowed: close one, or try again later", maxStreams))
		return
	}
	_, more := l.next()
	l.mu.Lock()
	data, err := json.Marshal(l.points)
	l.mu.Unlock()
	if err != nil || more == nil {
		return
	}
	kind, out := "history", httpapi.NewStream(w, "text/event-stream", writeLimit)
	if r.Method == http.MethodHead {
		return
	}
	for data != nil {
		if out.Send(r.Context(), fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, data)) != nil || out.Flush() != nil {
			return
		}
		select {
		case <-more:
			data, more = l.next()
			kind = "now"
		case <-r.Context().Done():
			return
		}
	}
}
