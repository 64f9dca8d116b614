package containers

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testSettings changes settings while the stack runs: from then on credentials are required, and there are enough slaves for
// the load test of tests/e2e. Only the containers that have these settings are recreated; the workers keep running.
func (s *stack) testSettings(t *testing.T) {
	t.Helper()
	before := s.byName(t)
	s.set(t, "AUTH=on", "SCALE_PERIOD=5s", "SCALE_READS_PER_SLAVE=20", "SCALE_MAX=3")
	file := filepath.Join(s.dir, "secrets", "api-credentials")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.authorization = strings.TrimSpace(string(text))
	s.env = append(s.env, "AUTH_FILE="+file) // of the commands that the tests run
	s.awaitWhole(t)
	after := s.byName(t)
	maps.DeleteFunc(after, func(name, id string) bool { return before[name] == id })
	var anew []string
	for name := range after {
		anew = append(anew, strings.TrimPrefix(name, "/"+s.project))
	}
	slices.Sort(anew)
	if diff := cmp.Diff([]string{"_orchestrator_1", "_rides_1", "_users_1"}, anew); diff != "" {
		t.Errorf("made anew (-want +got):\n%s", diff)
	}
}

// byName returns the ids of all containers.
func (s *stack) byName(t *testing.T) map[string]string {
	t.Helper()
	ids := map[string]string{}
	for _, c := range s.containers(t) {
		ids[c.Name] = c.ID
	}
	return ids
}

// With AUTH=on, only callers with credentials can read, change, clear or crash anything at the published ports. The
// application's own routes, health and metrics stay open, and the parts can call each other.
func (s *stack) testAuth(t *testing.T) {
	t.Helper()
	workers := s.ids(t, "container", "label=com.docker.compose.service=worker", "status=running")
	for _, c := range []struct{ method, url, body string }{
		{http.MethodPost, s.orchestrator + "/api/v1/db/read", `{"table":"users","columns":["username"],"condition":{"username":"nobody"}}`},
		{http.MethodPost, s.orchestrator + "/api/v1/db/write", `{"query":"delete","table":"users","condition":{"username":"nobody"}}`},
		{http.MethodPost, s.orchestrator + "/db/query", `["SELECT 1"]`},
		{http.MethodGet, s.orchestrator + "/db/query?q=SELECT%201", ""},
		{http.MethodPost, s.orchestrator + "/db/execute", `["DELETE FROM users WHERE username='nobody'"]`},
		{http.MethodPost, s.orchestrator + "/db/request", `["SELECT 1"]`},
		{http.MethodPost, s.orchestrator + "/api/v1/master", ""},
		{http.MethodGet, s.orchestrator + "/", ""},
		{http.MethodDelete, s.gateway + "/api/v1/_count", ""},
		{http.MethodDelete, s.gateway + "/api/v1/users/_count", ""},
	} {
		s.refused(t, c.method, c.url, c.body)
		s.call(t, c.method, c.url, c.body)
	}
	for _, url := range []string{
		s.orchestrator + "/api/v1/db/clear", s.gateway + "/api/v1/db/clear", s.users(t) + "/api/v1/db/clear",
		s.orchestrator + "/api/v1/crash/slave", s.orchestrator + "/api/v1/crash/master", s.orchestrator + "/api/v1/check",
	} {
		s.refused(t, http.MethodPost, url, "")
	}
	if diff := cmp.Diff(workers, s.ids(t, "container", "label=com.docker.compose.service=worker", "status=running")); diff != "" {
		t.Errorf("workers after what was refused (-before +after):\n%s", diff)
	}
	anyone := s.as("")
	for _, path := range []string{"/api/v1/worker/list", "/api/v1/cluster", "/api/v1/scaling/decisions", "/livez", "/readyz", "/metrics"} {
		anyone.call(t, http.MethodGet, s.orchestrator+path, "")
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		anyone.call(t, http.MethodGet, s.users(t)+path, "")
		anyone.call(t, http.MethodGet, s.gateway+path, "") // the gateway passes it on to rides
	}
	anyone.ride(t)
	for _, role := range []string{"slave", "master"} {
		s.crash(t, role)
		s.awaitWhole(t)
	}
	anyone.call(t, http.MethodGet, s.gateway+"/api/v1/users", "")
}

// as returns the stack for a client with other credentials.
func (s *stack) as(authorization string) *stack {
	other := *s
	other.authorization = authorization
	return &other
}

// refused checks that a call gets 401 without credentials, and with wrong credentials.
func (s *stack) refused(t *testing.T, method, url, body string) {
	t.Helper()
	for _, authorization := range []string{"", s.authorization + "0"} {
		if status, text, err := s.as(authorization).try(t.Context(), method, url, body); err != nil || status != http.StatusUnauthorized {
			t.Errorf("%s %s (some credentials: %v): got %d %s (%v), want 401", method, url, authorization != "", status, text, err)
		}
	}
}

// ride does what the application's clients do: it creates users and a ride, and joins the ride.
func (s *stack) ride(t *testing.T) {
	t.Helper()
	const password = `","password":"a94a8fe5ccb19ba61c4c0873d391e987982fbbd3"}`
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{http.MethodPut, "/api/v1/users", `{"username":"auth-ann` + password, http.StatusCreated},
		{http.MethodPut, "/api/v1/users", `{"username":"auth-bob` + password, http.StatusCreated},
		{http.MethodPost, "/api/v1/rides", `{"created_by":"auth-ann","timestamp":"01-01-2099:00-00-12","source":22,"destination":23}`, http.StatusCreated},
		{http.MethodGet, "/api/v1/rides?source=22&destination=23", "", http.StatusOK},
		{http.MethodDelete, "/api/v1/users/auth-ann", "", http.StatusOK},
		{http.MethodDelete, "/api/v1/users/auth-bob", "", http.StatusOK},
	} {
		if status, text, err := s.try(t.Context(), c.method, s.gateway+c.path, c.body); err != nil || status != c.want {
			t.Errorf("%s %s: got %d %s (%v), want %d", c.method, c.path, status, text, err, c.want)
		}
	}
}

// testClear clears the database, which requires the credentials.
func (s *stack) testClear(t *testing.T) {
	t.Helper()
	s.refused(t, http.MethodPost, s.gateway+"/api/v1/db/clear", "")
	s.call(t, http.MethodGet, s.gateway+"/api/v1/users", "") // 200: some are there
	s.call(t, http.MethodPost, s.gateway+"/api/v1/db/clear", "")
	if status, text, err := s.try(t.Context(), http.MethodGet, s.gateway+"/api/v1/users", ""); err != nil || status != http.StatusNoContent {
		t.Errorf("users after db/clear: got %d %.200s (%v), want 204", status, text, err)
	}
}
