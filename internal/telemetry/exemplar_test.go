package telemetry_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/telemetry"
	"rideshare/internal/testkit/otlptest"
	"rideshare/internal/tracing"
)

// The durations of requests have the newest recorded trace as exemplar, in the format that has exemplars. While tracing is
// off, the format is the plain one.
func TestExemplars_RecordedTraces(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	reg := telemetry.NewRegistry()
	requests, err := telemetry.NewRequests(reg, "users")
	if err != nil {
		t.Fatal(err)
	}
	rpc, err := telemetry.NewRPC(reg)
	if err != nil {
		t.Fatal(err)
	}
	requests.Observe("/x", http.MethodGet, http.StatusOK, time.Millisecond, trace)
	requests.Observe("/x", http.MethodGet, http.StatusOK, time.Millisecond, "")
	rpc.Observe("readQ", "point", dbaas.CodeOK, time.Millisecond, trace)
	handler := telemetry.Handler(reg)
	get := func() (contentType string, exemplars int) {
		req := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
		req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		return w.Header().Get("Content-Type"), strings.Count(w.Body.String(), `# {trace_id="`+trace+`"} 0.001`)
	}
	if contentType, n := get(); !strings.HasPrefix(contentType, "text/plain") || n != 0 {
		t.Errorf("tracing off: got %s with %d exemplars, want plain text", contentType, n)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlptest.Start(t).URL)
	end, err := tracing.Open(t.Context(), "rideshare-test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if contentType, n := get(); !strings.HasPrefix(contentType, "application/openmetrics-text") || n != 2 {
		t.Errorf("tracing on: got %s with %d exemplars, want one for each histogram", contentType, n)
	}
}

// The lines of a request that is recorded have its trace, whatever the logger was given before.
func TestNewLogger_Trace(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlptest.Start(t).URL)
	end, err := tracing.Open(t.Context(), "rideshare-test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	ctx, span := tracing.Serve(httptest.NewRequest(http.MethodGet, "/api/v1/users", http.NoBody), tracing.Users)
	defer span.End(nil)
	log, buf := newLogger(t, telemetry.LogConfig{})
	log.With("a", 1).InfoContext(ctx, "traced")
	log.InfoContext(t.Context(), "not traced")
	got := buf.String()
	if want := `"a":1,"trace":"` + tracing.TraceID(ctx) + `"}` + "\n"; tracing.TraceID(ctx) == "" || !strings.Contains(got, want) || strings.Count(got, "trace\":") != 1 {
		t.Errorf("got %s, want %s in the first line only", got, want)
	}
}
