// Package tracing records spans of requests with OpenTelemetry, and carries their contexts over HTTP and the bus. It is
// off unless an endpoint is configured. All its functions are then a nil check, and allocate nothing. DESIGN.md says
// which spans there are.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"rideshare/internal/logkey"
	"rideshare/internal/wait"
)

// flushTime bounds the export of the last spans when a process ends. With the time for its requests it stays below the
// 10 s within which `up` promises to end. Only tests change it.
var flushTime = time.Second

const (
	// maxLinks is the limit of links of a span: more than a commit has operations. OpenTelemetry's default is 128.
	maxLinks = 1024
	// scope names the source of the spans.
	scope = "rideshare"
)

// active is the tracer of this process; nil while tracing is off. OpenTelemetry's own default is global too: requests
// pass through too many parts to hand it to each of them.
var active atomic.Pointer[tracer]

type tracer struct{ trace.Tracer }

// configured reports whether the environment asks for traces.
func configured() bool {
	off := strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none"
	return !off && cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != ""
}

// Open turns tracing on for this process if the environment has an endpoint, by OpenTelemetry's OTEL_ variables. service
// is the default of OTEL_SERVICE_NAME. The returned function exports the last spans, within a second, and turns tracing
// off. A collector that does not answer delays no request: spans wait in a bounded queue, and what does not fit is
// dropped.
func Open(ctx context.Context, service string, log *slog.Logger) (end func(), err error) {
	if !configured() {
		return func() {}, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces", logkey.Error, err.Error()) }))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	// The environment comes last, so that OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attribute.String("service.name", service)), resource.WithFromEnv())
	if err != nil { // what is well-formed counts
		log.WarnContext(ctx, "OTEL_RESOURCE_ATTRIBUTES: not all are used", logkey.Error, err.Error())
	}
	limits := sdktrace.NewSpanLimits()
	if os.Getenv("OTEL_SPAN_LINK_COUNT_LIMIT") == "" {
		limits.LinkCountLimit = maxLinks
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&reporting{SpanExporter: exporter, log: log}), sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits),
	)
	active.Store(&tracer{provider.Tracer(scope)})
	log.InfoContext(ctx, "traces on")
	return func() {
		active.Store(nil)
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		if err := provider.Shutdown(flush); err != nil {
			log.WarnContext(flush, "last spans not exported", logkey.Error, err.Error())
		}
	}, nil
}

// reporting logs the first of several exports that fail, and the end of such a series. The processor calls it from one
// goroutine at a time.
type reporting struct {
	sdktrace.SpanExporter

	log     *slog.Logger
	failing wait.Streak
}

// ExportSpans implements sdktrace.SpanExporter. The spans of a failed export are lost.
func (r *reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil:
		if r.failing.Fail() {
			r.log.WarnContext(ctx, "spans not exported", logkey.Count, len(spans), logkey.Error, err.Error())
		}
	case r.failing.Count() > 0:
		r.log.InfoContext(ctx, "spans exported again", logkey.Count, r.failing.End())
	}
	return nil
}
