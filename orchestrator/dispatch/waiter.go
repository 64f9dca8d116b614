package dispatch

import (
	"sync/atomic"
	"time"

	"rideshare/internal/tracing"
	"rideshare/orchestrator/admission"
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
	sent     bool // an earlier call has, or may have, handed it to the broker; only the window reads it
	late     bool // its answer was not in the first reply of its message
	state    atomic.Uint32
	done     chan struct{}
	timer    *time.Timer
	// request is the span of the caller's request; inLane is that of its wait. The owner of req owns them.
	request tracing.Link
	inLane  tracing.Span

	// place is in the lane's queue while the request waits, guarded by the lane's mutex.
	place admission.Item[*waiter[Q, R]]
}

func newWaiter[Q, R any]() *waiter[Q, R] {
	w := &waiter[Q, R]{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	w.place.Value = w
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
	w.inLane.End(w.err)
	w.request, w.inLane = tracing.Link{}, tracing.Span{}
	w.req, w.result, w.err = req, result, nil
	w.sent, w.late, w.charged = false, false, false
	w.state.Store(stateSent)
}
