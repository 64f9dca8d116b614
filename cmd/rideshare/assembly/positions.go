package assembly

import (
	"context"
	"sync"
	"time"

	"rideshare/internal/dbaas"
)

const (
	// positionsTimeout bounds the question where everybody is: a worker that hangs must not hold its watchers up.
	positionsTimeout = 500 * time.Millisecond
	// positionsKept is how long the answer serves others too, so that many watchers cost the workers no more than one.
	positionsKept = 100 * time.Millisecond
)

// positions are persdb's head and what the workers have applied, of one moment.
type positions struct {
	head dbaas.Head // zero while persdb is away
	// applied has the workers that answered. They were asked after persdb, so that one that keeps up is never behind.
	applied map[dbaas.WorkerID]dbaas.Seq
}

// positionsCache keeps the last answer for a moment. Its zero value is empty.
type positionsCache struct {
	mu   sync.Mutex // guards the fields below
	last positions
	at   time.Time
}

// positions asks persdb and every worker where they are. It waits 500 ms at most.
func (c *core) positions() positions {
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	// Others may wait for this answer, so it does not end with one caller's context.
	ctx, cancel := context.WithTimeout(context.Background(), positionsTimeout)
	defer cancel()
	head, err := c.store.Head(ctx)
	if err != nil {
		head = dbaas.Head{} // the workers that run are still worth showing
	}
	if time.Since(c.cache.at) < positionsKept && head.Epoch == c.cache.last.head.Epoch { // a new master is shown at once
		return c.cache.last
	}
	p := positions{head: head, applied: map[dbaas.WorkerID]dbaas.Seq{}}
	statuses, _ := c.statuses(ctx)
	for _, s := range statuses {
		p.applied[s.ID] = s.Applied
	}
	c.cache.last, c.cache.at = p, time.Now()
	return p
}
