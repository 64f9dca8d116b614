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

// silences are the nodes of a cluster that do not answer, as the connections of one part found out. To try such a node
// takes seconds, while a node that is gone refuses at once. It is safe for concurrent use; the nil value knows of none.
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

// next returns the first turn from this one on whose node is not silent; this one, if all are.
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
