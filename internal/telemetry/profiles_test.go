package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rideshare/internal/telemetry"
)

// The profiles that `go tool pprof` asks for are there, and the command line, which may hold secrets, is not.
func TestProfiles_Routes(t *testing.T) {
	h := telemetry.Profiles()
	for path, want := range map[string]int{
		"/debug/pprof/": 200, "/debug/pprof/heap": 200, "/debug/pprof/goroutine?debug=1": 200, "/debug/pprof/profile?seconds=1": 200,
		"/debug/pprof/cmdline": 404, "/metrics": 404,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Code != want {
			t.Errorf("%s: got %d, want %d", path, w.Code, want)
		}
		if path == "/debug/pprof/goroutine?debug=1" && !strings.Contains(w.Body.String(), "TestProfiles_Routes") {
			t.Errorf("%s: got %.200s, want this test's goroutine", path, w.Body.String())
		}
	}
}
