package orchestratorapi

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
)

const (
	// barrierLookups is how many operations a barrier looks up concurrently.
	barrierLookups = 8
	// statusLookups is how many operations GET /status looks up before it judges whether to go on.
	statusLookups = 64
	// surelyKept is the shortest time for which persdb keeps results.
	surelyKept = time.Minute
)

// queuedOp is an operation that is queued here.
type queuedOp struct {
	id     dbaas.OpID
	number int64
	at     time.Time
	queued bool // it may be in the queue; before that, a request is about to queue it
}

// queuedOps numbers the queued operations, and remembers those that are not known to have ended, at most maxPending. If there are
// more, it forgets the older half. The numbers begin after the start time in microseconds, so that the numbers also grow across
// restarts, and are below 2^53, up to which the numbers of JavaScript are exact.
type queuedOps struct {
	mu    sync.Mutex // guards the fields below
	all   []queuedOp // by number
	start int64
	last  int64 // start before the first
}

func newQueuedOps(start time.Time) *queuedOps {
	return &queuedOps{start: start.UnixMicro(), last: start.UnixMicro()}
}

// next returns the number of an operation that has ended.
func (q *queuedOps) next() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	return q.last
}

// begin returns the number of an operation that is about to be queued. The caller must call settle.
func (q *queuedOps) begin(id dbaas.OpID, at time.Time) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	if q.all = append(q.all, queuedOp{id: id, number: q.last, at: at}); len(q.all) > maxPending {
		q.all = slices.Clone(q.all[maxPending/2:])
	}
	return q.last
}

// settle says whether the operation with this number may be in the queue. If not, it was refused or has ended.
func (q *queuedOps) settle(number int64, queued bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, known := slices.BinarySearchFunc(q.all, number, func(op queuedOp, n int64) int { return cmp.Compare(op.number, n) })
	switch {
	case !known: // forgotten, or another request has found that it has ended
	case queued:
		q.all[at].queued = true
	default:
		q.all = slices.Delete(q.all, at, at+1)
	}
}

func (q *queuedOps) list() []queuedOp {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.all)
}

// end removes the operations that have ended.
func (q *queuedOps) end(ended map[dbaas.OpID]bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = slices.DeleteFunc(q.all, func(op queuedOp) bool { return ended[op.id] })
}

// reached returns the highest number up to which all operations have ended, 0 if there is none.
func (q *queuedOps) reached() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	number := q.last
	if len(q.all) > 0 {
		number = q.all[0].number - 1
	}
	if number == q.start {
		return 0
	}
	return number
}

// newestEnded returns the highest number up to which all operations are known to have ended. If very many have ended since the last
// call, it takes several calls to find the number.
func (a *API) newestEnded(ctx context.Context) int64 {
	ctx, cancel := context.WithTimeout(ctx, statusTime/4)
	defer cancel()
	forgettable := a.cfg.Now().Add(-surelyKept)
	all := map[dbaas.OpID]bool{}
	for some := range slices.Chunk(a.queued.list(), statusLookups) {
		ended := await(some, func(op queuedOp) bool { return op.queued && ctx.Err() == nil && a.hasEnded(ctx, op, forgettable) })
		maps.Copy(all, ended)
		if len(ended) < len(some) {
			break
		}
	}
	a.queued.end(all)
	return a.queued.reached()
}

// barrier answers an empty queued write as soon as every write that was queued here earlier is applied or has failed. It first
// sends an empty write through the same queue and waits for it, so that nearly all of them have ended when barrier looks them up.
func (a *API) barrier(c echo.Context, o *options, start time.Time) error {
	queued := slices.DeleteFunc(a.queued.list(), func(op queuedOp) bool { return !op.queued })
	timeout := cmp.Or(o.timeout, a.cfg.CallTimeout)
	ctx, cancel := context.WithTimeout(c.Request().Context(), timeout)
	defer cancel()
	last := dbaas.Operation{
		ID: dbaas.NewOpID(start), Deadline: start.Add(timeout), Statements: []dbaas.Statement{{SQL: ";"}}, RequestID: httpapi.RequestID(ctx),
		User: a.users.Of(c.Request()),
	}
	last.Fingerprint = wire.FingerprintOf(last.Atomic, last.Statements)
	if _, err := a.cfg.Dispatcher.Write(ctx, last); err != nil {
		return err
	}
	ended := await(queued, func(op queuedOp) bool { return a.ended(ctx, op, start.Add(-surelyKept)) })
	a.queued.end(ended)
	if slices.ContainsFunc(queued, func(op queuedOp) bool { return !ended[op.id] }) {
		return dbaas.Errorf(dbaas.CodeTimeout, "not all queued writes have ended yet")
	}
	return a.nothing(c, o, start)
}

// await returns the operations for which ended reports true. It calls ended concurrently.
func await(ops []queuedOp, ended func(queuedOp) bool) map[dbaas.OpID]bool {
	var running sync.WaitGroup
	var mu sync.Mutex // guards ops and found
	found := map[dbaas.OpID]bool{}
	next := func() (op queuedOp, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(ops) == 0 {
			return op, false
		}
		op, ops = ops[0], ops[1:]
		return op, true
	}
	for range barrierLookups {
		running.Go(func() {
			for op, ok := next(); ok; op, ok = next() {
				if ended(op) {
					mu.Lock()
					found[op.id] = true
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	return found
}

// ended waits until an operation is applied or has failed. It reports false if ctx ends first.
func (a *API) ended(ctx context.Context, op queuedOp, forgettable time.Time) bool {
	backoff := wait.Backoff{First: 5 * time.Millisecond, Cap: 200 * time.Millisecond}
	for ctx.Err() == nil {
		if a.hasEnded(ctx, op, forgettable) {
			return true
		}
		backoff.Wait(ctx)
	}
	return false
}

// hasEnded reports whether an operation is applied or has failed. An operation that was queued before forgettable and that persdb
// does not know counts as ended: persdb may have forgotten it. From the caller's answer the client knows of the write, so its next
// read must see the write.
func (a *API) hasEnded(ctx context.Context, op queuedOp, forgettable time.Time) bool {
	result, err := a.cfg.Store.Lookup(ctx, op.id)
	if err == nil {
		a.cfg.Dispatcher.SawSeq(result.Seq)
	}
	return err == nil || dbaas.CodeOf(err) == dbaas.CodeNotFound && op.at.Before(forgettable)
}
