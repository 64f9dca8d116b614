package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/tracing"
)

// DefaultMaxBody is the body limit of a route that sets none, in bytes.
const DefaultMaxBody = 1 << 20

// Config is the settings of an API. Only Log is required.
type Config struct {
	// Log gets one debug line per request, and warnings and errors.
	Log *slog.Logger
	// Part is the part in the spans of requests; "" means no spans.
	Part string
	// MaxBody is the body limit of routes that set none, in bytes; zero means DefaultMaxBody.
	MaxBody int64
	// Budget limits the memory that all requests hold, including those of other APIs with the same Budget. nil means
	// a Budget of DefaultMemory for this API alone.
	Budget *Budget
	// Observe, if set, is called once for each request, after its answer. route is the registered pattern or
	// Unmatched; method is a standard one or "OTHER". So both are safe as metric labels. trace is the id of the
	// request's trace, or "" if it is not recorded.
	Observe func(route, method string, status int, took time.Duration, trace string)
}

// Unmatched is the route that Config.Observe gets for unknown paths.
const Unmatched = "unmatched"

// API is the routes of one service. Register routes with Handle before serving: an API is safe for concurrent
// requests, but not for registration while it serves.
type API struct {
	cfg    Config
	echo   *echo.Echo
	routes map[string]*route // by pattern
}

// route holds the rules of one path, for all its methods.
type route struct {
	pattern   string
	segments  int
	methods   []string
	allow     string
	course    bool
	maxBody   int64
	onRequest []func()
	// refused counts the outage errors of the present outage, so that only the first is logged as a warning. refusedAt is
	// the time of the last one, in Unix nanoseconds.
	refused, refusedAt atomic.Int64
}

// Option is a setting of a path, for all its methods.
type Option func(*route)

// EmptyErrorBodies makes the path's error bodies `{}`, as the course's clients expect, unless the client explicitly accepts
// application/problem+json.
func EmptyErrorBodies() Option { return func(r *route) { r.course = true } }

// MaxBody sets the body limit of the path, in bytes.
func MaxBody(n int64) Option { return func(r *route) { r.maxBody = n } }

// OnRequest calls fn for every request to the path before anything else, including requests that are refused for
// their method or body.
func OnRequest(fn func()) Option {
	return func(r *route) { r.onRequest = append(r.onRequest, fn) }
}

// New returns an API without routes.
func New(cfg Config) *API {
	cfg.MaxBody = cmp.Or(cfg.MaxBody, DefaultMaxBody)
	if cfg.Budget == nil {
		cfg.Budget = NewBudget(DefaultMemory)
	}
	a := &API{cfg: cfg, echo: echo.New(), routes: map[string]*route{}}
	a.echo.HideBanner, a.echo.HidePort = true, true
	// Echo's default trusts any X-Forwarded-For, so that clients could choose their address.
	a.echo.IPExtractor = echo.ExtractIPDirect()
	a.echo.HTTPErrorHandler = func(err error, c echo.Context) { a.fail(c, nil, err) }
	a.echo.Use(a.serve)
	return a
}

// Handle registers h for a method and a pattern such as "/api/v1/users/:username". A parameter matches exactly one
// non-empty path segment; read it with Param. A GET route also answers HEAD. Options of any method of a pattern apply
// to all its methods.
func (a *API) Handle(method, pattern string, h echo.HandlerFunc, opts ...Option) {
	rt, ok := a.routes[pattern]
	if !ok {
		rt = &route{pattern: pattern, segments: strings.Count(pattern, "/"), maxBody: a.cfg.MaxBody}
		a.routes[pattern] = rt
	}
	if !slices.Contains(rt.methods, method) {
		rt.methods = append(rt.methods, method)
	}
	a.echo.Add(method, pattern, h)
	if method == http.MethodGet {
		rt.methods = append(rt.methods, http.MethodHead)
		a.echo.Add(http.MethodHead, pattern, h)
	}
	sorted := slices.Sorted(slices.Values(append([]string{http.MethodOptions}, rt.methods...)))
	rt.allow = strings.Join(slices.Compact(sorted), ", ")
	for _, opt := range opts {
		opt(rt)
	}
}

// Routes returns the registered routes, such as "GET /api/v1/users/:username", sorted.
func (a *API) Routes() []string {
	var all []string
	for pattern, rt := range a.routes {
		for _, method := range rt.methods {
			all = append(all, method+" "+pattern)
		}
	}
	slices.Sort(all)
	return all
}

// HandleFunc registers a handler that does not use echo. Otherwise it is Handle.
func (a *API) HandleFunc(method, pattern string, h func(w http.ResponseWriter, r *http.Request) error) {
	a.Handle(method, pattern, func(c echo.Context) error { return h(c.Response(), c.Request()) })
}

// HandleHTTP registers a plain http.Handler, such as the handler of /metrics.
func (a *API) HandleHTTP(method, pattern string, h http.Handler, opts ...Option) {
	a.Handle(method, pattern, echo.WrapHandler(h), opts...)
}

// The headers that every answer has, or every answer to a GET. All answers share these slices, which are never changed: code that sets such a
// header replaces the whole slice.
var (
	noSniff = []string{"nosniff"}
	noStore = []string{"no-store"}
)

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, span := tracing.Serve(r, a.cfg.Part)
	defer span.End(nil)
	id := RequestIDFrom(ctx, r.Header)
	h := w.Header()
	h.Set(HeaderRequestID, id)
	h["X-Content-Type-Options"] = noSniff
	// No cache keeps the answer to another method unless the answer allows it (RFC 9111). Each header counts: a map of more than 8 entries
	// costs each answer some microseconds.
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		h["Cache-Control"] = noStore
	}
	state := &request{id: id, span: span, user: labelOf(r), held: holding{budget: a.cfg.Budget}}
	defer state.held.end()
	r = r.WithContext(context.WithValue(ctx, requestKey{}, state))
	// Echo routes by RawPath only if it differs from the default encoding, and otherwise by the decoded path. Always
	// routing by the encoded path allows Param to decode exactly once.
	u := *r.URL
	u.RawPath = r.URL.EscapedPath()
	r.URL = &u
	a.echo.ServeHTTP(w, r)
}
