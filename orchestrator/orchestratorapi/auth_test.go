package orchestratorapi_test

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/settings"
	"rideshare/internal/testkit/apitest"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/console"
	"rideshare/orchestrator/invariants"
	"rideshare/orchestrator/orchestratorapi"
)

// If credentials are configured, the database, crash and console routes require them, and every
// other route stays open. Without a credentials file all routes are open.
func TestCredentials_GuardTheirRoutes(t *testing.T) {
	creds, err := httpapi.ParseCredentials(strings.NewReader("# comment\n\nbearer secret-token\nbasic ann:pass word:x\nbearer other\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := &system{
		crash:    func() (int, bool, error) { return 1, true, nil },
		handover: func(int) (orchestratorapi.HandedOver, error) { return orchestratorapi.HandedOver{}, nil },
	}
	h := newAPI(s, func(c *orchestratorapi.Config) { c.Credentials = creds }, allRoutes(t))
	guarded := apitest.Guarded(t, h.HTTP(), map[string]string{
		"GET /api/v1/worker/list": "the course's clients have no credentials", "GET /api/v1/cluster": "a view for operators, without data",
		"GET /nodes": "as rqlite's", "GET /status": "as rqlite's", "GET /api/v1/scaling/decisions": "numbers, without data", "GET /api/v1/events": "roles and members, without data",
		"GET /console/:file": "the console holds no data", "GET /console/areas.csv": "names, without data", "GET /docs/style.css": "a style sheet", "GET /api/v1/whoami": "tells whether the credentials are right",
		"GET /livez": "probers have no credentials", "GET /readyz": "probers have no credentials", "GET /metrics": "probers have no credentials",
	})
	basic := func(user, password string) string {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.SetBasicAuth(user, password)
		return "Authorization: " + r.Header.Get("Authorization")
	}
	for _, target := range guarded {
		method, path, _ := strings.Cut(target, " ")
		for _, header := range []string{
			"X-None: 1", "Authorization: Bearer wrong", "Authorization: Bearer ", "Authorization: secret-token", "Authorization: Basic !!!",
			basic("ann", "wrong"), basic("", ""), basic("secret-token", ""), "Authorization: Bearer ann:pass word:x",
		} {
			w := call(t, h, method, path, "", header)
			if w.Code != http.StatusUnauthorized || !strings.Contains(w.Header().Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s with %q: got %d, %v", target, header, w.Code, w.Header())
			}
		}
		for _, header := range []string{"Authorization: Bearer secret-token", "Authorization: bearer other", basic("ann", "pass word:x")} {
			if w := call(t, h, method, path, "", header); w.Code == http.StatusUnauthorized {
				t.Errorf("%s with %q: got 401", target, header)
			}
		}
	}
	if len(s.ops) == 0 {
		t.Error("no write got through with credentials")
	}
	if w := call(t, newAPI(s), "POST", "/api/v1/db/clear", ""); w.Code != http.StatusOK {
		t.Errorf("without credentials set: got %d", w.Code)
	}
}

// allRoutes sets every setting that a route may depend on. The test fails if a setting is missing here.
func allRoutes(t *testing.T) func(*orchestratorapi.Config) {
	t.Helper()
	return func(c *orchestratorapi.Config) {
		c.Metrics, c.Events, c.Changes = http.NotFoundHandler(), http.NotFoundHandler(), http.NotFoundHandler()
		c.Decisions = func(context.Context) any { return nil }
		c.Invariants = func(context.Context) (invariants.Report, error) { return invariants.Report{}, nil }
		c.Cache = &fakeCache{}
		protected(t, func(*admission.Settings) {})(c)
		c.Scaling = fakeScaling{}
		c.Parts = func(context.Context) []settings.Part { return nil }
		c.Live = console.NewLive()
		c.Live.Close()
		c.Observe = func(string, string, int, time.Duration, string) {}
		for field, value := range reflect.ValueOf(*c).Fields() {
			if (value.Kind() == reflect.Func || value.Kind() == reflect.Interface) && value.IsNil() {
				t.Errorf("setting %s is not set: a route may be missing", field.Name)
			}
		}
	}
}

// A change sent by a page of another origin is refused on guarded routes, with credentials and without. Changes from the
// same origin, and reads, are allowed.
func TestGuardedRoutes_OriginOfAnotherHost_IsForbidden(t *testing.T) {
	s := &system{crash: func() (int, bool, error) { return 1, true, nil }}
	h := newAPI(s)
	for _, path := range []string{"/api/v1/db/write", "/api/v1/db/clear", "/api/v1/crash/slave", "/db/execute", "/db/query", "/api/v1/master"} {
		for _, origin := range []string{"http://evil.example", "null", "http://example.com:81", "https://example.com.evil.example"} {
			w := call(t, h, "POST", path, `["DELETE FROM t"]`, "Origin: "+origin, "Accept: application/problem+json")
			if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "another site") {
				t.Errorf("%s from %s: got %d %s, want 403 with the reason", path, origin, w.Code, w.Body)
			}
		}
	}
	if len(s.ops)+len(s.reads) > 0 {
		t.Errorf("got %d operations and %d reads, want none", len(s.ops), len(s.reads))
	}
	want(t, call(t, h, "POST", "/db/execute", `["DELETE FROM t"]`, "Origin: http://example.com"), http.StatusOK, "")
	want(t, call(t, h, "GET", "/db/query?q=SELECT%201", "", "Origin: http://evil.example"), http.StatusOK, "")
}
