package dbclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// call is one HTTP request to the orchestrator.
type call struct {
	method, path string
	body         []byte
	write        bool
	opts         Options
}

// answered is a good answer.
type answered struct {
	seq  dbaas.Seq
	body []byte
}

// call sends k and returns the answer, or an *dbaas.Error. A position that came
// with an error answer is returned too.
func (c *Client) call(ctx context.Context, k call) (answered, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ownKey := k.write && k.opts.Key == ""
	if ownKey {
		k.opts.Key = newKey()
	}
	// left tells a request that never left from one that may have arrived. It
	// stays set when the transport tries again after a connection that broke.
	var left atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { left.Store(true) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), k.method, c.base+k.path, bytes.NewReader(k.body))
	if err != nil {
		return answered{}, dbaas.WrapError(dbaas.CodeInternal, "make request", err)
	}
	req.Header = c.header(ctx, k)
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return answered{}, lost(ctx, k, left.Load(), err)
	}
	defer func() { _ = resp.Body.Close() }() // The body is read to its end or given up; nothing to tell.
	body, err := readAnswer(resp)
	if err != nil {
		return answered{}, lost(ctx, k, true, err)
	}
	seq, _ := strconv.ParseUint(resp.Header.Get(httpapi.HeaderSeq), 10, 64) // Zero where it is missing.
	ans := answered{seq: dbaas.Seq(seq), body: body}
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices {
		return ans, refused(k, ownKey, resp, body)
	}
	return ans, nil
}

// readAnswer reads a whole answer, up to maxAnswer.
func readAnswer(resp *http.Response) ([]byte, error) {
	var buf bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= maxAnswer {
		buf.Grow(int(n) + bytes.MinRead)
	}
	n, err := io.Copy(&buf, io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && n > maxAnswer {
		err = errors.New("answer is too long")
	}
	return buf.Bytes(), err
}

// lost returns the error for a call without an answer. What never left was
// surely not done, nor was a read; a write that may have arrived is unknown.
func lost(ctx context.Context, k call, sent bool, err error) error {
	switch {
	case k.write && sent:
		return &dbaas.Error{Code: dbaas.CodeUnknown, Message: "no answer from the database", Op: opID(k.opts.Key), Err: err}
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && !k.write:
		return dbaas.WrapError(dbaas.CodeTimeout, "no answer from the database in time", err)
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "the database cannot be reached", err)
}

// refused returns the error that an error answer stands for. Where our own
// credentials, paths or statements were wrong it is not the client's fault.
func refused(k call, ownKey bool, resp *http.Response, body []byte) error {
	e := httpapi.ErrorFromAnswer(resp.StatusCode, resp.Header, body)
	switch e.Code { //nolint:exhaustive // The others mean to our caller what they mean to us.
	case dbaas.CodeUnauthorized, dbaas.CodeInvalid, dbaas.CodeNotFound, dbaas.CodeOK:
		return dbaas.WrapError(dbaas.CodeInternal, "database call", e)
	case dbaas.CodeInternal:
		if k.write {
			e.Code = dbaas.CodeUnknown
		}
	case dbaas.CodeConflict:
		// The transport sent it again while the first one still ran.
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
		e.Op = opID(k.opts.Key)
	}
	return e
}

// opID is the operation's id as the orchestrator derives it.
func opID(key string) dbaas.OpID { return dbaas.OpIDFromKey(key) }
