package gateway

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/tracing"
)

const (
	dialTimeout = 2 * time.Second
	// idleTimeout is below the services' 60 s, so that the gateway closes idle connections first.
	idleTimeout  = 30 * time.Second
	maxIdleConns = 512
	// deadFor is how long an instance that refused a connection is skipped: long enough not to slow requests down, short
	// enough to notice its return.
	deadFor = time.Second
)

// errRefused is returned when no instance accepted the connection: certainly nothing was done.
var errRefused = errors.New("no instance takes connections")

func newTransport(answerTimeout time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: idleTimeout}).DialContext,
		MaxIdleConns:          maxIdleConns,
		MaxIdleConnsPerHost:   maxIdleConns,
		IdleConnTimeout:       idleTimeout,
		ResponseHeaderTimeout: answerTimeout,
		// Answers pass unchanged, compressed or not.
		DisableCompression: true,
	}
}

// rewrite makes the outgoing request. Only the hop-by-hop headers differ from the incoming one. The pool chooses the
// instance.
func rewrite(p *httputil.ProxyRequest) {
	p.SetXForwarded()
	p.Out.Header.Set(httpapi.HeaderRequestID, httpapi.RequestID(p.In.Context()))
	tracing.Inject(p.In.Context(), p.Out.Header)
	// ReverseProxy drops query parts that it cannot parse; the service must judge them instead.
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	// The path is passed on byte by byte, including escapes. A path that starts with two slashes would be mistaken for a
	// host; for such a path the default is right.
	if raw, _, _ := strings.Cut(p.In.RequestURI, "?"); strings.HasPrefix(raw, "/") && !strings.HasPrefix(raw, "//") {
		p.Out.URL.Opaque = raw
	}
}

// copyBytes is the size of the buffers that answers pass through.
const copyBytes = 32 << 10

// buffers implements httputil.BufferPool.
type buffers struct{ pool sync.Pool } // of *[]byte

// Get returns a buffer.
func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, copyBytes)
}

// Put returns a buffer to the pool.
func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }

// instance is one address of a service.
type instance struct {
	scheme, host string
	deadUntil    atomic.Int64 // Unix nanoseconds
}

// pool sends each request to the next instance in turn. An instance that refuses the connection is skipped for a while,
// and the request goes to another instance, since no part of it was sent. It is safe for concurrent use.
type pool struct {
	transport http.RoundTripper
	now       func() time.Time
	instances []*instance
	next      atomic.Uint64
}

// RoundTrip implements http.RoundTripper. It returns errRefused when no instance accepts a connection.
func (p *pool) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, in := range p.turn() {
		resp, err := p.try(r, in)
		if !errors.Is(err, errRefused) {
			return resp, err
		}
		if r.Context().Err() != nil {
			return nil, err
		}
		in.deadUntil.Store(p.now().Add(deadFor).UnixNano())
	}
	return nil, errRefused
}

// turn returns the instances in the order to try them: round robin, those marked dead last. Dead instances are still
// tried, since one may be back.
func (p *pool) turn() []*instance {
	n, now := uint64(len(p.instances)), p.now().UnixNano()
	first := p.next.Add(1)
	living, dead := make([]*instance, 0, n), []*instance(nil)
	for i := range n {
		in := p.instances[(first+i)%n]
		if now < in.deadUntil.Load() {
			dead = append(dead, in)
			continue
		}
		living = append(living, in)
	}
	return append(living, dead...)
}

// try sends r to one instance. errRefused means that no part of r was sent.
func (p *pool) try(r *http.Request, in *instance) (*http.Response, error) {
	var left atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { left.Store(true) }}
	out := r.WithContext(httptrace.WithClientTrace(r.Context(), trace))
	u := *r.URL
	u.Scheme, u.Host = in.scheme, in.host
	out.URL = &u
	out.Host = "" // the instance's own host: on a loopback address it accepts no other. X-Forwarded-Host has the client's.
	if r.Body != nil {
		// The transport closes the body even when it could not connect, but the next instance needs the body. The server
		// closes the real one.
		out.Body = io.NopCloser(r.Body)
	}
	resp, err := p.transport.RoundTrip(out)
	if err != nil && !left.Load() {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	return resp, err
}
