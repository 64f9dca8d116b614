// Package events keeps the latest changes of roles, membership and scale, and streams
// them to clients as server-sent events.
package events

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"sync"

	"rideshare/internal/wait"
)

// kept is how many events are kept for clients that resume with Last-Event-ID.
const kept = 1024

// Event is one change. Data is rendered as JSON.
type Event struct {
	ID   uint64
	Type string
	Data []byte
}

// Log holds the latest events of this process, numbered from 1 without gaps. It is safe for concurrent use.
type Log struct {
	life  string        // random; distinguishes the ids of this process from those of earlier ones
	slots chan struct{} // one element per open stream

	mu     sync.Mutex // guards the fields below
	events []Event    // the newest events, at most kept, oldest first
	next   uint64
	more   wait.Signal // there is a new event, or the log is closed
	closed bool
}

// New returns an empty Log.
func New() *Log {
	var life [8]byte
	_, _ = rand.Read(life[:]) // crypto/rand.Read never fails, by its documentation.
	return &Log{life: hex.EncodeToString(life[:]), slots: make(chan struct{}, maxStreams), next: 1}
}

// Add appends an event whose data is v as JSON. If v cannot be rendered, the data of the
// event is null.
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
	l.more.Notify()
}

// After returns the kept events with a number above n, and a channel that is closed at the next event or Close. gap
// reports that events after n are missing: they are no longer kept, or n was never assigned. Then After returns all
// kept events.
func (l *Log) After(n uint64) (events []Event, gap bool, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.next - uint64(len(l.events))
	if gap = n >= l.next || n+1 < oldest; gap {
		n = oldest - 1
	}
	return append([]Event(nil), l.events[n+1-oldest:]...), gap, l.more.Next()
}

// Last returns the number of the newest event, 0 if there is none.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next - 1
}

// Close ends all streams.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.more.Notify()
}

func (l *Log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}
