// Package events keeps the latest changes of roles, membership and scale and
// streams them to whoever watches, as server-sent events.
package events

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// kept is how many events can be asked for again with Last-Event-ID.
const kept = 1024

// keepAlive is how often a silent stream gets a comment, so that proxies with
// the usual time-out of 60 s do not cut it.
const keepAlive = 20 * time.Second

// Event is one change. Data is rendered as JSON.
type Event struct {
	ID   uint64
	Type string
	Data []byte
}

// Log is the latest events, with dense ids from 1. The ids start anew with the
// process. It is safe for concurrent use.
type Log struct {
	mu     sync.Mutex // guards the fields below
	events []Event    // the newest kept, in order
	next   uint64
	more   chan struct{} // closed when there is a new event, then replaced
	closed bool
}

// New returns an empty Log.
func New() *Log { return &Log{next: 1, more: make(chan struct{})} }

// Add appends an event whose data is v as JSON. What cannot be rendered is an
// event without data.
func (l *Log) Add(kind string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		data = []byte("null")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, Event{ID: l.next, Type: kind, Data: data})
	if len(l.events) > kept {
		l.events = l.events[1:]
	}
	l.next++
	if !l.closed {
		close(l.more)
		l.more = make(chan struct{})
	}
}

// After returns the kept events with an id above id, and a channel that is
// closed when there are more. An id that was never given out, as one of an
// earlier process, returns all.
func (l *Log) After(id uint64) ([]Event, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id >= l.next {
		id = 0
	}
	for i, e := range l.events {
		if e.ID > id {
			return append([]Event(nil), l.events[i:]...), l.more
		}
	}
	return nil, l.more
}

// Last returns the id of the newest event, 0 if there is none.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next - 1
}

// Close ends all streams.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.more)
	}
}

func (l *Log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// ServeHTTP streams events: those after Last-Event-ID if the client names one,
// else those from now on.
func (l *Log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	last := l.Last()
	if asked := r.Header.Get("Last-Event-ID"); asked != "" {
		id, err := strconv.ParseUint(asked, 10, 64)
		if err != nil {
			http.Error(w, "Last-Event-ID is not a number", http.StatusBadRequest)
			return
		}
		last = id
	}
	stream := http.NewResponseController(w)
	if err := stream.SetWriteDeadline(time.Time{}); err != nil { // a stream outlives the server's limit
		http.Error(w, "streaming is not possible here", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	timer := time.NewTicker(keepAlive)
	defer timer.Stop()
	for !l.isClosed() {
		events, more := l.After(last)
		for _, e := range events {
			last = e.ID
			if _, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Type, e.Data); err != nil {
				return // the client is gone
			}
		}
		if err := stream.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-more:
		case <-timer.C:
			if _, err := fmt.Fprint(w, ": still here\n\n"); err != nil {
				return
			}
		}
	}
}
