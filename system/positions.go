package system

import (
	"context"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/orchestratorapi"
)

const (
	// positionsTimeout bounds the request to persdb, and the requests to all workers: a part that hangs must not block the
	// callers.
	positionsTimeout = 500 * time.Millisecond
	// positionsKept is how long an answer is reused, so that many watchers cost the workers no more than a single one.
	positionsKept = 100 * time.Millisecond
)

// positions are persdb's head and the workers' applied positions at one moment.
type positions struct {
	head dbaas.Head // zero while persdb does not answer
	// known is the last head that persdb answered, zero if there was none; it was asked for at knownAt.
	known   dbaas.Head
	knownAt time.Time
	// applied has the workers that answered. They were asked after persdb, so a worker that keeps up never appears
	// behind.
	applied map[dbaas.WorkerID]dbaas.Seq
	// loads has the same workers.
	loads map[dbaas.WorkerID]*orchestratorapi.WorkerLoad
	// machines has the name of each worker's machine or container.
	machines map[dbaas.WorkerID]string
}

// positionsCache keeps the last answer for positionsKept. Its zero value is empty.
type positionsCache struct {
	mu   sync.Mutex // guards the fields below
	last positions
	// began and at are the start and the end of the last measurement.
	began, at time.Time
	busy      busyShares
	known     dbaas.Head // as in positions
	knownAt   time.Time
}

// positions asks persdb and then every worker for their positions, each for at most positionsTimeout. Callers that wait for
// a measurement share the next measurement.
func (c *orchestratorParts) positions() positions {
	asked := time.Now()
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	if c.cache.began.After(asked) {
		return c.cache.last
	}
	began := time.Now()
	// Other callers may wait for this answer, so it does not use the context of one caller.
	head, err := briefly(c.store.Head)
	if err != nil {
		head = dbaas.Head{} // the running workers are still worth showing
	} else {
		c.cache.known, c.cache.knownAt = head, began
	}
	if time.Since(c.cache.at) < positionsKept && head.Epoch == c.cache.last.head.Epoch { // a new master is shown immediately
		return c.cache.last
	}
	p := positions{head: head, known: c.cache.known, knownAt: c.cache.knownAt, applied: map[dbaas.WorkerID]dbaas.Seq{}, loads: map[dbaas.WorkerID]*orchestratorapi.WorkerLoad{}, machines: map[dbaas.WorkerID]string{}}
	ctx, cancel := context.WithTimeout(context.Background(), positionsTimeout)
	defer cancel()
	statuses, _ := c.statuses(ctx)
	busy := c.cache.busy.of(statuses, time.Now())
	for _, s := range statuses {
		p.applied[s.ID] = s.Applied
		p.machines[s.ID] = s.Host
		p.loads[s.ID] = &orchestratorapi.WorkerLoad{MemoryBytes: s.MemoryBytes, ReadsInFlight: s.ReadsInFlight, Busy: busy[s.ID]}
	}
	c.cache.last, c.cache.began, c.cache.at = p, began, time.Now()
	return p
}

// busyWindow is the shortest time over which a worker's busy share is measured.
const busyWindow = time.Second

// busyShares measures how busy the workers are. Its zero value is ready.
type busyShares struct {
	at     time.Time
	before map[dbaas.WorkerID]work
	shares map[dbaas.WorkerID]float64
}

// of returns the busy share of each worker. It measures a new share at most once in a busyWindow, over the time since
// the previous measurement, and otherwise returns the last one.
func (b *busyShares) of(statuses []workerapi.Status, now time.Time) map[dbaas.WorkerID]float64 {
	if now.Sub(b.at) < busyWindow {
		return b.shares
	}
	b.at, b.shares = now, map[dbaas.WorkerID]float64{}
	seen := map[dbaas.WorkerID]work{}
	for i := range statuses {
		w := workOf(&statuses[i])
		seen[statuses[i].ID], b.shares[statuses[i].ID] = w, w.since(b.before[statuses[i].ID])
	}
	b.before = seen
	return b.shares
}
