package amqp

import (
	"errors"
	"sync"
	"time"
)

// silentFor is how long a node that was silent is left out: about as long as its cluster takes to notice.
const silentFor = 10 * time.Second

// errSilent is the reason for the end of a session whose node is silent.
var errSilent = errors.New("the node is silent")

// silences holds the nodes of a cluster that did not answer the connections of one part. Trying such a node takes
// seconds, while a node that is gone refuses immediately. It is safe for concurrent use; the nil value is empty.
type silences struct {
	mu    sync.Mutex // guards until
	until map[node]time.Time
}

// heard stores whether a node was silent.
func (s *silences) heard(at node, silent bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, at)
	if silent {
		s.until[at] = time.Now().Add(silentFor)
	}
}

// next returns the first turn, from the given turn on, whose node is not silent, or the given turn if all are silent.
func (s *silences) next(nodes []node, turn int) int {
	if s == nil {
		return turn
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range nodes {
		if time.Now().After(s.until[nodes[(turn+i)%len(nodes)]]) {
			return turn + i
		}
	}
	return turn
}
