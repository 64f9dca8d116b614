package changes

import (
	"sync"
	"weak"

	"rideshare/internal/dbaas"
	"rideshare/internal/rowlog"
)

// large finds the events that streams are sending and that the window does not keep, so that all streams share one event. An
// event is freed once no stream sends it.
type large struct {
	mu     sync.Mutex // guards events; held while an event is rendered, so that one is rendered at a time
	events map[commit]weak.Pointer[rowlog.Event]
}

// commit identifies a commit.
type commit struct {
	cluster dbaas.ClusterID
	seq     dbaas.Seq
}

// isLarge reports whether an entry's event is shared.
func isLarge(e *dbaas.Entry) bool { return e.Size() > pageBytes }

// find returns the event of a commit if a stream is sending it, or nil.
func (l *large) find(cluster dbaas.ClusterID, seq dbaas.Seq) *rowlog.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[commit{cluster, seq}].Value()
}

// event returns the event of an entry. Errors are those of rowlog.NewEvent.
func (l *large) event(e *dbaas.Entry) (*rowlog.Event, error) {
	if !isLarge(e) {
		return rowlog.NewEvent(e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := commit{e.Cluster, e.Seq}
	if event := l.events[key].Value(); event != nil {
		return event, nil
	}
	event, err := rowlog.NewEvent(e)
	if err != nil {
		return nil, err
	}
	for other, pointer := range l.events {
		if pointer.Value() == nil {
			delete(l.events, other)
		}
	}
	if l.events == nil {
		l.events = map[commit]weak.Pointer[rowlog.Event]{}
	}
	l.events[key] = weak.Make(event)
	return event, nil
}
