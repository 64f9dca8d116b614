package dispatch

import (
	"context"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/frame"
	"rideshare/internal/mq"
)

// codec is what makes a lane one of reads or of writes.
type codec[Q, R any] struct {
	queue mq.Queue
	// encode makes the frame of reqs. again says that a worker had them, and has ended.
	encode func(reqs []Q, again bool) ([]byte, error)
	// decode calls each for every answer in a reply and reports whether it was the last.
	decode func(body []byte, each func(i int, r R)) (last bool, err error)
	// holder returns who holds the request, if body is a reply that says so, else nil.
	holder func(body []byte) *frame.ReadHeld
	// staleAfter is when an unanswered message no longer keeps others from being sent. Each message that is so
	// old already adds as much to the time of the next, and patience is how many of them at most.
	staleAfter time.Duration
	patience   int
	// windows is how many messages may be in flight before others gather. A further one leaves when
	// as many wait as opens says, for each that is in flight already, and at most.
	windows func(slaves int) int
	opens   threshold
	slaves  func() (int, time.Time)
	// gate fails while nobody can serve.
	gate func(now time.Time) error
	// unsent and lost make the error of a request that ends without an answer:
	// unsent of one that surely was not handed over, lost of any other.
	unsent func(req *Q, cause error) error
	lost   func(req *Q, cause error) error
	// again marks a request that is sent a second time, and doubt an answer to it: the first try may still have
	// another end. nil where trying twice makes no difference.
	again func(req *Q)
	doubt func(r *R)
	// code is how an answer says that the request went.
	code func(r *R) dbaas.Code
}

// lane gathers requests of one class into messages. A window is one message in
// flight, and one goroutine while it is.
type lane[Q, R any] struct {
	codec[Q, R]
	name  string
	cfg   *Config
	bytes *budget // of all lanes' requests
	// life makes the context of a message, which ends at its deadline or with the
	// dispatcher; stopping is closed with the dispatcher.
	life     func(deadline time.Time) (context.Context, context.CancelFunc)
	stopping <-chan struct{}
	pool     sync.Pool // of waiters
	wins     sync.Pool // of windows
	stats    laneStats

	mu      sync.Mutex // guards the fields below
	idle    sync.Cond  // signalled when windows becomes empty and nobody waits
	waiting queue[Q, R]
	open    []*window[Q, R]
	counted int // open windows that keep others from being sent
	held    int // open windows whose message a worker holds for itself
	timer   *time.Timer
	armed   bool
	closed  bool
}

func newLane[Q, R any](ctx context.Context, name string, d *Dispatcher, c codec[Q, R]) *lane[Q, R] {
	l := &lane[Q, R]{codec: c, name: name, cfg: &d.cfg, bytes: &d.requests, stopping: ctx.Done()}
	l.life = func(deadline time.Time) (context.Context, context.CancelFunc) {
		return context.WithDeadline(ctx, deadline)
	}
	l.pool.New = func() any { return newWaiter[Q, R]() }
	l.wins.New = func() any { return &window[Q, R]{lane: l} }
	l.idle.L = &l.mu
	return l
}

// do sends req with others and returns its answer, or what codec's unsent and
// lost make of its end. late says that the answer came after those of others.
func (l *lane[Q, R]) do(ctx context.Context, req Q, size int, deadline time.Time) (result R, late bool, err error) {
	began := l.cfg.Now()
	result, late, err = l.exchange(ctx, req, size, deadline)
	took := l.cfg.Now().Sub(began)
	l.stats.took.Add(int64(took))
	if l.cfg.Observe != nil {
		code := dbaas.CodeOf(err)
		if err == nil {
			code = l.code(&result)
		}
		l.cfg.Observe(Call{Queue: l.queue, Lane: l.name, Code: code, Took: took})
	}
	return result, late, err
}

func (l *lane[Q, R]) exchange(ctx context.Context, req Q, size int, deadline time.Time) (result R, late bool, err error) {
	now := l.cfg.Now()
	if err = l.gate(now); err != nil {
		l.stats.refused.Add(1)
		return result, false, err
	}
	if !deadline.After(now) {
		return result, false, l.unsent(&req, context.DeadlineExceeded)
	}
	w := l.pool.Get().(*waiter[Q, R]) // the pool holds nothing else.
	w.req, w.size, w.deadline, w.since = req, size, deadline, now
	if err = l.enqueue(w, now); err != nil {
		l.stats.refused.Add(1)
		l.free(w)
		return result, false, err
	}
	w.timer.Reset(deadline.Sub(now))
	select {
	case <-w.done:
		return l.collect(w)
	case <-w.timer.C:
		return l.leave(w, context.DeadlineExceeded)
	case <-ctx.Done():
		return l.leave(w, ctx.Err())
	}
}

// collect takes the answer out of w.
func (l *lane[Q, R]) collect(w *waiter[Q, R]) (R, bool, error) {
	result, late, err := w.result, w.late, w.err
	l.free(w)
	return result, late, err
}

// leave is how a caller goes away without an answer.
func (l *lane[Q, R]) leave(w *waiter[Q, R], cause error) (R, bool, error) {
	var none R
	l.mu.Lock()
	if w.queued {
		l.waiting.remove(w)
		l.signalIdle()
		l.mu.Unlock()
		err := l.unsent(&w.req, cause)
		l.free(w)
		l.stats.timeouts.Add(1)
		return none, false, err
	}
	l.mu.Unlock()
	req := w.req // w is the window's from the moment it is abandoned.
	if !w.abandon() {
		<-w.done
		return l.collect(w)
	}
	l.stats.timeouts.Add(1)
	return none, false, l.lost(&req, cause)
}

func (l *lane[Q, R]) free(w *waiter[Q, R]) {
	w.timer.Stop()
	if w.charged {
		l.bytes.give(w.size)
	}
	w.reset()
	l.pool.Put(w)
}

func (l *lane[Q, R]) enqueue(w *waiter[Q, R], now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return dbaas.Errorf(dbaas.CodeUnavailable, "the orchestrator is stopping")
	}
	if l.waiting.n >= l.cfg.QueueLimit {
		return dbaas.Errorf(dbaas.CodeUnavailable, "too many requests are waiting")
	}
	if w.charged = l.bytes.take(w.size); !w.charged {
		return dbaas.Errorf(dbaas.CodeUnavailable, "too many large requests are waiting; try again")
	}
	l.stats.requests.Add(1)
	l.waiting.push(w)
	l.openWindows(now)
	return nil
}

func (l *lane[Q, R]) failWaiting(err error) {
	var none R
	for w := l.waiting.first; w != nil; w = l.waiting.first {
		l.waiting.remove(w)
		l.stats.refused.Add(1)
		if !w.answer(none, err) {
			l.free(w)
		}
	}
	l.signalIdle()
}

func (l *lane[Q, R]) signalIdle() {
	if len(l.open) == 0 && l.waiting.n == 0 {
		l.idle.Broadcast()
	}
}

// drain refuses new requests and waits until nothing waits or is in flight.
func (l *lane[Q, R]) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for len(l.open) > 0 || l.waiting.n > 0 {
		l.idle.Wait()
	}
	if l.timer != nil {
		l.timer.Stop()
	}
}
