package dispatch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/tracing"
	"rideshare/internal/wire"
	"rideshare/orchestrator/admission"
)

// codec holds what differs between a lane of reads and a lane of writes.
type codec[Q, R any] struct {
	queue mq.Queue
	// encode makes the frame of reqs. again means that a worker that held them has died.
	encode func(reqs []Q, again bool) ([]byte, error)
	// decode calls each once per answer in a reply, and reports whether the reply was the last one.
	decode func(body []byte, each func(i int, r R)) (last bool, err error)
	// holder returns the announcement in body that a worker holds the message, or nil if body is an ordinary reply.
	holder func(body []byte) *wire.ReadHeld
	// staleAfter: an unanswered message that is this old is stale and no longer keeps others from being sent. Each
	// message that is already stale adds another staleAfter to that age, for at most patience messages.
	staleAfter time.Duration
	patience   int
	// windows returns how many messages may be in flight, given the number of slaves. With n messages
	// in flight, another one is sent only once min(minBatch.each*n, minBatch.most) requests are waiting.
	windows  func(slaves int) int
	minBatch threshold
	slaves   func() (int, time.Time)
	// gate returns an error while no worker can serve this class.
	gate func(now time.Time) error
	// unsent and lost build the error of a request that ends without an answer: unsent if
	// the request was certainly not handed over, lost otherwise.
	unsent func(req *Q, cause error) error
	lost   func(req *Q, cause error) error
	// again marks a request that is resent. onResent adjusts the answer to a resent request, since the first attempt may
	// still end differently. Both are nil if running a request twice makes no difference.
	again    func(req *Q)
	onResent func(r *R)
	// code returns the code in an answer.
	code func(r *R) dbaas.Code
	// share returns the user of a request, and what the request costs that user: its number of statements.
	share func(req *Q) (user string, cost int)
}

// lane batches requests of one class into messages. A window is one message in
// flight, with a goroutine of its own.
type lane[Q, R any] struct {
	codec[Q, R]
	name  string
	cfg   *Config
	bytes *budget // of all lanes' requests
	limit *admission.LaneLimit
	// handed is how many requests are in a message and have no answer.
	handed atomic.Int64
	// life makes the context of a message, which ends at its deadline or when the
	// dispatcher closes; stopping is closed when the dispatcher closes.
	life     func(deadline time.Time) (context.Context, context.CancelFunc)
	stopping <-chan struct{}
	pool     sync.Pool // of waiters
	wins     sync.Pool // of windows
	stats    laneStats

	mu      sync.Mutex // guards the fields below
	idle    sync.Cond  // signalled when open is empty and no request waits
	waiting *admission.Fair[*waiter[Q, R]]
	open    []*window[Q, R]
	counted int // open windows that keep others from being sent
	held    int // open windows whose message a worker has announced that it holds
	timer   *time.Timer
	armed   bool
	closed  bool
}

func newLane[Q, R any](ctx context.Context, name string, d *Dispatcher, c codec[Q, R]) *lane[Q, R] {
	limit := d.cfg.ReadLimit
	if c.queue == mq.WriteQ {
		limit = d.cfg.WriteLimit
	}
	l := &lane[Q, R]{
		codec: c, name: name, cfg: &d.cfg, bytes: &d.requests, stopping: ctx.Done(),
		limit: admission.NewLaneLimit(limit), waiting: admission.NewFair[*waiter[Q, R]](d.cfg.UserWeights),
	}
	l.life = func(deadline time.Time) (context.Context, context.CancelFunc) {
		return context.WithDeadline(ctx, deadline)
	}
	if gate := d.cfg.Gate; gate != nil {
		l.gate = func(now time.Time) error { return gate(l.queue, now) }
	}
	l.pool.New = func() any { return newWaiter[Q, R]() }
	l.wins.New = func() any { return &window[Q, R]{lane: l} }
	l.idle.L = &l.mu
	return l
}

func (l *lane[Q, R]) use(limit admission.LaneSetting, weights map[string]int) {
	l.limit.Set(limit)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.Weigh(weights)
	l.askAndOpen() // there may be room for more
}

// do sends req, batched with others, and returns its answer, or the error that codec's unsent
// or lost builds. late reports that the answer was not in the first reply of its message.
func (l *lane[Q, R]) do(ctx context.Context, req Q, size int, deadline time.Time) (result R, late bool, err error) {
	began := l.cfg.Now()
	w, how, err := l.admit(ctx, req, size, deadline, began)
	if err == nil {
		result, late, err = l.await(ctx, w, deadline.Sub(began))
		how = outcome(err)
	}
	now := l.cfg.Now()
	took := now.Sub(began)
	l.stats.took.Add(int64(took))
	if l.limit.Adaptive() {
		l.limit.Ended(how, now, took)
	}
	if l.cfg.Observe != nil {
		code := dbaas.CodeOf(err)
		if err == nil {
			code = l.code(&result)
		}
		l.cfg.Observe(Call{Queue: l.queue, Lane: l.name, Code: code, Took: took, Trace: tracing.TraceID(ctx)})
	}
	return result, late, err
}

// admit adds req to the waiting requests of the lane. If admit returns an error, req does not wait, and how is what
// that error means for the lane's limit.
func (l *lane[Q, R]) admit(ctx context.Context, req Q, size int, deadline, now time.Time) (w *waiter[Q, R], how admission.LaneEnd, err error) {
	if err = l.gate(now); err != nil {
		l.stats.refused.Add(1)
		return nil, admission.LaneFailed, err
	}
	if !deadline.After(now) {
		return nil, admission.LaneIgnored, l.unsent(&req, context.DeadlineExceeded)
	}
	w = l.pool.Get().(*waiter[Q, R]) // the pool holds only waiters.
	w.req, w.size, w.deadline, w.since = req, size, deadline, now
	w.request = tracing.Of(ctx)
	_, w.inLane = tracing.Start(ctx, tracing.Orchestrator, "wait")
	w.inLane.Text("rideshare.lane", l.name)
	if err = l.enqueue(w, now); err != nil {
		l.stats.refused.Add(1)
		w.err = err
		l.free(w)
		return nil, admission.LaneIgnored, err
	}
	return w, admission.LaneAnswered, nil
}

// await returns the answer to w's request, within the time that is left.
func (l *lane[Q, R]) await(ctx context.Context, w *waiter[Q, R], left time.Duration) (result R, late bool, err error) {
	w.timer.Reset(left)
	select {
	case <-w.done:
		return l.collect(w)
	case <-w.timer.C:
		return l.leave(w, context.DeadlineExceeded)
	case <-ctx.Done():
		return l.leave(w, ctx.Err())
	}
}

// outcome returns what the end of a request that was in the lane means for the lane's limit. An error that a worker
// returned counts as an answer.
func outcome(err error) admission.LaneEnd {
	switch code := dbaas.CodeOf(err); {
	case code == dbaas.CodeQuota, errors.Is(err, context.Canceled):
		return admission.LaneIgnored
	case errors.Is(err, context.DeadlineExceeded):
		return admission.LaneLate
	case code == dbaas.CodeUnavailable, code == dbaas.CodeUnknown:
		return admission.LaneFailed
	}
	return admission.LaneAnswered
}

// collect returns the answer in w and frees w.
func (l *lane[Q, R]) collect(w *waiter[Q, R]) (R, bool, error) {
	result, late, err := w.result, w.late, w.err
	l.free(w)
	return result, late, err
}

// leave ends a caller's wait at its deadline or cancellation. An answer that has just arrived still counts.
func (l *lane[Q, R]) leave(w *waiter[Q, R], cause error) (R, bool, error) {
	var none R
	l.mu.Lock()
	if w.place.Queued() {
		l.waiting.Remove(&w.place)
		l.signalIdle()
		l.mu.Unlock()
		err := l.unsent(&w.req, cause)
		w.err = err
		l.free(w)
		l.stats.timeouts.Add(1)
		return none, false, err
	}
	l.mu.Unlock()
	req := w.req // once abandoned, w belongs to the window.
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
		return dbaas.WrapError(dbaas.CodeUnavailable, "the orchestrator is stopping", admission.ErrNotSent)
	}
	if w.charged = l.bytes.take(w.size); !w.charged {
		return dbaas.WrapError(dbaas.CodeUnavailable, "too many large requests are waiting; try again", admission.ErrNotSent)
	}
	user, cost := l.share(&w.req)
	if !l.limit.Allows(l.waiting.Len() + int(l.handed.Load())) {
		if err := l.makeRoom(user); err != nil {
			return err
		}
	}
	l.stats.requests.Add(1)
	l.waiting.Push(&w.place, user, cost)
	l.openWindows(now)
	return nil
}

// makeRoom removes a waiting request from the full lane for a newcomer of user. It returns an error if the newcomer must
// be refused. The lane must be locked.
func (l *lane[Q, R]) makeRoom(user string) error {
	if place := l.waiting.Displaced(user); place != nil {
		l.stats.refused.Add(1)
		l.end(place.Value, userQueueFull())
		return nil
	}
	if l.waiting.Others(user) {
		return userQueueFull()
	}
	return &dbaas.Error{Code: dbaas.CodeUnavailable, Message: "too many requests are waiting", Reason: dbaas.ReasonLaneFull}
}

func userQueueFull() error {
	return &dbaas.Error{Code: dbaas.CodeQuota, Message: "too many requests are waiting, and most of them are yours", Reason: dbaas.ReasonUserQueue}
}

// end ends a waiting request with err. The lane must be locked.
func (l *lane[Q, R]) end(w *waiter[Q, R], err error) {
	var none R
	l.waiting.Remove(&w.place)
	if !w.answer(none, err) {
		l.free(w)
	}
}

func (l *lane[Q, R]) failWaiting(err error) {
	for place := l.waiting.Next(); place != nil; place = l.waiting.Next() {
		l.stats.refused.Add(1)
		l.end(place.Value, err)
	}
	l.signalIdle()
}

func (l *lane[Q, R]) signalIdle() {
	if len(l.open) == 0 && l.waiting.Len() == 0 {
		l.idle.Broadcast()
	}
}

// drain refuses new requests and waits until no request waits or is in flight.
func (l *lane[Q, R]) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for len(l.open) > 0 || l.waiting.Len() > 0 {
		l.idle.Wait()
	}
	if l.timer != nil {
		l.timer.Stop()
	}
}
