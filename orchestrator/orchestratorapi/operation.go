package orchestratorapi

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/wire"
)

// keyLookup is how long an accepted write with a key waits to learn whether persdb knows the key.
const keyLookup = 500 * time.Millisecond

// newOperation builds the operation of a write request. keyed reports whether the client sent
// an Idempotency-Key. The error is CodeInvalid for a malformed key.
func (a *API) newOperation(c echo.Context, statements []dbaas.Statement, atomic bool) (op dbaas.Operation, keyed bool, err error) {
	key, err := httpapi.IdempotencyKey(c)
	if err != nil {
		return dbaas.Operation{}, false, err
	}
	now := a.cfg.Now()
	op = dbaas.Operation{
		Fingerprint: wire.FingerprintOf(atomic, statements),
		Deadline:    now.Add(a.cfg.CallTimeout),
		Atomic:      atomic,
		Statements:  statements,
		RequestID:   httpapi.RequestID(c.Request().Context()),
		User:        a.users.Of(c.Request()),
	}
	if key == "" {
		op.ID = dbaas.NewOpID(now)
		return op, false, nil
	}
	r := c.Request()
	caller, err := a.cfg.Credentials.Caller(r)
	if err != nil {
		return dbaas.Operation{}, false, err
	}
	scope := httpapi.KeyScope{Service: httpapi.Orchestrator, Caller: caller, Method: r.Method, Path: r.URL.EscapedPath()}
	op.ID = scope.OpID(key)
	op.Resent = true // the first request with a key cannot be distinguished from a retry
	return op, true, nil
}

// run sends op and waits for its result. It refuses op if an operation with the same key is already running.
func (a *API) run(c echo.Context, op dbaas.Operation, keyed bool) (dbaas.OperationResult, error) {
	if keyed {
		if err := a.inFlight.begin(&op); err != nil {
			return dbaas.OperationResult{}, err
		}
		defer a.inFlight.end(op.ID)
	}
	result, err := a.cfg.Dispatcher.Write(c.Request().Context(), op)
	if err != nil {
		return dbaas.OperationResult{}, err
	}
	httpapi.SetSeq(c, result.Seq)
	return result, nil
}

// enqueue hands op to the dispatcher without waiting for its result. It refuses op in the same cases as run. number is
// the operation's sequence number.
func (a *API) enqueue(c echo.Context, op dbaas.Operation, keyed bool) (number int64, err error) {
	ctx, now := c.Request().Context(), a.cfg.Now()
	if keyed {
		if err = a.inFlight.begin(&op); err != nil {
			return 0, err
		}
		defer a.inFlight.end(op.ID)
	}
	number = a.queued.begin(op.ID, now)
	ended, perhaps := false, false
	defer func() { a.queued.settle(number, perhaps && !ended) }() // also after a panic
	if keyed {
		if ended, err = a.again(ctx, op); ended || err != nil {
			return number, err
		}
	}
	ended, err = a.cfg.Dispatcher.Enqueue(ctx, op)
	ended = ended && err == nil
	if perhaps = err == nil || dbaas.CodeOf(err) == dbaas.CodeUnknown; perhaps {
		a.pending.add(op.ID, pendingOp{now, op.Fingerprint, ended})
	}
	return number, err
}

// again reports whether op, whose id is from a client's key, has ended already. It returns CodeMismatch if the key belongs
// to another request that was accepted here or has ended, and the refusal of a stage that counts or delays writes. If
// persdb does not answer, op may be accepted again: then it ends with the result of the first request.
func (a *API) again(ctx context.Context, op dbaas.Operation) (ended bool, err error) {
	other, accepted := a.pending.get(op.ID)
	if accepted && other.fingerprint != op.Fingerprint && a.cfg.Now().Sub(other.since) < surelyKept { // later persdb may have forgotten the key
		return false, errOtherRequest
	}
	ctx, cancel := context.WithTimeout(ctx, keyLookup)
	defer cancel()
	if _, err = a.cfg.Store.Lookup(ctx, op.ID); err != nil {
		return false, nil // op is not known, or persdb does not answer
	}
	_, err = a.cfg.Dispatcher.Write(ctx, op) // persdb compares the requests, and runs nothing.
	switch dbaas.ReasonOf(err) {
	case dbaas.ReasonEventBreaker, dbaas.ReasonDepthBreaker, dbaas.ReasonDepthWait:
		return false, err // if it were queued now, it would pass that stage a second time
	}
	if err != nil && dbaas.CodeOf(err) != dbaas.CodeMismatch {
		return false, nil // it is queued, and compared later
	}
	return err == nil, err
}

// wantsAsync reports whether the client prefers not to wait (RFC 7240).
func wantsAsync(c echo.Context) bool {
	return httpapi.Lists(c.Request().Header, "Prefer", "respond-async")
}

// newRead builds a read from a request, with the position that the request asks for. The error is CodeGone if that is a
// position of another cluster.
func (a *API) newRead(c echo.Context, statements []dbaas.Statement, timeout time.Duration) (dbaas.Read, error) {
	minSeq, err := httpapi.MinSeq(c)
	if err != nil {
		return dbaas.Read{}, err
	}
	deadline := a.cfg.Now().Add(timeout)
	if err = a.checkCluster(c, deadline); err != nil {
		return dbaas.Read{}, err
	}
	return dbaas.Read{
		RequestID:  httpapi.RequestID(c.Request().Context()),
		User:       a.users.Of(c.Request()),
		Deadline:   deadline,
		MinSeq:     minSeq,
		Cache:      cacheUse(c.Request()),
		Statements: statements,
	}, nil
}

// checkCluster returns CodeGone if the client waits for a position of another cluster than the database's.
func (a *API) checkCluster(c echo.Context, deadline time.Time) error {
	id, err := httpapi.ClusterOfMinSeq(c)
	if err != nil || id.IsZero() {
		return err
	}
	err = a.cfg.Dispatcher.CheckCluster(c.Request().Context(), id, deadline)
	if now := a.cfg.Dispatcher.Cluster(); !now.IsZero() { // the check may have found another cluster
		c.Response().Header().Set(httpapi.HeaderCluster, now.String())
	}
	return err
}
