package system

import (
	"context"
	"sync"
	"time"

	"rideshare/internal/dbaas"
)

const (
	// positionsTimeout bounds the request for all positions: a worker that hangs must not block the callers.
	positionsTimeout = 500 * time.Millisecond
	// positionsKept is how long an answer is reused, so that many watchers cost the workers no more than one.
	positionsKept = 100 * time.Millisecond
)

// positions are persdb's head and the workers' applied positions at one moment.
type positions struct {
	head dbaas.Head // zero while persdb does not answer
	// applied has the workers that answered. They were asked after persdb, so a worker that keeps up never appears
	// behind.
	applied map[dbaas.WorkerID]dbaas.Seq
}

// positionsCache keeps the last answer for positionsKept. Its zero value is empty.
type positionsCache struct {
	mu   sync.Mutex // guards the fields below
	last positions
	at   time.Time
}

// positions asks persdb and every worker for their positions. It waits 500 ms at most.
func (c *orchestratorParts) positions() positions {
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	// Other callers may wait for this answer, so it does not use the context of one caller.
	ctx, cancel := context.WithTimeout(context.Background(), positionsTimeout)
	defer cancel()
	head, err := c.store.Head(ctx)
	if err != nil {
		head = dbaas.Head{} // the running workers are still worth showing
	}
	if time.Since(c.cache.at) < positionsKept && head.Epoch == c.cache.last.head.Epoch { // a new master is shown immediately
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
