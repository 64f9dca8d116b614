package dbclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/instances"
)

// call is one HTTP request to the orchestrator.
type call struct {
	method, path string
	body         []byte
	write        bool
	opts         Options
	// authorization is the Authorization header of this call. The id of its operation is derived from it too.
	authorization string
}

// answered is a successful answer.
type answered struct {
	seq  dbaas.Seq
	body []byte
}

// call sends k, with retries if they may help, and returns the answer, or an *dbaas.Error. The position is returned even with an
// error answer, if it always set: the context has a timeout.
func (c *Client) call(ctx context.Context, k call) (ans answered, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ownKey := k.write && k.opts.Key == ""
	if ownKey {
		k.opts.Key = newKey()
	}
	k.authorization = c.authorization()
	deadline, _ := ctx.Deadline() // has one
	err = c.repeat(ctx, k.write, deadline, func() (last ended) {
		ans, last = c.once(ctx, k, ownKey)
		return last
	})
	return ans, err
}

// once sends k once.
func (c *Client) once(ctx context.Context, k call, ownKey bool) (answered, ended) {
	resp, err := c.send(ctx, k)
	if err != nil {
		return answered{}, ended{how: brokenEnd(ctx, err), err: c.lost(ctx, k, err)}
	}
	defer func() { _ = resp.Body.Close() }() // The body was read to its end, or the read failed already.
	body, err := readAnswer(ctx, k, resp)
	if err != nil {
		return answered{}, ended{how: brokenEnd(ctx, err), err: c.lost(ctx, k, err)}
	}
	ans := answered{seq: seqOf(resp), body: body}
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices {
		return ans, c.refused(k, ownKey, resp, body)
	}
	return ans, ended{how: endAnswered}
}

// brokenEnd returns how an attempt without an answer ended. An error of this process, such as too little memory for the
// answer, says nothing about the database.
func brokenEnd(ctx context.Context, err error) end {
	_, own := errors.AsType[*dbaas.Error](err)
	lost, ok := errors.AsType[*instances.Error](err)
	switch {
	case own, errors.Is(context.Cause(ctx), context.Canceled):
		return endGone
	case ok && lost.Elsewhere:
		return endElsewhere
	case instances.Sent(err):
		return endLost
	}
	return endUnavailable
}

// send sends k and returns the answer, whose body the caller closes. If there are several orchestrators, a read asks for the
// newest position that this client has seen. If that position belongs to a database which has been replaced, the read is sent
// again without it.
func (c *Client) send(ctx context.Context, k call) (*http.Response, error) {
	if !c.pool.Several() {
		return c.sendAt(ctx, k, nil)
	}
	var seen *position
	if !k.write {
		seen = c.newest.recent(time.Now())
	}
	resp, err := c.sendAt(ctx, k, seen)
	if err == nil && seen != nil && resp.StatusCode == http.StatusGone {
		_ = resp.Body.Close() // read only: nothing to lose.
		c.newest.forget(seen)
		resp, err = c.sendAt(ctx, k, nil)
	}
	if err == nil {
		c.newest.note(resp.Header, time.Now())
	}
	return resp, err
}

func (c *Client) sendAt(ctx context.Context, k call, seen *position) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, k.method, c.base+k.path, bytes.NewReader(k.body))
	if err != nil {
		return nil, dbaas.WrapError(dbaas.CodeInternal, "make request", err)
	}
	req.Header = c.header(ctx, k, seen)
	return c.pool.RoundTrip(req)
}

// seqOf returns the position in an answer's headers, zero if there is none.
func seqOf(resp *http.Response) dbaas.Seq {
	seq, _ := strconv.ParseUint(resp.Header.Get(httpapi.HeaderSeq), 10, 64)
	return dbaas.Seq(seq)
}

// decodeRoom is the memory for an answer and its decoded rows, as a multiple of the answer's length.
const decodeRoom = 4

// readAnswer reads a whole answer, up to maxAnswer. The incoming request holds the memory until it is answered. If
// there is no room for the answer to a read, the read is refused.
func readAnswer(ctx context.Context, k call, resp *http.Response) ([]byte, error) {
	var buf bytes.Buffer
	if n := resp.ContentLength; n > largeAnswer && n <= maxAnswer {
		if k.write {
			httpapi.Charge(ctx, decodeRoom*n)
		} else if err := httpapi.Hold(ctx, decodeRoom*n); err != nil {
			return nil, err
		}
	}
	if n := resp.ContentLength; n > 0 && n <= maxAnswer {
		buf.Grow(int(n) + bytes.MinRead)
	}
	n, err := io.Copy(&buf, io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && n > maxAnswer {
		err = errors.New("answer is too long")
	}
	return buf.Bytes(), err
}

// lost returns the error for a call without an answer. A request that was never sent was certainly not done; neither
// was a read. The outcome of a write that may have arrived is unknown.
func (c *Client) lost(ctx context.Context, k call, err error) error {
	if e, own := errors.AsType[*dbaas.Error](err); own && (!k.write || e.Code == dbaas.CodeInternal) {
		return err
	}
	switch {
	case k.write && instances.Sent(err):
		return &dbaas.Error{Code: dbaas.CodeUnknown, Message: "no answer from the database", Op: c.opID(k), Err: err}
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && !k.write:
		return dbaas.WrapError(dbaas.CodeTimeout, "no answer from the database in time", err)
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "the database cannot be reached", err)
}

// refused returns the end of an attempt with an error answer. The answer may have a waiting time in its body and in its header:
// the client waits for the longer one. The header's time includes a random second, which spreads the refused clients.
func (c *Client) refused(k call, ownKey bool, resp *http.Response, body []byte) ended {
	e, _ := httpapi.ErrorFromAnswer(resp.StatusCode, resp.Header, body)
	wait := max(e.RetryAfter, httpapi.RetryAfter(resp.Header))
	err := c.meaning(k, ownKey, e)
	return ended{how: endOf(resp.StatusCode, err, k.write), wait: wait, err: err}
}

// meaning returns the error for an error answer. If this service's own credentials, paths or statements were wrong, the
// error is CodeInternal, because the service's client did nothing wrong.
func (c *Client) meaning(k call, ownKey bool, e *dbaas.Error) error {
	switch e.Code { //nolint:exhaustive // The others mean to our caller what they mean to us.
	case dbaas.CodeUnauthorized, dbaas.CodeForbidden, dbaas.CodeInvalid, dbaas.CodeNotFound, dbaas.CodeOK:
		return dbaas.WrapError(dbaas.CodeInternal, "database call", e)
	case dbaas.CodeInternal:
		if k.write {
			e.Code = dbaas.CodeUnknown
		}
	case dbaas.CodeConflict:
		// The transport retried while the first request was still running.
		if ownKey {
			e.Code = dbaas.CodeUnknown
		}
	case dbaas.CodeUnknown, dbaas.CodeTimeout:
		e.Code = dbaas.CodeTimeout
		if k.write {
			e.Code = dbaas.CodeUnknown
		}
	}
	if e.Code == dbaas.CodeUnknown && e.Op.IsZero() {
		e.Op = c.opID(k)
	}
	return e
}

// opID is the operation's id, derived as the orchestrator does.
func (c *Client) opID(k call) dbaas.OpID {
	path, _, _ := strings.Cut(k.path, "?")
	scope := httpapi.KeyScope{Service: httpapi.Orchestrator, Caller: httpapi.CallerOf(k.authorization), Method: k.method, Path: path}
	return scope.OpID(k.opts.Key)
}
