package dispatch

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"rideshare/internal/dbaas"
)

const (
	// A read whose answer has at least heavyBytes counts as heavy. 4 KiB is about 40 rows: rendering such an answer
	// takes a slave as long as dozens of point reads.
	heavyBytes = 4 << 10
	// forgiveAfter is how many light answers in a row a heavy statement needs to
	// be a point read again.
	forgiveAfter = 8
	// maxHeavy bounds the number of remembered statements. When it is reached, a new statement evicts an arbitrary one:
	// a wrong class costs time, never an answer.
	maxHeavy = 1024
)

// classes remembers which statements had large or late answers. Every other
// statement is a point read, so that the usual case costs one atomic load.
type classes struct {
	any   *atomic.Bool
	mu    *sync.RWMutex    // guards heavy
	heavy map[uint64]uint8 // hash of the statements' text to light answers until forgiven
}

func newClasses() classes {
	return classes{any: &atomic.Bool{}, mu: &sync.RWMutex{}, heavy: map[uint64]uint8{}}
}

func (d *Dispatcher) classKey(r *dbaas.Read) uint64 {
	var key uint64
	for i := range r.Statements {
		key = key*31 + maphash.String(d.seed, r.Statements[i].SQL)
	}
	return key
}

func (c *classes) isHeavy(key uint64) bool {
	if !c.any.Load() {
		return false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, ok := c.heavy[key]
	return ok
}

// learn records whether the answer to a statement was heavy.
func (c *classes) learn(key uint64, heavy bool) {
	if !heavy && !c.isHeavy(key) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	left, known := c.heavy[key]
	switch {
	case heavy:
		if !known && len(c.heavy) >= maxHeavy {
			for other := range c.heavy {
				delete(c.heavy, other)
				break
			}
		}
		c.heavy[key] = forgiveAfter
	case left > 1:
		c.heavy[key] = left - 1
	default:
		delete(c.heavy, key)
	}
	c.any.Store(len(c.heavy) > 0)
}
