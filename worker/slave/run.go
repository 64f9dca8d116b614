package slave

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/tracing"
)

// work holds the reads of a run. If one of them is slow, the run that takes over claims the remaining reads from the
// same work.
type work struct {
	m       *message
	indexes []int
	next    atomic.Int64
}

// claim returns the index of the next read, or false when no read is left.
func (w *work) claim() (int, bool) {
	n := w.next.Add(1) - 1
	if n >= int64(len(w.indexes)) {
		return 0, false
	}
	return w.indexes[n], true
}

// rest claims all remaining reads.
func (w *work) rest() []int {
	var indexes []int
	for i, ok := w.claim(); ok; i, ok = w.claim() {
		indexes = append(indexes, i)
	}
	return indexes
}

func (w *work) empty() bool { return w.next.Load() >= int64(len(w.indexes)) }

// run takes a fast slot, runs the given reads and flushes their answers.
func (e *Executor) run(ctx context.Context, m *message, indexes []int) {
	w := &work{m: m, indexes: indexes}
	if e.enter(ctx, w, e.fast) {
		e.drive(ctx, w)
	}
}

// enter takes a slot of the given kind. It reports false if the worker ends or giveUp is called for the message first.
// After giveUp it refuses the remaining reads.
func (e *Executor) enter(ctx context.Context, w *work, kind chan struct{}) bool {
	select {
	case kind <- struct{}{}:
		return true
	case <-w.m.work.Done():
		w.m.refuse(ctx, w.rest())
		return false
	}
}

// drive works until w is empty or another run has taken it over. It owns a fast slot and releases it, unless that slot
// passed to the other run.
func (e *Executor) drive(ctx context.Context, w *work) {
	for {
		r := &run{exec: e, work: w}
		if !w.empty() && !r.do(ctx) {
			indexes := w.rest()
			<-e.fast
			w.m.flush(ctx)
			e.awaitAgain(ctx, w.m, indexes)
			return
		}
		if r.aged { // w goes on with another transaction in the same slot
			continue
		}
		if r.slow { // safe to read: the run is over
			<-e.slow
		} else {
			<-e.fast
		}
		w.m.flush(ctx)
		if !r.refused && !r.paused || w.empty() || !e.enterAgain(ctx, w) {
			return
		}
	}
}

// enterAgain takes a fast slot for work that had a fast slot and released it. Only one such run at a time competes with
// new runs, so that many slow reads of one message do not delay other messages.
func (e *Executor) enterAgain(ctx context.Context, w *work) bool {
	w.m.earlyAck(ctx, e.earlyAcked)
	if !e.enter(ctx, w, e.again) {
		return false
	}
	defer func() { <-e.again }()
	return e.enter(ctx, w, e.fast)
}

// maxAge is the age of a transaction at which its run begins no further read. The replica ends transactions from twice
// that age on, while its WAL is too long (replica.hardGrace).
const maxAge = 50 * time.Millisecond

// run is one read transaction. It works until no read is left, another run has taken over, a read was refused a slow
// slot, the ready answers fill a reply, or the transaction is older than maxAge.
type run struct {
	exec *Executor
	work *work
	ctx  context.Context // ctx of the reads of this run
	end  context.CancelFunc
	turn turn
	// again means that the read ran before, so that its wait is recorded already.
	again bool
	last  time.Time // when the last read began
	aged  bool      // the transaction is older than maxAge, and reads are left

	mu      sync.Mutex // guards the fields below
	place   *place     // nil for a run that is slow
	timer   *time.Timer
	since   time.Time // when the current read began; zero between reads
	slow    bool      // another run has taken over
	refused bool      // the current read is slow, and no slow slot is free
	paused  bool      // the ready answers fill a reply; it is sent after the slot is released
	over    bool
}

// do runs the transaction. It reports false, having done nothing, when the replica cannot be read now.
func (r *run) do(ctx context.Context) bool {
	r.place = r.exec.vital.enter()
	defer r.leave()
	failpoint.Hit(failpoint.SlaveBeforeRead)
	reader, err := r.work.m.reader()
	if err != nil {
		return false
	}
	defer reader.Close()
	r.turn.turns = r.exec.turns
	reader.Pace(func() { r.turn.pace(r.ctx) })
	defer r.turn.end()
	began := time.Now()
	defer func() { r.exec.Stats.Busy.Add(int64(time.Since(began))) }()
	r.ctx, r.end = context.WithCancel(r.work.m.work)
	defer r.end()
	r.mu.Lock()
	r.timer = time.AfterFunc(slowAfter, func() { r.watch(ctx) })
	r.mu.Unlock()
	defer r.stop()
	for {
		i, ok := r.work.claim()
		if !ok || ctx.Err() != nil {
			return true
		}
		if r.exec.expectsSlot(&r.work.m.reads[i]) {
			r.exec.runs.Go(func() { r.exec.runSlow(ctx, r.work, i, false) })
			continue
		}
		r.one(ctx, reader, i)
		if r.leaves() {
			return true
		}
		if r.work.m.full() { // the answers to many large reads are not all held until the last one
			r.paused = true
			return true
		}
		if r.last.Sub(began) > maxAge && !r.work.empty() {
			r.aged = true
			return true
		}
	}
}

// one answers one read.
func (r *run) one(ctx context.Context, reader Reader, i int) {
	read := &r.work.m.reads[i]
	now := r.exec.now()
	r.last = now
	if !read.Deadline.After(now) {
		r.work.m.add(i, timedOut(), 0)
		return
	}
	seq := reader.Seq()
	if seq < read.MinSeq && !failpoint.On(failpoint.NoPositionWait) {
		// This happens only if the database has lost its newest entries.
		r.work.m.add(i, notCaughtUp(), 0)
		return
	}
	traced := r.work.m.spans.Context(r.ctx, i)
	if !r.again {
		tracing.Passed(traced, tracing.Worker, "wait", r.work.m.arrived)
	}
	_, span := tracing.Start(traced, tracing.Worker, "sqlite")
	defer span.End(nil)
	r.present(now)
	r.turn.calls = 0
	result := reader.Read(r.ctx, read)
	r.present(time.Time{})
	left := r.leaves()
	r.learn(read, now, left)
	switch {
	case ctx.Err() != nil:
		return // the worker's end interrupted the read, so the result is no answer
	case r.work.m.work.Err() != nil:
		result = crowded(false)
	case r.ctx.Err() != nil:
		span.Text("rideshare.end", "interrupted: slow")
		r.exec.runs.Go(func() { r.exec.runSlow(ctx, r.work, i, true) })
		return
	}
	span.Failed(result.Code, result.Message)
	result.Seq = seq
	took := time.Duration(0)
	if r.exec.debug || left { // reading the clock is a notable part of the cost of a point read
		took = r.exec.now().Sub(now)
	}
	r.work.m.add(i, result, took)
}

// learn remembers whether the read that began at began was slow, unless it was fast in a fast slot. left means that it
// left its fast slot.
func (r *run) learn(read *dbaas.Read, began time.Time, left bool) {
	if !left && !r.turn.slow.Load() {
		return
	}
	slow := left || r.exec.now().Sub(began) >= slowAfter
	r.exec.slowReads.learn(read, slow && r.turn.calls >= slowCalls)
}

func (r *run) present(since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = since
	if r.place != nil {
		r.place.beat.Step()
	}
}

// leave releases the run's place, so that the pulse no longer expects a step every few milliseconds.
func (r *run) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaveLocked()
}

// leaveLocked is leave for a caller that holds mu.
func (r *run) leaveLocked() {
	if r.place != nil {
		r.place.leave()
		r.place = nil
	}
}

func (r *run) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.timer.Stop()
}

// leaves reports whether this run claims no more reads.
func (r *run) leaves() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slow || r.refused
}

// watch checks the age of the current read, and moves a slow read out of its fast slot. It uses one timer for the whole
// run, which costs the fast reads nothing.
func (r *run) watch(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.slow || r.refused {
		return
	}
	next := slowAfter
	if !r.since.IsZero() {
		age := r.exec.now().Sub(r.since)
		if age >= slowAfter {
			r.yieldSlot(ctx)
			return
		}
		next -= age
	}
	r.timer.Reset(next)
}

// yieldSlot moves this run to a slow slot, and starts another run for the remaining reads and a flush of the ready
// answers. If no slow slot is free, it cancels the current read, which runs again once a slow slot is free: fast slots
// are reserved for fast reads.
func (r *run) yieldSlot(ctx context.Context) {
	e := r.exec
	r.leaveLocked()
	select {
	case e.slow <- struct{}{}:
	default:
		r.refused = true
		r.end()
		return
	}
	r.slow = true
	r.turn.slow.Store(true)
	r.work.m.earlyAck(ctx, nil)
	e.Stats.TakenOver.Add(1)
	e.runs.Go(func() { e.drive(ctx, r.work) }) // with the fast slot of this run
	e.runs.Go(func() { r.work.m.flush(ctx) })  // the answers so far must not wait for the slow read
}
