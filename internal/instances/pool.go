package instances

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"rideshare/internal/tlsfiles"
)

// Order says which living instance gets a request.
type Order string

// The orders.
const (
	// First selects the first living instance of the list.
	First Order = "first"
	// RoundRobin selects the living instances in turn.
	RoundRobin Order = "round-robin"
)

const keepAlive = 30 * time.Second

// Config is the settings of a Pool. URLs is required.
type Config struct {
	// URLs are the base URLs of the instances, see Parse.
	URLs []string
	// Order is First unless it is set.
	Order Order
	// Transport has the settings of the connections to each instance; nil means those of the zero value. The pool sets the
	// dialer.
	Transport *http.Transport
	// TLS is what the pool trusts and presents; nil means the system's CAs.
	TLS *tlsfiles.Files
	// Now is the clock that decides when a dead instance is probed; nil means time.Now.
	Now func() time.Time
}

// Pool is an http.RoundTripper. It replaces scheme and host of each request by those of the instance. It is safe for
// concurrent use.
type Pool struct {
	instances []*instance
	order     Order
	now       func() time.Time
	next      atomic.Uint64
}

// New returns a Pool. Its error is that of Parse, or an unknown order.
func New(cfg Config) (*Pool, error) {
	urls, err := Parse(cfg.URLs)
	if err != nil {
		return nil, err
	}
	p := &Pool{order: cmp.Or(cfg.Order, First), now: cfg.Now}
	if p.order != First && p.order != RoundRobin {
		return nil, fmt.Errorf("order %q is neither %s nor %s", p.order, First, RoundRobin)
	}
	if p.now == nil {
		p.now = time.Now
	}
	cfg.Transport = cmp.Or(cfg.Transport, &http.Transport{})
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	if len(urls) > 1 {
		dialer.Timeout = dialTimeoutOfSeveral
	}
	for _, u := range urls {
		transport := cfg.Transport.Clone()
		transport.DialContext = dialer.DialContext
		cfg.TLS.Trust(transport)
		p.instances = append(p.instances, &instance{url: u, transport: transport, now: p.now, probeTime: probeTime})
	}
	return p, nil
}

// Base returns the base URL of the first instance, without a trailing slash. Requests to the pool begin with it.
func (p *Pool) Base() string { return p.instances[0].url.String() }

// Several reports whether there is more than one instance.
func (p *Pool) Several() bool { return len(p.instances) > 1 }

// CloseIdleConnections closes idle connections. Requests in progress continue.
func (p *Pool) CloseIdleConnections() {
	for _, in := range p.instances {
		in.transport.CloseIdleConnections()
	}
}

// Error is the error of a request without an answer.
type Error struct {
	// Sent means that an instance may have received the request. Otherwise no instance has received a part of it.
	Sent bool
	// Elsewhere means that the instance is dead from now on and that another one lives. If the request may be repeated, the
	// other one gets it.
	Elsewhere bool
	// Err has the cause, of each instance that was tried.
	Err error
}

func (e *Error) Error() string {
	if e.Sent {
		return e.Err.Error()
	}
	return "no instance takes connections: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Sent reports whether a request may have been received, given the error of its pool.
func Sent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return !ok || e.Sent
}

// RoundTrip implements http.RoundTripper. A request of which no part was sent goes to the next instance, dead ones last. Its
// errors are of type *Error.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	var refused []error
	for _, in := range p.turn() {
		resp, sent, err := p.try(r, in)
		switch {
		case err == nil:
			return resp, nil
		case r.Context().Err() != nil: // it says nothing about the instance
			return nil, &Error{Sent: sent, Err: err}
		case sent:
			if p.blames(r) {
				in.die()
			}
			return nil, &Error{Sent: true, Elsewhere: p.otherLives(in), Err: err}
		}
		in.die()
		refused = append(refused, err)
	}
	return nil, &Error{Err: errors.Join(refused...)}
}

// turn returns the instances in the order to try them, those marked dead last. Dead instances are still tried, since one
// may be back.
func (p *Pool) turn() []*instance {
	if !p.Several() {
		return p.instances
	}
	n, first := uint64(len(p.instances)), uint64(0)
	if p.order == RoundRobin {
		first = p.next.Add(1)
	}
	living, dead := make([]*instance, 0, n), []*instance(nil)
	for i := range n {
		if in := p.instances[(first+i)%n]; in.dead() {
			dead = append(dead, in)
		} else {
			living = append(living, in)
		}
	}
	return append(living, dead...)
}

// blames reports whether an instance that gives no answer to r counts as dead. It does not if the order is round-robin, or if
// the body of the request may be the cause.
func (p *Pool) blames(r *http.Request) bool {
	return p.order == First && (r.Body == nil || r.Body == http.NoBody || r.GetBody != nil)
}

// otherLives reports whether in is dead and another instance lives.
func (p *Pool) otherLives(in *instance) bool {
	return in.dead() && slices.ContainsFunc(p.instances, func(other *instance) bool { return !other.dead() })
}

// try sends r to one instance. sent is false if certainly no part of r was sent.
func (p *Pool) try(r *http.Request, in *instance) (resp *http.Response, sent bool, err error) {
	var left atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteHeaders: func() { left.Store(true) }})
	ended := func() {}
	if p.Several() && p.order == First {
		ctx, ended = in.watch(ctx)
	}
	out := r.WithContext(ctx)
	out.URL = in.at(r.URL)
	out.Host = "" // the instance's own host: on a loopback address it accepts no other.
	if p.Several() && r.Body != nil && r.Body != http.NoBody {
		// The transport closes the body even when it could not connect, but the next instance needs the body.
		out.Body = io.NopCloser(r.Body)
	}
	resp, err = in.transport.RoundTrip(out)
	switch {
	case err != nil:
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = cause
		}
		ended()
	case p.Several():
		resp.Body = &watchedBody{ReadCloser: resp.Body, pool: p, in: in, ctx: r.Context(), ended: ended}
	}
	return resp, left.Load(), err
}

// at returns the URL of a request at the instance.
func (in *instance) at(u *url.URL) *url.URL {
	if u.Host == in.url.Host && u.Scheme == in.url.Scheme {
		return u
	}
	out := *u
	out.Scheme, out.Host = in.url.Scheme, in.url.Host
	return &out
}

// watchedBody is an answer's body. The instance is watched until the body is closed.
type watchedBody struct {
	io.ReadCloser
	pool  *Pool
	in    *instance
	ctx   context.Context // of the request
	ended func()
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && b.ctx.Err() == nil {
		err = &Error{Sent: true, Elsewhere: b.pool.otherLives(b.in), Err: err}
	}
	return n, err
}

// Close implements io.Closer.
func (b *watchedBody) Close() error {
	defer b.ended()
	return b.ReadCloser.Close()
}
