package gateway

import (
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/tracing"
)

const (
	// idleTimeout is below the services' 60 s, so that the gateway closes idle connections first.
	idleTimeout  = 30 * time.Second
	maxIdleConns = 512
)

func newTransport(answerTimeout time.Duration) *http.Transport {
	return &http.Transport{
		MaxIdleConns:          maxIdleConns,
		MaxIdleConnsPerHost:   maxIdleConns,
		IdleConnTimeout:       idleTimeout,
		ResponseHeaderTimeout: answerTimeout,
		// Answers pass unchanged, compressed or not.
		DisableCompression: true,
	}
}

// rewrite makes the outgoing request. It drops X-Idempotency-Key and the Origin of a page of the gateway's own host, and
// sets the X-Forwarded headers, the request's id and the trace. ReverseProxy drops the hop-by-hop headers. The pool
// chooses the instance.
func rewrite(p *httputil.ProxyRequest) {
	p.SetXForwarded()
	p.Out.Header.Set(httpapi.HeaderRequestID, httpapi.RequestID(p.In.Context()))
	tracing.Inject(p.In.Context(), p.Out.Header)
	p.Out.Header.Del("X-Idempotency-Key") // no service knows it, but the transport would repeat a change that has it
	// ReverseProxy drops query parts that it cannot parse; the service must judge them instead.
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	// The path is passed on byte by byte, including escapes. A path that starts with two slashes would be mistaken for a
	// host; for such a path the default is right.
	if raw, _, _ := strings.Cut(p.In.RequestURI, "?"); strings.HasPrefix(raw, "/") && !strings.HasPrefix(raw, "//") {
		p.Out.URL.Opaque = raw
	}
	httpapi.DropOwnOrigin(p.In, p.Out)
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
