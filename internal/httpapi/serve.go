package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/reqlog"
	"rideshare/internal/tracing"
)

// Param returns a path parameter, percent-decoded exactly once.
func Param(c echo.Context, name string) string {
	raw := c.Param(name)
	// The server has already refused malformed escapes when it parsed the request line.
	if decoded, err := url.PathUnescape(raw); err == nil {
		return decoded
	}
	return raw
}

// serve is the only middleware: it finds the path's rules, runs the handler, converts its error to an answer, and
// records the request.
func (a *API) serve(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start, ctx := time.Now(), c.Request().Context() // a stream gets another context, see Guard
		rt := a.match(c)
		defer func() { a.account(ctx, c, rt, time.Since(start)) }() // deferred because a handler panics to abort its answer
		err := a.run(c, rt, next)
		cut := err != nil && c.Response().Committed
		if err != nil {
			a.fail(c, rt, err)
		} else {
			a.recovered(c, rt)
		}
		if cut { // the client must not take the partial answer for complete
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

// match returns the rules of the request's path, nil for an unknown path.
//
// Echo falls back to a parameter route if the literal route lacks the method (POST /rides/count becomes /rides/:id),
// and its last parameter matches slashes too. match corrects both.
func (a *API) match(c echo.Context) *route {
	path := c.Request().URL.RawPath
	rt, ok := a.routes[path]
	if !ok {
		rt, ok = a.routes[c.Path()]
	}
	if !ok || strings.Count(path, "/") != rt.segments || (len(path) > 1 && strings.HasSuffix(path, "/")) {
		return nil
	}
	return rt
}

// run calls the handler if path, method and body length are valid. A panic becomes an internal error.
func (a *API) run(c echo.Context, rt *route, next echo.HandlerFunc) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = a.panicked(c, p)
		}
	}()
	if rt == nil {
		return dbaas.Errorf(dbaas.CodeNotFound, "no such path")
	}
	for _, fn := range rt.onRequest {
		fn()
	}
	if !slices.Contains(rt.methods, c.Request().Method) {
		c.Response().Header().Set(echo.HeaderAllow, rt.allow)
		if c.Request().Method == http.MethodOptions {
			return c.NoContent(http.StatusNoContent)
		}
		return errMethod
	}
	if err := limitBody(c.Response().Writer, c.Request(), rt.maxBody); err != nil {
		return err
	}
	return next(c)
}

// panicked logs a handler's panic and returns the error to answer with. If the answer has begun, it is aborted, so
// that the client does not take it for complete.
func (a *API) panicked(c echo.Context, p any) error {
	if p == http.ErrAbortHandler { //nolint:errorlint // It is recovered as the value itself, as net/http documents.
		panic(p)
	}
	a.cfg.Log.ErrorContext(c.Request().Context(), "handler panicked",
		logkey.RequestID, RequestID(c.Request().Context()), logkey.Route, c.Path(),
		logkey.Reason, fmt.Sprint(p), "stack", string(debug.Stack()))
	if c.Response().Committed {
		panic(http.ErrAbortHandler)
	}
	return errPanicked
}

// fail answers with err and logs it. It is the only place that logs errors of requests.
func (a *API) fail(c echo.Context, rt *route, err error) {
	ctx := c.Request().Context()
	status := statusOf(err)
	level, message := slog.LevelDebug, "request refused"
	switch {
	case err == errPanicked: //nolint:errorlint // It is never wrapped, and was logged where it happened.
	case c.Response().Committed && ofConnection(err): // The client has left, or does not read.
	case status == http.StatusInternalServerError:
		level, message = slog.LevelError, "request went wrong"
	case codeOf(err) == dbaas.CodeNotCaughtUp: // Not an outage: the client asked for a position far ahead.
	case status > http.StatusInternalServerError && rt != nil && ctx.Err() == nil && rt.refuse(time.Now()):
		level, message = slog.LevelWarn, "outage began"
	}
	if a.cfg.Log.Enabled(ctx, level) {
		a.cfg.Log.Log(ctx, level, message, logkey.RequestID, RequestID(ctx), logkey.Method, c.Request().Method, //nolint:sloglint // One of three constants.
			logkey.Route, c.Path(), logkey.Status, status, logkey.Error, err.Error())
	}
	if c.Response().Committed {
		return
	}
	WriteError(c.Response(), c.Request(), rt != nil && rt.course, err)
}

// ofConnection reports whether an error is of the connection to the client.
func ofConnection(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}

// refuse counts an outage error, and reports whether it is the first one of an outage.
func (rt *route) refuse(now time.Time) (first bool) {
	rt.refusedAt.Store(now.UnixNano())
	return rt.refused.Add(1) == 1
}

// outageRest is how long no request to a path must have been refused until an outage counts as over. Under overload
// answers and refusals alternate, and a log line for each change would cost more than the refusals.
const outageRest = time.Second

// recovered ends a series of refusals on a path with one log line that counts them.
func (a *API) recovered(c echo.Context, rt *route) {
	if rt == nil || rt.refused.Load() == 0 || time.Now().UnixNano()-rt.refusedAt.Load() < int64(outageRest) {
		return
	}
	if n := rt.refused.Swap(0); n > 0 {
		a.cfg.Log.WarnContext(c.Request().Context(), "outage ended", logkey.Route, rt.pattern, logkey.Count, n)
	}
}

// account reports a finished request to the metrics and the log. ctx is the context with which the request arrived.
func (a *API) account(ctx context.Context, c echo.Context, rt *route, took time.Duration) {
	pattern := Unmatched
	if rt != nil {
		pattern = rt.pattern
	}
	status := c.Response().Status
	counted := CountedStatus(ctx, status)
	requestOf(ctx).span.Answered(a.cfg.Part, MethodLabel(c.Request().Method), pattern, counted)
	if a.cfg.Observe != nil {
		a.cfg.Observe(pattern, MethodLabel(c.Request().Method), counted, took, tracing.TraceID(ctx))
	}
	code := dbaas.CodeOK
	if status == http.StatusGatewayTimeout {
		code = dbaas.CodeUnknown
	}
	level := reqlog.Level(code, took)
	if a.cfg.Log.Enabled(ctx, level) {
		a.logRequest(c, level, status, took)
	}
}

func (a *API) logRequest(c echo.Context, level slog.Level, status int, took time.Duration) {
	ctx := c.Request().Context()
	a.cfg.Log.Log(ctx, level, "request served", logkey.RequestID, RequestID(ctx),
		logkey.Method, c.Request().Method, logkey.Route, c.Path(), logkey.Status, status, logkey.Took, took)
}

// MethodLabel returns a method as a metric label: OTHER for a non-standard one.
func MethodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "OTHER"
}
