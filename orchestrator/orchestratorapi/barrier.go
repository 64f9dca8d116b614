package orchestratorapi

import (
	"cmp"
	"context"
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
	// statusLookups is how many operations GET /status looks up at most.
	statusLookups = 64
	// surelyKept is the shortest time for which persdb keeps results.
	surelyKept = time.Minute
)

// queuedOp is an operation that was queued here.
type queuedOp struct {
	id dbaas.OpID
	at time.Time
	// number is the sequence number of the answer, 0 if the answer has none.
	number int64
}

// queuedOps remembers the queued operations that are not known to have ended, at most maxPending. If there are more, it
// forgets the older half.
type queuedOps struct {
	mu  sync.Mutex // guards all and done
	all []queuedOp
	// done is the highest number of an operation that has ended.
	done int64
}

func (q *queuedOps) add(op queuedOp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all = append(q.all, op); len(q.all) > maxPending {
		q.all = slices.Clone(q.all[maxPending/2:])
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
	q.all = slices.DeleteFunc(q.all, func(op queuedOp) bool {
		if ended[op.id] {
			q.done = max(q.done, op.number)
		}
		return ended[op.id]
	})
}

// numberDone notes that a write with this number has ended.
func (q *queuedOps) numberDone(number int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done = max(q.done, number)
}

// newestEnded returns the highest number of an operation that has ended. Operations of this process run in the order of
// their numbers. It looks up at most statusLookups of the newest operations.
func (q *queuedOps) newestEnded(ctx context.Context, store Store) int64 {
	q.mu.Lock()
	newest, done := slices.Clone(q.all[max(0, len(q.all)-statusLookups):]), q.done
	q.mu.Unlock()
	for _, op := range slices.Backward(newest) {
		if op.number <= done {
			continue
		}
		switch _, err := store.Lookup(ctx, op.id); {
		case err == nil:
			q.end(map[dbaas.OpID]bool{op.id: true})
			return op.number
		case dbaas.CodeOf(err) != dbaas.CodeNotFound: // persdb is away
			return done
		}
	}
	return done
}

// barrier answers an empty queued write, once every write queued here before it is applied or has failed. It first sends
// an empty write through the same queue and waits for it, so that nearly all have ended when barrier looks them up.
func (a *API) barrier(c echo.Context, o *options, start time.Time) error {
	queued := a.queued.list()
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
	ended := a.await(ctx, queued, start.Add(-surelyKept))
	a.queued.end(ended)
	if slices.ContainsFunc(queued, func(op queuedOp) bool { return !ended[op.id] }) {
		return dbaas.Errorf(dbaas.CodeTimeout, "not all queued writes have ended yet")
	}
	return a.nothing(c, o, start)
}

// await returns the operations that end before ctx does. An operation that was queued before forgettable and that persdb
// does not know counts as ended: persdb may have forgotten it.
func (a *API) await(ctx context.Context, ops []queuedOp, forgettable time.Time) map[dbaas.OpID]bool {
	var running sync.WaitGroup
	var mu sync.Mutex // guards ops and ended
	ended := map[dbaas.OpID]bool{}
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
				if a.ended(ctx, op, forgettable) {
					mu.Lock()
					ended[op.id] = true
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	return ended
}

// ended waits until an operation is applied or has failed. It reports false if ctx ends first.
func (a *API) ended(ctx context.Context, op queuedOp, forgettable time.Time) bool {
	backoff := wait.Backoff{First: 5 * time.Millisecond, Cap: 200 * time.Millisecond}
	for ctx.Err() == nil {
		result, err := a.cfg.Store.Lookup(ctx, op.id)
		switch {
		case err == nil:
			a.cfg.Dispatcher.SawSeq(result.Seq)
			return true
		case dbaas.CodeOf(err) == dbaas.CodeNotFound && op.at.Before(forgettable):
			return true
		}
		backoff.Wait(ctx)
	}
	return false
}
