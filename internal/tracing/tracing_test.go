package tracing_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/otlptest"
	"rideshare/internal/tracing"
)

func TestMain(m *testing.M) {
	tracing.SetFlushTime(time.Minute) // however slow the machine is
	m.Run()
}

const (
	trace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	caller = "00f067aa0ba902b7"
)

// on turns tracing on. The returned function turns it off, and returns the spans by name.
func on(t *testing.T) func() map[string]otlptest.Span {
	t.Helper()
	receiver := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	end, err := tracing.Open(t.Context(), "rideshare-test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return func() map[string]otlptest.Span {
		end()
		spans := map[string]otlptest.Span{}
		for _, s := range receiver.Spans() {
			spans[s.Name] = s
		}
		return spans
	}
}

// request is a request to the public API with the flags of a traceparent, or without one.
func request(trace, flags string) *http.Request {
	r := httptest.NewRequest(http.MethodPut, "/api/v1/users", http.NoBody)
	if flags != "" {
		r.Header.Set("Traceparent", "00-"+trace+"-"+caller+"-"+flags)
	}
	return r
}

// Without an endpoint, with the SDK disabled, and without an exporter, nothing is recorded or sent on.
func TestOpen_Off(t *testing.T) {
	for _, env := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
	} {
		t.Run(fmt.Sprint(env), func(t *testing.T) {
			for name, value := range env {
				t.Setenv(name, value)
			}
			end, err := tracing.Open(t.Context(), "rideshare-test", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer end()
			ctx, span := tracing.Serve(request(trace, "01"), tracing.Users)
			h := http.Header{}
			tracing.Inject(ctx, h)
			if tracing.On() || span.Recorded() || tracing.TraceID(ctx) != "" || len(h) > 0 {
				t.Errorf("on %v, recorded %v, trace %q, headers %v; want nothing", tracing.On(), span.Recorded(), tracing.TraceID(ctx), h)
			}
		})
	}
}

// The environment's name of the service takes precedence over the command's.
func TestOpen_ServiceName(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "mine")
	spans := on(t)
	_, span := tracing.Serve(request(trace, "01"), tracing.Users)
	span.End(nil)
	if got := spans()["users PUT"].Service; got != "mine" {
		t.Errorf("service: got %q, want that of OTEL_SERVICE_NAME", got)
	}
}

// While tracing is off, what every request calls allocates nothing.
func TestOff_AllocatesNothing(t *testing.T) {
	r := request(trace, "01")
	links := make([]tracing.Link, 1)
	began := time.Now()
	headers := map[string]string{"traceparent": "00-" + trace + "-" + caller + "-01"}
	got := testing.AllocsPerRun(100, func() {
		ctx, span := tracing.Serve(r, tracing.Users)
		_, inner := tracing.Start(ctx, tracing.Orchestrator, "wait")
		inner.Text("rideshare.lane", "point")
		inner.LinkTo(span.Link())
		links[0] = tracing.Of(ctx)
		_, batch := tracing.Batch(ctx, tracing.Worker, "commit", links, links)
		m := tracing.Received(headers, 1)
		tracing.Passed(m.Context(ctx, 0), tracing.Worker, "wait", began)
		batch.End(nil)
		inner.Failed(dbaas.CodeTimeout, "late")
		inner.End(nil)
		span.Answered(tracing.Users, http.MethodPut, "/api/v1/users", http.StatusOK)
		span.End(nil)
		tracing.Inject(ctx, r.Header)
	})
	if got != 0 {
		t.Errorf("got %v allocations", got)
	}
}

// A span is below the caller's, an error has its code, and the context goes on to the next part.
func TestServe_BelowTheCaller(t *testing.T) {
	spans := on(t)
	ctx, span := tracing.Serve(request(trace, "01"), tracing.Users)
	_, inner := tracing.Start(ctx, tracing.Persdb, "commit")
	inner.End(dbaas.Errorf(dbaas.CodeFull, "no room"))
	h := http.Header{}
	tracing.Inject(ctx, h)
	span.Answered(tracing.Users, http.MethodPut, "/api/v1/users", http.StatusInsufficientStorage)
	span.End(nil)
	got := spans()
	served, commit := got["users PUT /api/v1/users"], got["persdb commit"]
	if served.Trace != trace || served.Parent != caller || served.Service != "rideshare-test" || !served.Failed || served.Ints["http.response.status_code"] != 507 {
		t.Errorf("served: got %+v", served)
	}
	if commit.Parent != served.ID || !commit.Failed || commit.Texts["rideshare.code"] != string(dbaas.CodeFull) {
		t.Errorf("commit: got %+v, want it failed below %s", commit, served.ID)
	}
	if want := "00-" + trace + "-" + served.ID + "-01"; h.Get("Traceparent") != want {
		t.Errorf("traceparent: got %q, want %q", h.Get("Traceparent"), want)
	}
}

// A trace that the caller does not sample is not recorded, and the next part learns that. A malformed traceparent counts
// as none.
func TestServe_Sampling(t *testing.T) {
	on(t)
	for _, tc := range []struct {
		flags, path string
		recorded    bool
	}{
		{"01", "/readyz", true},
		{"00", "/api/v1/users", false},
		{"", "/api/v1/users", true},
		{"", "/db/query", true},
		{"", "/readyz", false},
		{"", "/metrics", false},
		{"zz", "/api/v1/users", true},
		{"zz", "/readyz", false},
	} {
		r := request(trace, tc.flags)
		r.URL.Path = tc.path
		ctx, span := tracing.Serve(r, tracing.Users)
		h := http.Header{}
		tracing.Inject(ctx, h)
		if span.Recorded() != tc.recorded || tracing.On() && tc.recorded != (tracing.TraceID(ctx) != "") {
			t.Errorf("%+v: got %v, trace %q", tc, span.Recorded(), tracing.TraceID(ctx))
		}
		if tc.flags == "00" && !strings.HasSuffix(h.Get("Traceparent"), "-00") {
			t.Errorf("%+v: sent on %q, want it not sampled", tc, h.Get("Traceparent"))
		}
		span.End(nil)
	}
}

// A message of requests of several traces: its span is below the first recorded one and links all recorded ones. The
// receiver's work for a request is in the request's trace.
func TestBatch_OverTheBus(t *testing.T) {
	const other = "0000000000000000000000000000beef"
	spans := on(t)
	var requests []tracing.Link
	for _, r := range []*http.Request{request(trace, "00"), request(trace, "01"), request(other, "01")} {
		ctx, span := tracing.Serve(r, tracing.Users)
		requests = append(requests, tracing.Of(ctx))
		span.End(nil)
	}
	_, message := tracing.Batch(t.Context(), tracing.Orchestrator, "message", requests, requests)
	received := tracing.Received(message.Headers(requests), len(requests))
	message.End(nil)
	for i, name := range []string{"none", "first", "second"} {
		_, span := tracing.Start(received.Context(t.Context(), i), tracing.Worker, name)
		span.End(nil)
	}
	got := spans()
	sent := got["orchestrator message"]
	if sent.Trace != trace || len(sent.Links) != 2 || sent.Parent != sent.Links[0] || sent.Ints["rideshare.requests"] != 3 {
		t.Errorf("message: got %+v, want it below the first of two links, with 3 requests", sent)
	}
	if first := got["worker first"]; first.Parent != sent.ID {
		t.Errorf("first: got %+v, want it below the message %s", first, sent.ID)
	}
	if second := got["worker second"]; second.Trace != other || second.Parent != sent.Links[1] {
		t.Errorf("second: got %+v, want it in its own trace, below %s", second, sent.Links[1])
	}
	if none, is := got["worker none"]; is {
		t.Errorf("got %+v for a request that is not sampled", none)
	}
}

// Work that is not to be recorded is not recorded by the next part either.
func TestUnrecorded_NextPart(t *testing.T) {
	on(t)
	r := request(trace, "")
	tracing.Inject(tracing.Unrecorded(t.Context()), r.Header)
	ctx, span := tracing.Serve(r, tracing.Orchestrator)
	if parent := r.Header.Get("Traceparent"); !strings.HasSuffix(parent, "-00") || span.Recorded() || tracing.TraceID(ctx) != "" {
		t.Errorf("traceparent %q: recorded %v, trace %q; want nothing", parent, span.Recorded(), tracing.TraceID(ctx))
	}
}

// Headers that anybody may have written never fail: what is malformed, or for another number of requests, is no span.
func TestReceived_Hostile(t *testing.T) {
	on(t)
	good := "00-" + trace + "-" + caller + "-01"
	for _, headers := range []map[string]string{
		nil,
		{"traceparent": "x"},
		{"traceparent": good},
		{"rideshare-requests-traceparent": good},
		{"traceparent": good, "rideshare-requests-traceparent": good},
		{"traceparent": good, "rideshare-requests-traceparent": strings.Repeat(",", 1<<20)},
		{"traceparent": good, "rideshare-requests-traceparent": "x,y"},
	} {
		m := tracing.Received(headers, 2)
		for i := range 2 {
			if id := tracing.TraceID(m.Context(t.Context(), i)); id != "" {
				t.Errorf("%.200v: request %d has trace %s", headers, i, id)
			}
		}
	}
}

// The first export that fails is logged, the others are not.
func TestOpen_CollectorAway(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "10")
	var out bytes.Buffer
	end, err := tracing.Open(t.Context(), "rideshare-test", slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, span := tracing.Serve(request(trace, "01"), tracing.Users)
		span.End(nil)
	}
	end()
	lines := slices.DeleteFunc(strings.Split(out.String(), "\n"), func(line string) bool { return !strings.Contains(line, "spans not exported") })
	if len(lines) != 1 {
		t.Errorf("got %d lines, want one:\n%s", len(lines), out.String())
	}
}
