package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// patchAdmission changes settings of the protection from overload.
func (s *system) patchAdmission(t *testing.T, patch string) {
	t.Helper()
	s.Call(t, http.MethodPatch, s.db("/api/v1/admission"), patch).expect(t, http.StatusOK, anyBody)
}

// Each refusal says why and when to retry, also through users. Changed settings apply immediately and are kept over a
// restart. While breakers are open the orchestrator stays ready.
func TestAdmission_RefusalsAndSettings(t *testing.T) {
	sys := start(t, setup{owned: true, env: []string{"LIMIT_ASYNC=0.001:1"}})
	problem := []string{"Accept", "application/problem+json"}
	const read, insert = `["SELECT 1"]`, `["DELETE FROM users WHERE username = 'nobody'"]`
	refused := func(a answer, status int, reason string) {
		t.Helper()
		var p struct{ Code, Reason string }
		code := map[int]string{http.StatusTooManyRequests: "quota", http.StatusServiceUnavailable: "unavailable"}[status]
		if err := json.Unmarshal([]byte(a.expect(t, status, anyBody).Body), &p); err != nil || p.Reason != reason || p.Code != code || a.Header.Get("Retry-After") == "" {
			t.Errorf("got %s and %v (%v), want %s, %s and Retry-After", a.Body, a.Header, err, code, reason)
		}
	}
	async := append([]string{"Prefer", "respond-async"}, problem...)
	sys.Post(t, sys.db("/db/execute"), insert, async...).expect(t, http.StatusAccepted, anyBody)
	refused(sys.Post(t, sys.db("/db/execute"), insert, async...), http.StatusTooManyRequests, "user_rate")
	for _, c := range []struct{ breaker, reason, path, body string }{
		{"event", "event_breaker", "/db/execute", insert},
		{"depth", "depth_breaker", "/db/execute", insert},
		{"master", "master", "/db/execute", insert},
		{"master", "master", "/db/query?level=linearizable", read},
		{"broker", "broker", "/db/execute", insert},
		{"slaves", "slaves", "/db/query", `["SELECT random()"]`},
	} {
		sys.patchAdmission(t, `{"breakers":{"`+c.breaker+`":"open"}}`)
		refused(sys.Post(t, sys.db(c.path), c.body, problem...), http.StatusServiceUnavailable, c.reason)
		eventually(t, againLimit, func() error { return sys.Get(t, sys.db("/readyz")).check(http.StatusOK, anyBody) })
		sys.patchAdmission(t, `{"breakers":null}`)
		sys.Post(t, sys.db(c.path), c.body).expect(t, http.StatusOK, anyBody)
	}
	sys.patchAdmission(t, `{"breakers":{"master":"open"}}`)
	refused(sys.Call(t, http.MethodPut, sys.usersURL(), userBody("ann"), problem...), http.StatusServiceUnavailable, "master")
	sys.patchAdmission(t, `{"breakers":null,"limits":{"read_total":"0.001:1"}}`)
	sys.Post(t, sys.db("/db/query"), read).expect(t, http.StatusOK, anyBody)
	refused(sys.Get(t, sys.userURL("ann"), problem...), http.StatusTooManyRequests, "class_rate")

	sys.Restart(t)
	if got := sys.Get(t, sys.db("/api/v1/admission")).expect(t, http.StatusOK, anyBody).Body; !strings.Contains(got, `"limits.read_total":{"value":"0.001:1","source":"patch"}`) {
		t.Errorf("after a restart: got %s", got)
	}
	if got := sys.Get(t, sys.db("/metrics")).Body; !strings.Contains(got, `rideshare_breaker_state{name="master"} 0`) {
		t.Error("no breaker in the metrics")
	}
}

// With ADMISSION=off nothing is limited, and there is nothing to set.
func TestAdmission_Off(t *testing.T) {
	sys := start(t, setup{owned: true, env: []string{"ADMISSION=off", "LIMIT_READ_TOTAL=0.001:1"}})
	for range 3 {
		sys.Post(t, sys.db("/db/query"), `["SELECT 1"]`).expect(t, http.StatusOK, anyBody)
	}
	sys.Get(t, sys.db("/api/v1/admission")).expect(t, http.StatusNotFound, anyBody)
}
