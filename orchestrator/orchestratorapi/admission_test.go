package orchestratorapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/orchestratorapi"
)

// values is a coordinator of values that can be away.
type values struct {
	mu   sync.Mutex // guards the fields below
	all  map[string]string
	at   coord.Version
	away bool
}

func (v *values) Value(_ context.Context, name string) ([]byte, coord.Version, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text, known := v.all[name]
	switch {
	case v.away:
		return nil, 0, coord.ErrUnavailable
	case !known:
		return nil, 0, coord.ErrNone
	}
	return []byte(text), v.at, nil
}

func (v *values) SetValue(_ context.Context, name string, value []byte, old coord.Version) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.away:
		return coord.ErrUnavailable
	case old != v.at:
		return coord.ErrVersion
	}
	v.all, v.at = map[string]string{name: string(value)}, v.at+1
	return nil
}

func (*values) Leads() bool { return false }

// protected makes the API one with settings.
func protected(t *testing.T, change func(*admission.Settings)) func(*orchestratorapi.Config) {
	t.Helper()
	return protectedBy(t, &values{}, change)
}

func protectedBy(t *testing.T, store admission.Store, change func(*admission.Settings)) func(*orchestratorapi.Config) {
	t.Helper()
	settings := admission.Defaults()
	change(&settings)
	gate, err := admission.New(admission.Config{
		Log: slog.New(slog.DiscardHandler), Settings: settings, CallTimeout: 5 * time.Second, Store: store,
		Broker: func() bool { return true }, Master: func() (bool, time.Time) { return true, time.Time{} },
		Slaves: func() (int, time.Time) { return 1, time.Time{} }, Now: func() time.Time { return epochStart },
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *orchestratorapi.Config) { c.Admission = gate }
}

// problemOf returns a problem body.
func problemOf(t *testing.T, w *httptest.ResponseRecorder) (p httpapi.Problem) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Errorf("got body %s: %v", w.Body, err)
	}
	return p
}

const problems = "Accept: application/problem+json"

// Each route is limited as its class, each user by itself. Other routes are not limited.
func TestAdmission_ClassesOfRoutes(t *testing.T) {
	for _, c := range []struct{ class, method, target, body, header string }{
		{"read", "POST", "/api/v1/db/read", readBody, ""},
		{"read", "GET", "/db/query?q=SELECT+1", "", ""},
		{"read", "POST", "/db/query", `["SELECT 1"]`, ""},
		{"write", "POST", "/db/request", `["SELECT 1"]`, ""},
		{"write", "POST", "/db/request?queue", `["DELETE FROM t"]`, ""},
		{"write", "POST", "/db/execute", `["DELETE FROM t"]`, ""},
		{"write", "POST", "/db/execute?queue&wait", `["DELETE FROM t"]`, ""},
		{"write", "POST", "/api/v1/db/write", writeBody, ""},
		{"write", "POST", "/api/v1/db/clear", "", ""},
		{"async", "POST", "/db/execute?queue", `["DELETE FROM t"]`, ""},
		{"async", "POST", "/db/execute", `["DELETE FROM t"]`, "Prefer: respond-async"},
		{"async", "POST", "/api/v1/db/write", writeBody, "Prefer: respond-async"},
		{"", "GET", "/nodes", "", ""},
		{"", "GET", "/api/v1/admission", "", ""},
	} {
		for _, limited := range []string{"read", "write", "async"} {
			h := newAPI(&system{}, protected(t, func(s *admission.Settings) {
				switch limited {
				case "read":
					s.Limits.Read = "1:1"
				case "write":
					s.Limits.Write = "1:1"
				case "async":
					s.Limits.Async = "1:1"
				}
			}))
			send := func(user string) *httptest.ResponseRecorder {
				headers := []string{"X-Rideshare-User: " + user, problems}
				if c.header != "" {
					headers = append(headers, c.header)
				}
				return call(t, h, c.method, c.target, c.body, headers...)
			}
			first := send("ann")
			if first.Code/100 != 2 {
				t.Fatalf("%s %s: got %d %s", c.method, c.target, first.Code, first.Body)
			}
			second, other := send("ann"), send("bob")
			if limited != c.class {
				if second.Code != first.Code || first.Header().Get("RateLimit") != "" {
					t.Errorf("%s %s is limited as %s", c.method, c.target, limited)
				}
				continue
			}
			p := problemOf(t, second)
			if second.Code != http.StatusTooManyRequests || p.Code != "quota" || p.Reason != "user_rate" || p.RetryAfter != 1000 || second.Header().Get("Retry-After") == "" {
				t.Errorf("%s %s again: got %d %s %v, want 429 with the reason", c.method, c.target, second.Code, second.Body, second.Header())
			}
			if got := first.Header().Get("RateLimit-Policy") + first.Header().Get("RateLimit"); got != `"`+c.class+`";q=1;w=1"`+c.class+`";r=0;t=1` {
				t.Errorf("%s %s: got headers %s", c.method, c.target, got)
			}
			if second.Header().Get("RateLimit") == "" || other.Code != first.Code {
				t.Errorf("%s %s: got %d for another user, %v", c.method, c.target, other.Code, second.Header())
			}
		}
	}
}

// A token is taken before the body is read, and not given back.
func TestAdmission_BadBody_TakesAToken(t *testing.T) {
	h := newAPI(&system{}, protected(t, func(s *admission.Settings) { s.Limits.ReadTotal = "1:1" }))
	w := call(t, h, "POST", "/api/v1/db/read", "{", problems)
	if want(t, w, http.StatusBadRequest, ""); w.Header().Get("RateLimit") != "" {
		t.Error("an answer 400 tells of the limit")
	}
	w = call(t, h, "POST", "/api/v1/db/read", readBody, problems)
	if want(t, w, http.StatusTooManyRequests, ""); problemOf(t, w).Reason != "class_rate" {
		t.Errorf("got %s, want class_rate", w.Body)
	}
}

// Requests that have ended are no longer in flight, also those that failed.
func TestAdmission_Inflight_EndsWithTheRequest(t *testing.T) {
	fail := false
	s := &system{read: func(dbaas.Read) (dbaas.ReadResult, error) {
		if fail {
			panic("broken")
		}
		return dbaas.ReadResult{}, dbaas.Errorf(dbaas.CodeInvalid, "no")
	}}
	h := newAPI(s, protected(t, func(s *admission.Settings) { s.Inflight = 1 }))
	for range 3 {
		want(t, call(t, h, "POST", "/api/v1/db/read", readBody), http.StatusBadRequest, "")
		fail = true
		want(t, call(t, h, "POST", "/api/v1/db/read", readBody), http.StatusInternalServerError, "")
		fail = false
	}
}

// admissionOf returns what the route shows.
func admissionOf(t *testing.T, w *httptest.ResponseRecorder) (s admission.Status) {
	t.Helper()
	want(t, w, http.StatusOK, "")
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// PATCH changes what it names and answers the new whole; null returns to the value of the environment.
func TestAdmission_Patch(t *testing.T) {
	h := newAPI(&system{}, protected(t, func(s *admission.Settings) { s.Inflight = 100 }))
	check := func(s admission.Status, name string, value any, source string) {
		t.Helper()
		if got := s.Settings[name]; got != (admission.Setting{Value: value, Source: source}) {
			t.Errorf("%s: got %+v, want %v from %s", name, got, value, source)
		}
	}
	s := admissionOf(t, call(t, h, "PATCH", "/api/v1/admission", `{"event_breaker":{"preset":"2000-2s"},"breakers":{"depth":"open"},"inflight":7,"lanes":{"read":9,"write":"adaptive","weights":"ann=3"}}`))
	check(s, "lanes.read", 9.0, "patch")
	check(s, "lanes.write", "adaptive", "patch")
	check(s, "lanes.weights", "ann=3", "patch")
	check(s, "event_breaker.preset", "2000-2s", "patch")
	check(s, "inflight", 7.0, "patch")
	check(s, "depth.wait", 5000.0, "environment")
	if b := s.Breakers["depth"]; b.State != "open" || !b.Held {
		t.Errorf("got breaker %+v, want it held open", b)
	}
	s = admissionOf(t, call(t, h, "PATCH", "/api/v1/admission", `{"inflight":null,"breakers":null,"lanes":null}`))
	check(s, "lanes.read", 1024.0, "environment")
	check(s, "lanes.weights", "", "environment")
	check(s, "inflight", 100.0, "environment")
	check(s, "breakers.depth", "auto", "environment")
	check(s, "event_breaker.preset", "2000-2s", "patch")
	check(admissionOf(t, call(t, h, "GET", "/api/v1/admission", "")), "event_breaker.preset", "2000-2s", "patch")
}

// A PATCH that is wrong in any part changes nothing.
func TestAdmission_Patch_Wrong_ChangesNothing(t *testing.T) {
	store := &values{}
	h := newAPI(&system{}, protectedBy(t, store, func(*admission.Settings) {}))
	for body, detail := range map[string]string{
		``: "", `[]`: "object", `null`: "object", `{`: "", `{"inflight":1,"inflight":2}`: "duplicate",
		`{"inflight":5,"unknown":1}`: "unknown", `{"breakers":{"writer":"open"}}`: "writer", `{"inflight":"5"}`: "inflight", `{"inflight":0}`: "inflight",
		`{"INFLIGHT":5}`: "unknown", `{"breakers":{"Master":"open"}}`: "unknown", `{"Breakers":{"master":"open"}}`: "unknown", `{"inflight":{"a":1}}`: "inflight",
		`{"inflight":5,"breakers":{"master":"ajar"}}`: "ajar", `{"event_breaker":{"preset":"1-1s"}}`: "2000-2s", `{"limits":{"read":"5"}}`: "RATE:BURST", `{"depth":{"wait":20000}}`: "depth",
		`{"inflight":5,"lanes":{"read":0}}`: "lanes", `{"lanes":{"write":"fast"}}`: "adaptive", `{"lanes":{"weights":"ann=0"}}`: "ann=0", `{"lanes":{"weights":"ann=1,ann=2"}}`: "once",
	} {
		w := call(t, h, "PATCH", "/api/v1/admission", body)
		if want(t, w, http.StatusBadRequest, ""); !strings.Contains(w.Body.String(), detail) {
			t.Errorf("%s: got %s, want a detail with %q", body, w.Body, detail)
		}
	}
	if store.all != nil {
		t.Errorf("kept %v", store.all)
	}
	store.away = true
	want(t, call(t, h, "PATCH", "/api/v1/admission", `{"inflight":5}`), http.StatusServiceUnavailable, "")
	for name, s := range admissionOf(t, call(t, h, "GET", "/api/v1/admission", "")).Settings {
		if s.Source != "environment" {
			t.Errorf("%s: got %+v", name, s)
		}
	}
}

// The answer to a limited read has at most 8 headers: a map of more costs microseconds, which every read would pay.
func TestAdmission_LimitedRead_FewHeaders(t *testing.T) {
	s := &system{cluster: dbaas.ClusterID{1}, read: func(dbaas.Read) (dbaas.ReadResult, error) {
		return dbaas.ReadResult{Seq: 42, Body: []byte("[]"), Level: dbaas.LevelMiss}, nil
	}}
	limited := protected(t, func(s *admission.Settings) { s.Limits.Read = "1:1" })
	h := newAPI(s, limited, func(c *orchestratorapi.Config) { c.Cache = &fakeCache{} })
	w := call(t, h, "POST", "/api/v1/db/read", readBody)
	if want(t, w, http.StatusOK, "[]"); len(w.Header()) > 8 || w.Header().Get("RateLimit") == "" || w.Header().Get("X-Cache") == "" {
		t.Errorf("got %d headers, %v", len(w.Header()), w.Header())
	}
}
