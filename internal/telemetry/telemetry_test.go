package telemetry_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/telemetry"
)

// A line is one JSON object with the part's name, and lines under the level are left out.
func TestNewLogger_LevelAndPart(t *testing.T) {
	for level, want := range map[string][]string{
		"": {"two", "three"}, "DEBUG": {"one", "two", "three"}, "info": {"two", "three"}, "Error": nil,
	} {
		var buf bytes.Buffer
		log, err := telemetry.NewLogger(&buf, level, "users")
		if err != nil {
			t.Fatal(err)
		}
		log.DebugContext(t.Context(), "one")
		log.InfoContext(t.Context(), "two")
		log.WarnContext(t.Context(), "three")
		var got []string
		for line := range strings.Lines(buf.String()) {
			var entry struct{ Msg, Part string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Part != "users" {
				t.Errorf("level %q: line %s (%v)", level, line, err)
			}
			got = append(got, entry.Msg)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("level %q: got %v, want %v", level, got, want)
		}
	}
}

// An unknown level is an error that names the allowed ones.
func TestNewLogger_UnknownLevel(t *testing.T) {
	if _, err := telemetry.NewLogger(&bytes.Buffer{}, "loud", "x"); err == nil || !strings.Contains(err.Error(), "debug, info, warn, error") {
		t.Errorf("got %v, want an error with the allowed levels", err)
	}
}

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// Requests of two parts are counted apart in one registry, also from many goroutines.
func TestRequests_CountsByPartRouteMethodCode(t *testing.T) {
	reg := telemetry.NewRegistry()
	users, err := telemetry.NewRequests(reg, "users")
	if err != nil {
		t.Fatal(err)
	}
	rides, err := telemetry.NewRequests(reg, "rides")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				users.Observe("/x", "GET", 200, time.Millisecond)
			}
		})
	}
	wg.Wait()
	rides.Observe("/x", "GET", 503, time.Second)
	got := scrape(t, telemetry.Handler(reg))
	for _, want := range []string{
		`rideshare_http_requests_total{code="200",method="GET",part="users",route="/x"} 80`,
		`rideshare_http_requests_total{code="503",method="GET",part="rides",route="/x"} 1`,
		`rideshare_http_request_seconds_count{part="users",route="/x"} 80`,
		`rideshare_http_request_seconds_bucket{part="rides",route="/x",le="0.5"} 0`,
		"go_goroutines", "process_",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// The same part twice is an error, not a panic or a silent second series.
func TestNewRequests_SamePartTwice(t *testing.T) {
	reg := telemetry.NewRegistry()
	if _, err := telemetry.NewRequests(reg, "users"); err != nil {
		t.Fatal(err)
	}
	if _, err := telemetry.NewRequests(reg, "users"); err == nil {
		t.Error("got nil, want an error")
	}
}
