package tracing

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"rideshare/internal/dbaas"
)

// The parts that spans belong to.
const (
	Gateway      = "gateway"
	Users        = "users"
	Rides        = "rides"
	Orchestrator = "orchestrator"
	Worker       = "worker"
	Persdb       = "persdb"
)

// header reads and writes traceparent and tracestate.
var header propagation.TraceContext

// Span is a span being recorded, or nothing: the zero value is a span that is not recorded. End it once; later calls of
// End do nothing.
type Span struct{ span trace.Span }

// Link identifies a recorded span, perhaps of another process. The zero value identifies none.
type Link struct{ at trace.SpanContext }

// On reports whether this process records spans.
func On() bool { return active.Load() != nil }

// Serve starts the span of an HTTP request to a part, below the span in the request's traceparent. Without that, only
// requests to the public API start a trace: probes and pages do not. Whether a new trace is recorded is up to
// OTEL_TRACES_SAMPLER; by default a request with a traceparent follows its sampled flag, and any other one is recorded.
func Serve(r *http.Request, part string) (context.Context, Span) {
	t := active.Load()
	if t == nil || part == "" {
		return r.Context(), Span{}
	}
	ctx := header.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	if !trace.SpanContextFromContext(ctx).IsValid() && !public(r.URL.Path) {
		return ctx, Span{}
	}
	return t.start(ctx, part, method(r), trace.WithSpanKind(trace.SpanKindServer))
}

func public(path string) bool {
	switch path {
	case "/api/v1/live", "/api/v1/events", "/api/v1/changes": // they last as long as their client likes
		return false
	}
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/db/")
}

// method returns the request's method, but not one that a client made up.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "HTTP"
}

// Accept returns the context of a request from another part, with the span in its traceparent.
func Accept(r *http.Request) context.Context {
	return header.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
}

// Inject adds the context's span to the headers of a request.
func Inject(ctx context.Context, h http.Header) {
	if On() {
		header.Inject(ctx, propagation.HeaderCarrier(h))
	}
}

// Unrecorded returns ctx with a trace that no part records, for work in the background that would otherwise be a trace of
// its own.
func Unrecorded(ctx context.Context) context.Context {
	if !On() {
		return ctx
	}
	var config trace.SpanContextConfig
	_, _ = rand.Read(config.TraceID[:]) // crypto/rand.Read never fails, by its documentation
	_, _ = rand.Read(config.SpanID[:])
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(config))
}

// Start starts a span below the context's span. It is not recorded if the context's span is not.
func Start(ctx context.Context, part, name string) (context.Context, Span) {
	t := active.Load()
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, Span{}
	}
	return t.start(ctx, part, name)
}

// Passed records a span of a part that began at the given time and ends now.
func Passed(ctx context.Context, part, name string, began time.Time) {
	t := active.Load()
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return
	}
	_, span := t.start(ctx, part, name, trace.WithTimestamp(began))
	span.End(nil)
}

// Batch starts a span that serves several requests, and links them. Its parent is the first of parents that is recorded;
// parents and requests may be the same. If none is recorded, the span is not.
func Batch(ctx context.Context, part, name string, parents, requests []Link) (context.Context, Span) {
	t := active.Load()
	if t == nil {
		return ctx, Span{}
	}
	for _, parent := range parents {
		if !parent.at.IsSampled() {
			continue
		}
		var links []trace.Link
		for _, request := range requests {
			if request.at.IsSampled() {
				links = append(links, trace.Link{SpanContext: request.at})
			}
		}
		inner, span := t.start(parent.Into(ctx), part, name, trace.WithLinks(links...))
		span.Int("rideshare.requests", len(requests))
		return inner, span
	}
	return ctx, Span{}
}

func (t *tracer) start(ctx context.Context, part, name string, opts ...trace.SpanStartOption) (context.Context, Span) {
	ctx, span := t.Start(ctx, part+" "+name, append(opts, trace.WithAttributes(attribute.String("rideshare.part", part)))...)
	if !span.IsRecording() {
		return ctx, Span{}
	}
	return ctx, Span{span}
}

// Of returns the context's span, if it is recorded.
func Of(ctx context.Context) Link {
	if !On() {
		return Link{}
	}
	if at := trace.SpanContextFromContext(ctx); at.IsSampled() {
		return Link{at}
	}
	return Link{}
}

// TraceID returns the id of the context's trace, or "" if the trace is not recorded.
func TraceID(ctx context.Context) string {
	if at := Of(ctx).at; at.IsSampled() {
		return at.TraceID().String()
	}
	return ""
}

// Into returns ctx with the linked span as its span.
func (l Link) Into(ctx context.Context) context.Context {
	if !l.at.IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, l.at)
}

// Link returns a link to the span.
func (s Span) Link() Link {
	if s.span == nil {
		return Link{}
	}
	return Link{s.span.SpanContext()}
}

// Recorded reports whether the span is recorded.
func (s Span) Recorded() bool { return s.span != nil }

// LinkTo adds a link to another span.
func (s Span) LinkTo(other Link) {
	if s.span != nil && other.at.IsValid() {
		s.span.AddLink(trace.Link{SpanContext: other.at})
	}
}

// Text and Int add an attribute.
func (s Span) Text(key, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// Int is Text for a number.
func (s Span) Int(key string, value int) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int(key, value))
	}
}

// Answered adds the route and the status of an HTTP request. A status from 500 is an error.
func (s Span) Answered(part, method, route string, status int) {
	if s.span == nil {
		return
	}
	s.span.SetName(part + " " + method + " " + route)
	s.span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route), attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		s.span.SetStatus(codes.Error, http.StatusText(status))
	}
}

// End ends the span. If err is not nil, the span is an error with err's code.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.Failed(dbaas.CodeOf(err), err.Error())
	}
	s.span.End()
}

// Failed marks the span as an error, unless code is CodeOK.
func (s Span) Failed(code dbaas.Code, message string) {
	if s.span != nil && code != dbaas.CodeOK {
		s.span.SetAttributes(attribute.String("rideshare.code", string(code)))
		s.span.SetStatus(codes.Error, message)
	}
}
