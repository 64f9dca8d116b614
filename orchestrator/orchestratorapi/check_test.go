package orchestratorapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/orchestrator/invariants"
	"rideshare/orchestrator/orchestratorapi"
)

// A report is 200 even if an invariant does not hold. A second check at the same time is 409.
func TestCheck_AnswersTheReport(t *testing.T) {
	report, err := invariants.Report{}, error(nil)
	h := newAPI(&system{}, func(c *orchestratorapi.Config) {
		c.Invariants = func(context.Context) (invariants.Report, error) { return report, err }
	})
	report = invariants.Report{
		At:         time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Invariants: []invariants.Invariant{{Name: invariants.ReplicasEqual, Detail: "table n differs"}},
		Workers:    []invariants.WorkerReport{{PID: 3, Worker: "w3", Role: dbaas.RoleSlave, Seq: 7, Differ: []string{"n"}, Problem: "table n differs"}},
	}
	want(t, call(t, h, "POST", "/api/v1/check", "ignored"), http.StatusOK,
		`{"ok":false,"at":"2026-11-21T12:00:00Z","invariants":[{"name":"replicas_equal","ok":false,"detail":"table n differs"}],`+
			`"workers":[{"pid":3,"worker":"w3","role":"slave","seq":7,"differ":["n"],"problem":"table n differs"}]}`)
	want(t, call(t, h, "GET", "/api/v1/check", ""), http.StatusMethodNotAllowed, "")
	err = dbaas.Errorf(dbaas.CodeConflict, "another check is running")
	want(t, call(t, h, "POST", "/api/v1/check", ""), http.StatusConflict, "")
}

// If credentials are configured, a check requires them.
func TestCheck_AsksForCredentials(t *testing.T) {
	accepted, err := httpapi.ParseCredentials(strings.NewReader("bearer secret"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	h := newAPI(&system{}, func(c *orchestratorapi.Config) {
		c.Credentials = accepted
		c.Invariants = func(context.Context) (invariants.Report, error) { ran++; return invariants.Report{OK: true}, nil }
	})
	want(t, call(t, h, "POST", "/api/v1/check", ""), http.StatusUnauthorized, "")
	want(t, call(t, h, "POST", "/api/v1/check", "", "Authorization: Bearer secret"), http.StatusOK, "")
	if ran != 1 {
		t.Errorf("got %d checks, want 1", ran)
	}
}
