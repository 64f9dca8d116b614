package slave

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/failpoint"
)

// work is the reads of one run and, once one of them was slow, of the run that
// takes over: both claim from it.
type work struct {
	m      *message
	places []int
	next   atomic.Int64
}

// claim returns the next read's place, or false when none is left.
func (w *work) claim() (int, bool) {
	n := w.next.Add(1) - 1
	if n >= int64(len(w.places)) {
		return 0, false
	}
	return w.places[n], true
}

// rest claims everything that is left.
func (w *work) rest() []int {
	var places []int
	for i, ok := w.claim(); ok; i, ok = w.claim() {
		places = append(places, i)
	}
	return places
}

func (w *work) empty() bool { return w.next.Load() >= int64(len(w.places)) }

// run runs reads at once, with a place among the fast, and flushes their answers.
func (e *Executor) run(ctx context.Context, m *message, places []int) {
	w := &work{m: m, places: places}
	if e.enter(ctx, w, e.fast) {
		e.drive(ctx, w)
	}
}

// enter takes a place of a kind. It reports false when the worker ends, or the message gives up; then the
// reads that are left have their answers.
func (e *Executor) enter(ctx context.Context, w *work, kind chan struct{}) bool {
	select {
	case kind <- struct{}{}:
		return true
	case <-w.m.work.Done():
		w.m.refuse(ctx, w.rest())
		return false
	}
}

// drive works until w is empty or was taken over. It owns a place among the fast and
// gives it back, unless the run that took over has it.
func (e *Executor) drive(ctx context.Context, w *work) {
	for {
		r := &run{exec: e, work: w}
		if !w.empty() && !r.do(ctx) {
			places := w.rest()
			<-e.fast
			e.await(ctx, w.m, places) // the replica was thrown away just now
			return
		}
		if r.slow { // nobody else looks at it any more
			<-e.slow
		} else {
			<-e.fast
		}
		w.m.flush(ctx)
		if !r.refused || w.empty() || !e.enterAgain(ctx, w) {
			return
		}
	}
}

// enterAgain takes a place among the fast for work that had one and gave it up. One such run at a time waits
// beside those that come new, so that the many slow reads of one message do not hold up the messages of others.
func (e *Executor) enterAgain(ctx context.Context, w *work) bool {
	w.m.linger(ctx, e.lingering)
	if !e.enter(ctx, w, e.again) {
		return false
	}
	defer func() { <-e.again }()
	return e.enter(ctx, w, e.fast)
}

// run is one read transaction that works on reads until none is left, one was
// taken over, or one was refused.
type run struct {
	exec *Executor
	work *work
	ctx  context.Context // of the present reads
	end  context.CancelFunc
	turn turn

	mu      sync.Mutex // guards the fields below
	timer   *time.Timer
	since   time.Time // when the present read began; zero between reads
	slow    bool      // another run has taken over
	refused bool      // the present read is slow, and there is no place for it now
	over    bool
}

// do reports false when the replica cannot be read now; then it has done nothing.
func (r *run) do(ctx context.Context) bool {
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
	r.timer = time.AfterFunc(r.exec.slowAfter, func() { r.watch(ctx) })
	r.mu.Unlock()
	defer r.stop()
	for {
		i, ok := r.work.claim()
		if !ok || ctx.Err() != nil {
			return true
		}
		r.one(ctx, reader, i)
		if r.leaves() {
			return true
		}
		r.work.m.flushFull(ctx)
	}
}

// one answers one read.
func (r *run) one(ctx context.Context, reader Reader, i int) {
	read := &r.work.m.reads[i]
	now := r.exec.now()
	if !read.Deadline.After(now) {
		r.work.m.add(i, timedOut(), 0)
		return
	}
	seq := reader.Seq()
	if seq < read.MinSeq && !failpoint.On(failpoint.NoPositionWait) {
		// Only a database that has lost its newest entries gets here.
		r.work.m.add(i, notCaughtUp(), 0)
		return
	}
	r.present(now)
	result := reader.Read(r.ctx, read)
	r.present(time.Time{})
	switch {
	case ctx.Err() != nil:
		return // it was cut off by the end of the worker: that is no answer
	case r.work.m.work.Err() != nil:
		result = crowded(false)
	case r.ctx.Err() != nil:
		r.exec.runs.Go(func() { r.exec.runSlow(ctx, r.work, i) })
		return
	}
	result.Seq = seq
	took := time.Duration(0)
	if r.exec.debug || r.leaves() { // reading the clock is a part of what a point read costs
		took = r.exec.now().Sub(now)
	}
	r.work.m.add(i, result, took)
}

func (r *run) present(since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = since
}

func (r *run) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.timer.Stop()
}

// leaves reports whether this run has no more reads to do.
func (r *run) leaves() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slow || r.refused
}

// watch looks at the present read from outside; one that is slow gives its place
// up. One timer for a whole run costs the fast reads nothing.
func (r *run) watch(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.slow || r.refused {
		return
	}
	next := r.exec.slowAfter
	if !r.since.IsZero() {
		age := r.exec.now().Sub(r.since)
		if age >= r.exec.slowAfter {
			r.giveUpPlace(ctx)
			return
		}
		next -= age
	}
	r.timer.Reset(next)
}

// giveUpPlace moves this run among the slow and lets another run take the rest and
// send what is ready. Where there is no room among the slow it ends the present read, which begins again
// when there is some: a place among the fast is for reads that are fast.
func (r *run) giveUpPlace(ctx context.Context) {
	e := r.exec
	select {
	case e.slow <- struct{}{}:
	default:
		r.refused = true
		r.end()
		return
	}
	r.slow = true
	r.turn.slow.Store(true)
	r.work.m.linger(ctx, nil)
	e.Stats.TakenOver.Add(1)
	e.runs.Go(func() { e.drive(ctx, r.work) }) // with the place of this run
	e.runs.Go(func() { r.work.m.flush(ctx) })  // the answers so far have waited long enough
}
