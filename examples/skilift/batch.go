package main

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"rideshare/examples/internal/db"
)

const (
	maxBatches = 8                      // in flight
	maxWaiting = 10_000                 // rides that wait for a batch; further ones are refused
	maxAge     = 100 * time.Millisecond // of a ride that waits, unless maxBatches are in flight
)

// batcher collects rides and sends them in batches. A batch is sent when no other is in flight, when it is full, or when
// its oldest ride has waited for maxAge. So the size of a batch follows the load: one ride when there is little load.
type batcher struct {
	size     int // of a full batch
	deadline time.Duration
	send     func([]db.Statement) (db.Answer, error)

	mu       sync.Mutex // guards what follows
	waiting  []*waiter
	inFlight int
}

// waiter is one ride that waits.
type waiter struct {
	ride   db.Statement
	since  time.Time
	done   chan struct{} // closed when answer and err are set
	answer db.Answer
	err    error
}

// newBatcher returns a batcher that stores rides in the database. Each batch has its own key.
func (s *service) newBatcher(async bool) *batcher {
	return &batcher{size: s.batch, deadline: s.deadline, send: func(rides []db.Statement) (db.Answer, error) {
		return s.insist(uuid.NewString(), async, rides...)
	}}
}

// submit stores one ride and waits for its outcome, at most until the deadline.
func (b *batcher) submit(ride db.Statement) (db.Answer, error) {
	if b.size == 1 {
		return result(b.send([]db.Statement{ride}))
	}
	w := &waiter{ride: ride, since: time.Now(), done: make(chan struct{})}
	b.mu.Lock()
	full := len(b.waiting) >= maxWaiting
	if !full {
		b.waiting = append(b.waiting, w)
	}
	b.mu.Unlock()
	if full {
		return db.Answer{}, waiting("too many rides wait")
	}
	b.sendDue()
	defer time.AfterFunc(maxAge, b.sendDue).Stop()
	select {
	case <-w.done:
		return result(w.answer, w.err)
	case <-time.After(b.deadline):
	}
	if b.withdraw(w) {
		return db.Answer{}, waiting("the ride was not sent in time")
	}
	return db.Answer{}, failed(http.StatusGatewayTimeout, "not known whether the write was done")
}

// waiting refuses a ride because too many wait, or it has waited for too long.
func waiting(message string) error {
	return &db.Refusal{Status: http.StatusServiceUnavailable, Reason: "waiting", Message: message}
}

// withdraw removes a ride that still waits, so that it is not sent. It reports false if the ride no longer waits.
func (b *batcher) withdraw(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, w)
	if i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	return i >= 0
}

// sendDue sends the batches that are due.
func (b *batcher) sendDue() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.waiting) > 0 && b.inFlight < maxBatches {
		if b.inFlight > 0 && len(b.waiting) < b.size && time.Since(b.waiting[0].since) < maxAge {
			return
		}
		n := min(b.size, len(b.waiting))
		batch := b.waiting[:n:n]
		b.waiting = b.waiting[n:]
		b.inFlight++
		go b.run(batch)
	}
}

// run sends one batch, then what has become due. Each statement is independent, so that a bad ride fails alone.
func (b *batcher) run(batch []*waiter) {
	rides := make([]db.Statement, len(batch))
	for i, w := range batch {
		rides[i] = w.ride
	}
	a, err := b.send(rides)
	b.mu.Lock()
	b.inFlight--
	b.mu.Unlock()
	b.sendDue()
	for i, w := range batch {
		w.answer, w.err = a, err
		if a.Operation != "" && len(batch) > 1 {
			w.answer.Operation += "." + strconv.Itoa(i) // The operation alone does not name the ride.
		}
		if len(a.Results) == len(batch) { // An asynchronous write has no results.
			w.answer.Results = a.Results[i : i+1]
		}
		close(w.done)
	}
}
