package launchapi

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"

	"rideshare/internal/wait"
)

// events counts the tokens of a launcher's events, so that each of several callers receives those it has not seen. It is
// safe for concurrent use.
type events struct {
	run  string // distinguishes the counts of this process from those of another one
	done chan struct{}
	stop sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	count int
	next  wait.Signal // at each token
}

// newEvents takes tokens until close.
func newEvents(tokens <-chan struct{}) *events {
	e := &events{run: rand.Text()[:8], done: make(chan struct{})}
	e.stop.Go(func() {
		for {
			select {
			case <-tokens:
				e.add()
			case <-e.done:
				return
			}
		}
	})
	return e
}

func (e *events) add() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	e.next.Notify()
}

// now returns the current event id, and a channel that is closed when the id changes.
func (e *events) now() (at string, next <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.run + "-" + strconv.Itoa(e.count), e.next.Next()
}

// wait returns the current event id as soon as it differs from seen, or when ctx or the service ends.
func (e *events) wait(ctx context.Context, seen string) string {
	at, next := e.now()
	if at != seen {
		return at
	}
	select {
	case <-next:
	case <-ctx.Done():
	case <-e.done:
	}
	at, _ = e.now()
	return at
}

// close releases all waiting callers. It is called once.
func (e *events) close() {
	close(e.done)
	e.stop.Wait()
}
