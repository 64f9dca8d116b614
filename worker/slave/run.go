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
	select {
	case e.fast <- struct{}{}:
	case <-ctx.Done():
		return
	}
	e.drive(ctx, &work{m: m, places: places})
}

// drive works until w is empty or was taken over. It owns a place among the fast and
// gives it back, unless the run that took over has it.
func (e *Executor) drive(ctx context.Context, w *work) {
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
}

// run is one read transaction that works on reads until none is left or one was
// taken over.
type run struct {
	exec *Executor
	work *work

	mu    sync.Mutex // guards the fields below
	timer *time.Timer
	since time.Time // when the present read began; zero between reads
	slow  bool      // another run has taken over
	over  bool
}

// do reports false when the replica cannot be read now; then it has done nothing.
func (r *run) do(ctx context.Context) bool {
	reader, err := r.exec.source.Reader()
	if err != nil {
		return false
	}
	defer reader.Close()
	began := time.Now()
	defer func() { r.exec.Stats.Busy.Add(int64(time.Since(began))) }()
	r.mu.Lock()
	r.timer = time.AfterFunc(r.exec.slowAfter, func() { r.watch(ctx) })
	r.mu.Unlock()
	defer r.end()
	for {
		i, ok := r.work.claim()
		if !ok || ctx.Err() != nil {
			return true
		}
		r.one(ctx, reader, i)
		if r.takenOver() {
			return true
		}
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
	result := reader.Read(ctx, read)
	r.present(time.Time{})
	if ctx.Err() != nil {
		return // it was cut off by the end of the worker: that is no answer
	}
	result.Seq = seq
	took := time.Duration(0)
	if r.exec.debug || r.takenOver() { // reading the clock is a part of what a point read costs
		took = r.exec.now().Sub(now)
	}
	r.work.m.add(i, result, took)
}

func (r *run) present(since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = since
}

func (r *run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.timer.Stop()
}

func (r *run) takenOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slow
}

// watch looks at the present read from outside; one that is slow gives its place
// up. One timer for a whole run costs the fast reads nothing.
func (r *run) watch(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.slow {
		return
	}
	next := r.exec.slowAfter
	if !r.since.IsZero() {
		age := r.exec.now().Sub(r.since)
		if age >= r.exec.slowAfter && r.giveUpPlace(ctx) {
			return
		}
		if age < r.exec.slowAfter {
			next -= age
		}
	}
	r.timer.Reset(next)
}

// giveUpPlace moves this run among the slow and lets another run take the rest and
// send what is ready. It reports false when there is no room among the slow.
func (r *run) giveUpPlace(ctx context.Context) bool {
	e := r.exec
	select {
	case e.slow <- struct{}{}:
	default:
		return false
	}
	r.slow = true
	r.work.m.linger(ctx)
	e.Stats.TakenOver.Add(1)
	e.runs.Go(func() { e.drive(ctx, r.work) }) // with the place of this run
	e.runs.Go(func() { r.work.m.flush(ctx) })  // the answers so far have waited long enough
	return true
}
