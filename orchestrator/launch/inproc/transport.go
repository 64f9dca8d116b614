package inproc

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"

	"rideshare/internal/dbaas"
)

// hostSuffix follows the worker's id in the host name of its control API.
const hostSuffix = ".worker.inproc"

// Transport returns a RoundTripper that reaches only the control APIs of this launcher's workers. Errors are as over
// TCP: a worker that is dead or never existed refuses the connection; a worker killed during a request resets it.
func (l *Launcher) Transport() http.RoundTripper { return transport{l} }

type transport struct{ launcher *Launcher }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	name, ok := strings.CutSuffix(r.URL.Hostname(), hostSuffix)
	if !ok {
		return nil, fmt.Errorf("no worker's control API: %s", r.URL.Host)
	}
	i, err := t.launcher.find(dbaas.WorkerID(name))
	if err != nil || !i.enter() {
		return nil, connectionError("dial", syscall.ECONNREFUSED)
	}
	w := &responseWriter{header: http.Header{}}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(i.served, cancel)
	done := make(chan struct{})
	go func() { // ends with the handler; the worker's end waits for it
		defer i.requests.Done()
		defer close(done)
		defer cancel()
		defer stop()
		i.control.ServeHTTP(w, serverRequest(ctx, r))
	}()
	select {
	case <-done:
	case <-i.served.Done():
	case <-r.Context().Done():
	}
	// A handler often ends because of one of the two other cases, so they are checked first.
	switch {
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	case i.served.Err() != nil:
		return nil, connectionError("read", syscall.ECONNRESET)
	default:
		return w.response(r), nil
	}
}

// enter admits a request, unless the worker is disconnected. The request then counts as one of the worker's goroutines.
func (i *instance) enter() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.served.Err() != nil {
		return false
	}
	i.requests.Add(1)
	return true
}

func connectionError(op string, cause error) error {
	return &net.OpError{Op: op, Net: "inproc", Err: cause}
}

// serverRequest converts a client's request to what a server receives.
func serverRequest(ctx context.Context, r *http.Request) *http.Request {
	s := r.Clone(ctx)
	s.RequestURI = r.URL.RequestURI()
	s.RemoteAddr = "inproc"
	s.Host = cmp.Or(s.Host, r.URL.Host)
	if s.Body == nil {
		s.Body = http.NoBody
	}
	return s
}

// responseWriter collects an answer. The handler may outlive the request, so a mutex guards the answer.
type responseWriter struct {
	mu     sync.Mutex // guards the fields below
	header http.Header
	sent   http.Header // as it was at WriteHeader
	status int
	body   bytes.Buffer
}

func (w *responseWriter) Header() http.Header { return w.header }

func (w *responseWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *responseWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *responseWriter) writeHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.sent = w.header.Clone()
	}
}

func (w *responseWriter) response(r *http.Request) *http.Response {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)),
		StatusCode:    w.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.sent,
		Body:          io.NopCloser(bytes.NewReader(w.body.Bytes())),
		ContentLength: int64(w.body.Len()),
		Request:       r,
	}
}
