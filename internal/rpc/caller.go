package rpc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/tracing"
)

const (
	// maxProblem bounds the body of an error, in bytes.
	maxProblem = 64 << 10
	// forever stands for no timeout.
	forever = time.Duration(math.MaxInt64)
)

var errTooLong = errors.New("the answer is too long")

// Caller calls one part. It is safe for concurrent use. All errors of its calls are *dbaas.Error:
//
//   - the code of the part's own answer;
//   - CodeUnavailable, wrapping dbaas.ErrUnreachable, if certainly nothing was sent;
//   - CodeUnknown if the call has an effect and got no answer, CodeUnavailable if it has none. An answer without a
//     code, such as a proxy's, does not come from the part: whatever its status, it proves nothing about what the call
//     refers to, such as whether a worker lives;
//   - the errors of Unreadable.
type Caller struct {
	Peer string // the part's name in messages
	Base string // URL without a trailing slash
	HTTP *http.Client
	// Authorization is the value of the header of the same name, "" for none.
	Authorization string
	// Timeout bounds the wait for an answer and every silence within it. Zero leaves both to the call's context.
	Timeout time.Duration
	// MaxAnswer bounds an answer in memory, in bytes.
	MaxAnswer int64
}

// Request is one call.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         []byte
	// Timeout, if set, replaces the Caller's until the answer begins.
	Timeout time.Duration
	// Effect means that the call may not simply be repeated: without an answer its outcome is unknown.
	Effect bool
}

// Call sends in as JSON, or no body if in is nil, and decodes the JSON answer. The timeout bounds the whole call.
func Call[Out any](ctx context.Context, c *Caller, r Request, in any) (Out, error) {
	var out, none Out
	if in != nil {
		var err error
		if r.Body, err = json.Marshal(in); err != nil {
			return none, dbaas.WrapError(dbaas.CodeInvalid, "the call of "+c.Peer+" cannot be encoded", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, c.Timeout, forever))
	defer cancel()
	body, _, err := c.Fetch(ctx, r)
	if err != nil {
		return none, err
	}
	if err = json.Unmarshal(body, &out); err != nil {
		return none, c.Unreadable(r, err)
	}
	return out, nil
}

// Fetch returns a whole answer and its headers. With the part's own error it returns the headers of that answer.
func (c *Caller) Fetch(ctx context.Context, r Request) ([]byte, http.Header, error) {
	resp, err := c.Open(ctx, r)
	if err != nil && resp != nil {
		return nil, resp.Header, err
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or not needed
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.MaxAnswer+1))
	if err == nil && int64(len(body)) > c.MaxAnswer {
		err = errTooLong
	}
	if err != nil {
		return nil, nil, c.lost(r.Effect, err)
	}
	return body, resp.Header, nil
}

// Open returns an answer of any length as soon as it begins. Its body may take any time while bytes arrive, each arrival
// is reported by wait.ReportProgress, and the Caller's timeout bounds the silence between arrivals. Reading returns io.EOF only
// at the end of the answer; other errors are CodeUnavailable. The caller of Open closes the body. With the part's own error
// Open returns the answer without its body.
func (c *Caller) Open(ctx context.Context, r Request) (*http.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, c.unreached(err)
	}
	ctx, stop := context.WithCancel(ctx)
	timer := time.AfterFunc(cmp.Or(r.Timeout, c.Timeout, forever), stop)
	defer timer.Stop()
	var sent progress
	req, err := http.NewRequestWithContext(sent.trace(ctx), r.Method, c.Base+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		stop()
		return nil, dbaas.WrapError(dbaas.CodeInvalid, "the address of "+c.Peer+" is wrong", err)
	}
	c.setHeaders(req, r)
	resp, err := c.HTTP.Do(req)
	switch {
	case err == nil && resp.StatusCode == http.StatusOK:
		resp.Body = newBody(ctx, resp.Body, stop, c)
		return resp, nil
	case err == nil:
		defer stop()
		return resp, c.refusal(resp, r.Effect)
	case sent.nothing():
		err = c.unreached(err)
	default:
		err = c.lost(r.Effect, err)
	}
	stop()
	return nil, err
}

func (c *Caller) setHeaders(req *http.Request, r Request) {
	maps.Copy(req.Header, r.Header)
	if id := httpapi.RequestID(req.Context()); id != "" {
		req.Header.Set(httpapi.HeaderRequestID, id)
	}
	tracing.Inject(req.Context(), req.Header)
	if c.Authorization != "" {
		req.Header.Set("Authorization", c.Authorization)
	}
}

// progress records how far a request got.
type progress struct{ sought, found atomic.Bool }

func (p *progress) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { p.sought.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { p.found.Store(true) },
	})
}

// nothing reports that certainly nothing was sent. A transport that does not report its connections may have sent
// the request.
func (p *progress) nothing() bool { return p.sought.Load() && !p.found.Load() }

func (c *Caller) unreached(err error) *dbaas.Error {
	return c.lost(false, fmt.Errorf("%w: %w", dbaas.ErrUnreachable, err))
}

// lost returns the error of a call without an answer.
func (c *Caller) lost(effect bool, err error) *dbaas.Error {
	if effect {
		return dbaas.WrapError(dbaas.CodeUnknown, c.Peer+" did not answer, the outcome is not known", err)
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, c.Peer+" cannot be reached", err)
}

// Unreadable returns the error of an answer that cannot be decoded: CodeUnknown for a call with an effect, which may
// have happened, otherwise CodeInternal.
func (c *Caller) Unreadable(r Request, err error) *dbaas.Error {
	if r.Effect {
		return c.lost(true, err)
	}
	return dbaas.WrapError(dbaas.CodeInternal, c.Peer+"'s answer could not be read", err)
}

// refusal restores the error that the part sent, and closes the body.
func (c *Caller) refusal(resp *http.Response, effect bool) *dbaas.Error {
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	e, coded := httpapi.ErrorFromAnswer(resp.StatusCode, resp.Header, body)
	if err != nil || !coded {
		return c.lost(effect, fmt.Errorf("status %d without a code", resp.StatusCode))
	}
	return e
}
