package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/rpc"
	"rideshare/internal/wait"
)

// audience says which servers can answer a call.
type audience int

const (
	toAny    audience = iota // every server has the answer
	toActive                 // only the active server
	toOpen                   // every server; the answer is read after the call
)

const (
	// probeAfter is how long a call waits before its server is probed, and the pause between two probes; probeTime is how
	// long a probe may take. A commit may take long, a probe never does: a server without an answer is paused, cut off or
	// dead.
	probeAfter = 300 * time.Millisecond
	probeTime  = time.Second
)

// ask makes a call. With several servers it begins with the server that answered last, and goes on to the next one when
// a server gives no answer, is not the active one, or cannot do it now. It also repeats a call whose outcome is unknown,
// since every call is repeatable. If the servers that answer are all inactive, ask makes one of them the active one.
func ask[T any](ctx context.Context, c *Client, whom audience, r rpc.Request, call func(context.Context, *rpc.Caller, rpc.Request) (T, error)) (T, error) {
	a := attempts[T]{c: c, whom: whom, call: call}
	first := int(c.current.Load())
	for i := range c.servers {
		at := (first + i) % len(c.servers)
		if a.answered && c.isSilent(at) {
			continue
		}
		if a.try(ctx, at, r) {
			return a.out, a.result()
		}
		if dbaas.IsNotActive(a.err) {
			a.idle = append(a.idle, at)
		}
	}
	if whom == toActive && !c.observe && a.refusal == nil {
		// Clients that ask at the same moment ask the same server.
		slices.SortFunc(a.idle, func(a, b int) int { return strings.Compare(c.servers[a].Base, c.servers[b].Base) })
		r.Header = r.Header.Clone()
		if r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Set(HeaderTakeOver, "1")
		for _, at := range a.idle {
			if a.try(ctx, at, r) { // a refusal may mean that this server lacks what another one has.
				return a.out, a.result()
			}
		}
	}
	return a.out, a.result()
}

// attempts is the state of the attempts to make one call.
type attempts[T any] struct {
	c    *Client
	whom audience
	call func(context.Context, *rpc.Caller, rpc.Request) (T, error)
	idle []int // servers that are not active

	answered bool // a server has answered that it cannot do the call
	out      T
	err      error // of the last attempt
	doubtful bool  // an attempt may have been carried out
	refusal  error // the last refusal by a server that cannot do the call now
}

// try makes the call of one server. It returns false if another server may do better.
func (a *attempts[T]) try(ctx context.Context, at int, r rpc.Request) (done bool) {
	c, to, began := a.c, a.c.servers[at], time.Now()
	once := func(ctx context.Context) (T, error) { return a.call(ctx, to, r) }
	switch {
	case len(c.servers) == 1:
		a.out, a.err = once(ctx)
	case a.whom == toOpen:
		if a.err = probe(ctx, to); a.err == nil {
			a.out, a.err = begun(ctx, to, once)
		}
	default:
		a.out, a.err = watched(ctx, to, once)
	}
	a.doubtful = a.doubtful || dbaas.CodeOf(a.err) == dbaas.CodeUnknown
	if unanswered(a.err) {
		// The next call begins with another server, even if this call has no time left to try one.
		c.current.CompareAndSwap(int32(at), int32((at+1)%len(c.servers)))
		if ctx.Err() == nil && time.Since(began) >= probeTime {
			c.silent[at].Store(time.Now().UnixNano())
		}
		return ctx.Err() != nil
	}
	a.answered = true
	switch {
	case dbaas.IsNotActive(a.err):
		return ctx.Err() != nil
	case dbaas.CodeOf(a.err) == dbaas.CodeUnavailable && len(c.servers) > 1:
		a.refusal = a.err
		return ctx.Err() != nil
	}
	c.current.Store(int32(at))
	a.refusal = nil
	return true
}

// silence is how long a server that gave no answer is skipped once another server has answered: trying it again takes longer
// than a probe, and by then the call may have succeeded at a server that became active.
const silence = 2 * time.Second

func (c *Client) isSilent(at int) bool {
	return time.Since(time.Unix(0, c.silent[at].Load())) < silence
}

// unanswered reports whether a server gave no answer of its own.
func unanswered(err error) bool {
	e, ok := errors.AsType[*dbaas.Error](err)
	return ok && e.Err != nil && (e.Code == dbaas.CodeUnavailable || e.Code == dbaas.CodeUnknown)
}

// result returns the error of the call. If an attempt may have been carried out, no later attempt can prove the opposite: the
// code is then CodeUnknown, and the error wraps no cause with another meaning.
func (a *attempts[T]) result() error {
	switch {
	case a.err == nil:
		return nil
	case a.doubtful && dbaas.CodeOf(a.err) != dbaas.CodeUnknown:
		return dbaas.Errorf(dbaas.CodeUnknown, "persdb did not answer, the outcome is not known: %v", a.err)
	case a.refusal != nil && !a.doubtful:
		return a.refusal
	case dbaas.IsNotActive(a.err):
		return dbaas.WrapError(dbaas.CodeUnavailable, "no persdb is the active one", dbaas.ErrUnreachable)
	}
	return a.err
}

// errSilent ends a call whose server answers no probe.
var errSilent = errors.New("it does not answer")

// watched makes a call of a server, and ends it when the server does not answer probes.
func watched[T any](ctx context.Context, to *rpc.Caller, call func(context.Context) (T, error)) (T, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer probeOften(ctx, to, end)()
	return call(ctx)
}

// begun is like watched, for a call whose answer is read after the call: it probes the server until the answer begins.
func begun[T any](ctx context.Context, to *rpc.Caller, call func(context.Context) (T, error)) (T, error) {
	ctx, end := context.WithCancelCause(ctx)
	stop := probeOften(ctx, to, end)
	out, err := call(ctx)
	stop()
	if err != nil {
		end(nil) // otherwise the answer's reader needs the context
	}
	return out, err
}

// probeOften probes a server until stop is called or ctx ends, and calls end when the server does not answer.
func probeOften(ctx context.Context, to *rpc.Caller, end context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	stopTimer := wait.Often(ctx, probeAfter, func() {
		if err := probe(ctx, to); err != nil && ctx.Err() == nil {
			end(errSilent)
		}
	})
	return func() {
		stopTimer()
		cancel()
	}
}

func probe(ctx context.Context, to *rpc.Caller) error {
	_, err := rpc.Call[rpc.None](ctx, to, rpc.Request{Method: http.MethodGet, Path: pathLive, Timeout: probeTime}, nil)
	return err
}

// pathLive answers immediately, whatever else the server does.
const pathLive = "/livez"

// asJSON is ask for a call with a JSON answer, and with a JSON body unless in is nil.
func asJSON[T any](ctx context.Context, c *Client, whom audience, r rpc.Request, in any) (T, error) {
	return ask(ctx, c, whom, r, func(ctx context.Context, to *rpc.Caller, r rpc.Request) (T, error) {
		return rpc.Call[T](ctx, to, r, in)
	})
}

// open is ask for an answer of any length.
func open(ctx context.Context, c *Client, r rpc.Request) (*http.Response, error) {
	return ask(ctx, c, toOpen, r, func(ctx context.Context, to *rpc.Caller, r rpc.Request) (*http.Response, error) {
		return to.Open(ctx, r)
	})
}
