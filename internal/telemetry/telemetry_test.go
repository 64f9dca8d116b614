package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/telemetry"
)

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
				users.Observe("/x", "GET", 200, time.Millisecond, "")
			}
		})
	}
	wg.Wait()
	rides.Observe("/x", "GET", 503, time.Second, "")
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
