package dispatch

import (
	"sync/atomic"
	"time"
)

// The states of a waiter that has left the queue. Either the window moves it from sent to answered,
// or the caller moves it from sent to abandoned, never both.
const (
	stateSent uint32 = iota
	stateAnswered
	stateAbandoned
)

// waiter is one request and what its caller waits on. Each lane has its own pool of waiters, since
// their channels and timers must not end up in the test bubble (testing/synctest) of another dispatcher.
type waiter[Q, R any] struct {
	req      Q
	size     int
	charged  bool // its size counts among the requests' bytes
	deadline time.Time
	since    time.Time // when it began to wait
	result   R
	err      error
	sent     bool // handed to the broker by an earlier call, or possibly so; only the window reads it
	late     bool // its answer was not in the first reply of its message
	state    atomic.Uint32
	done     chan struct{}
	timer    *time.Timer

	// The queue, guarded by the lane's mutex.
	queued     bool
	prev, next *waiter[Q, R]
}

func newWaiter[Q, R any]() *waiter[Q, R] {
	w := &waiter[Q, R]{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

// answer passes the result to the caller. It returns false if the caller has left;
// then the window owns the waiter and frees it.
func (w *waiter[Q, R]) answer(result R, err error) bool {
	w.result, w.err = result, err
	if !w.state.CompareAndSwap(stateSent, stateAnswered) {
		return false
	}
	w.done <- struct{}{}
	return true
}

// abandon reports whether the caller may leave without an answer. It returns false if an
// answer has just arrived: then that answer counts.
func (w *waiter[Q, R]) abandon() bool {
	return w.state.CompareAndSwap(stateSent, stateAbandoned)
}

func (w *waiter[Q, R]) abandoned() bool { return w.state.Load() == stateAbandoned }

// reset clears the request and its result, so that the pool holds no client's data.
func (w *waiter[Q, R]) reset() {
	var req Q
	var result R
	w.req, w.result, w.err = req, result, nil
	w.sent, w.late, w.charged = false, false, false
	w.state.Store(stateSent)
}

// queue is a linked list of waiters, first come first served. Removing from the middle
// must be cheap, since callers leave at their own deadlines.
type queue[Q, R any] struct {
	first, last *waiter[Q, R]
	n           int
}

func (q *queue[Q, R]) push(w *waiter[Q, R]) {
	w.queued, w.prev, w.next = true, q.last, nil
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.n++
}

func (q *queue[Q, R]) remove(w *waiter[Q, R]) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
	q.n--
}
