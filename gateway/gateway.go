// Package gateway serves the only port that clients use. /api/v1/users and the paths below it go to the users service,
// everything else to rides. Paths and queries pass exactly as received: no cleaning, no redirects.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/instances"
	"rideshare/internal/logkey"
	"rideshare/internal/tlsfiles"
	"rideshare/internal/tracing"
)

// usersPath is the path of users. Only this path and those below it go to users: /api/v1/usersX does not.
const usersPath = "/api/v1/users"

// defaultTimeout bounds one request through the gateway. It is longer than the services' own timeouts, so that their
// more specific answers come first.
const defaultTimeout = 50 * time.Second

// Config holds the settings of a Gateway. Users, Rides and Log are required.
type Config struct {
	// Users and Rides are the base URLs of the instances of each service, without a path.
	Users, Rides []string
	// Order says which of the instances gets a request; "" means in turn.
	Order instances.Order
	Log   *slog.Logger
	// MaxBody is the longest body passed on, in bytes; zero means httpapi.DefaultMaxBody, the limit of the services.
	MaxBody int64
	// Timeout bounds one request until its answer begins; zero means 50 s.
	Timeout time.Duration
	// Observe is called for each request with the service's name as its route.
	Observe func(route, method string, status int, took time.Duration, trace string)
	// Now is the clock that decides when a dead instance is probed; nil means time.Now.
	Now func() time.Time
	// TLS is what the gateway trusts and presents; nil means the system's CAs.
	TLS *tlsfiles.Files
}

// Gateway forwards requests. It is safe for concurrent use.
type Gateway struct {
	cfg          Config
	users, rides *service
}

// service is one of the two backend services.
type service struct {
	name  string
	pool  *instances.Pool
	proxy *httputil.ReverseProxy
	away  atomic.Int64 // failures since the last answer
}

// New returns a Gateway. It returns an error if a service has no instance, if the URL of an instance is not
// http://host:port, or if the order is unknown.
func New(cfg Config) (*Gateway, error) {
	cfg.MaxBody = cmp.Or(cfg.MaxBody, httpapi.DefaultMaxBody)
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Order = cmp.Or(cfg.Order, instances.RoundRobin)
	g := &Gateway{cfg: cfg}
	var err error
	if g.users, err = g.newService("users", cfg.Users); err != nil {
		return nil, err
	}
	if g.rides, err = g.newService("rides", cfg.Rides); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *Gateway) newService(name string, urls []string) (*service, error) {
	pool, err := instances.New(instances.Config{
		URLs: urls, Order: g.cfg.Order, Transport: newTransport(g.cfg.Timeout), TLS: g.cfg.TLS, Now: g.cfg.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("URLs of %s: %w", name, err)
	}
	if u, _ := url.Parse(pool.Base()); u.Path != "" { // it was parsed before
		return nil, fmt.Errorf("URL %q of %s is not http://host:port", pool.Base(), name)
	}
	s := &service{name: name, pool: pool}
	s.proxy = &httputil.ReverseProxy{
		Rewrite:   rewrite,
		Transport: pool,
		// Even without a FlushInterval, streams (which have no length) are flushed as they come. Other answers are not
		// flushed early, so a short answer leaves in one piece with its headers.
		BufferPool:     &buffers{},
		ErrorLog:       slog.NewLogLogger(g.cfg.Log.Handler(), slog.LevelDebug),
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { g.fail(w, r, s, err) },
		ModifyResponse: func(*http.Response) error { g.answered(s); return nil },
	}
	return s, nil
}

// Handler returns the gateway's HTTP handler.
func (g *Gateway) Handler() http.Handler { return http.HandlerFunc(g.serve) }

// Close closes idle connections to the services. Stop serving first.
func (g *Gateway) Close(context.Context) error {
	g.users.pool.CloseIdleConnections()
	g.rides.pool.CloseIdleConnections()
	return nil
}

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	s := g.rides
	if path := r.URL.EscapedPath(); path == usersPath || strings.HasPrefix(path, usersPath+"/") {
		s = g.users
	}
	ctx, span := tracing.Serve(r, tracing.Gateway)
	r = r.WithContext(httpapi.WithRequestID(ctx, httpapi.RequestIDFrom(ctx, r.Header)))
	record := &recorder{ResponseWriter: w, status: http.StatusOK, progress: httpapi.NewAnswerProgress(w, r)}
	// Deferred because the proxy panics to abort an answer whose rest is lost.
	defer func() {
		status := httpapi.CountedStatus(ctx, record.status)
		span.Answered(tracing.Gateway, httpapi.MethodLabel(r.Method), s.name, status)
		span.End(nil)
		if g.cfg.Observe != nil {
			g.cfg.Observe(s.name, httpapi.MethodLabel(r.Method), status, time.Since(start), tracing.TraceID(ctx))
		}
	}()
	if r.ContentLength > g.cfg.MaxBody {
		refuse(record, r, httpapi.BodyError(&http.MaxBytesError{Limit: g.cfg.MaxBody}))
		return
	}
	if r.ContentLength < 0 {
		r.Body = http.MaxBytesReader(w, r.Body, g.cfg.MaxBody)
	}
	r = withClientBody(r)
	s.proxy.ServeHTTP(record, r)
}

// fail answers a request that the service did not answer.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, s *service, err error) {
	ctx := r.Context()
	if e := bodyFailure(ctx); e != nil { // caused by the client, not by the service
		refuse(w, r, e)
		return
	}
	if ctx.Err() == nil && s.away.Add(1) == 1 {
		g.cfg.Log.WarnContext(ctx, "service does not answer", logkey.Service, s.name,
			logkey.RequestID, httpapi.RequestID(ctx), logkey.Error, err.Error())
	}
	refuse(w, r, explain(r, err))
}

// refuse answers a request with an error.
func refuse(w http.ResponseWriter, r *http.Request, e *dbaas.Error) {
	w.Header().Set(httpapi.HeaderRequestID, httpapi.RequestID(r.Context()))
	httpapi.WriteError(w, r, strings.HasPrefix(r.URL.EscapedPath(), "/api/v1/"), e)
}

// explain returns the error for the client when the service gave no answer. A request that no instance received is
// certainly not done. A read may be retried. For a write that was sent, the outcome is unknown.
func explain(r *http.Request, err error) *dbaas.Error {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	sent := instances.Sent(err)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() && read && sent {
		return dbaas.WrapError(dbaas.CodeTimeout, "the service did not answer in time", err)
	}
	if !sent || read {
		return dbaas.WrapError(dbaas.CodeUnavailable, "the service does not answer", err)
	}
	return dbaas.WrapError(dbaas.CodeUnknown, "the service did not answer", err)
}

// answered ends a streak of failures of s by logging one line with their number.
func (g *Gateway) answered(s *service) {
	if s.away.Load() == 0 {
		return
	}
	if n := s.away.Swap(0); n > 0 {
		g.cfg.Log.Warn("service answers again", logkey.Service, s.name, logkey.Count, n)
	}
}

// recorder remembers the status of an answer, and gives the client time for a long one.
type recorder struct {
	http.ResponseWriter
	status   int
	progress httpapi.AnswerProgress
}

func (w *recorder) Write(p []byte) (int, error) {
	w.progress.Next(int64(len(p)))
	return w.ResponseWriter.Write(p)
}

func (w *recorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the real writer, to flush streams.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
