package workerapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
)

// A worker that is not there, or answers something else than its API, is unavailable: asking again is safe.
func TestClient_NotAWorkerIsUnavailable(t *testing.T) {
	answer := func(status int, body string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s
	}
	gone := answer(200, "")
	gone.Close()
	for name, tc := range map[string]struct {
		server *httptest.Server
		want   dbaas.Code
	}{
		"Gone":         {gone, dbaas.CodeUnavailable},
		"Proxy":        {answer(502, "<html>"), dbaas.CodeUnavailable},
		"NotJSON":      {answer(200, "hello"), dbaas.CodeInternal},
		"EmptyProblem": {answer(409, "{}"), dbaas.CodeUnavailable},
		"Conflict":     {answer(409, `{"code":"conflict","message":"no"}`), dbaas.CodeConflict},
	} {
		t.Run(name, func(t *testing.T) {
			c := workerapi.Client{HTTP: http.DefaultClient}
			if _, err := c.Status(t.Context(), tc.server.URL); dbaas.CodeOf(err) != tc.want {
				t.Errorf("got %v, want code %q", err, tc.want)
			}
		})
	}
}

// An assignment is refused unless it names all that its role needs.
func TestAssignment_Validate(t *testing.T) {
	for _, tc := range []struct {
		a  workerapi.Assignment
		ok bool
	}{
		{workerapi.Assignment{Worker: "w", Role: dbaas.RoleSlave, PID: 1}, true},
		{workerapi.Assignment{Worker: "w", Role: dbaas.RoleSlave, PID: 1, Epoch: 1}, true},
		{workerapi.Assignment{Worker: "w", Role: dbaas.RoleMaster, PID: 1, Epoch: 1}, true},
		{workerapi.Assignment{Role: dbaas.RoleSlave, PID: 1}, false},
		{workerapi.Assignment{Worker: "w", Role: dbaas.RoleMaster, PID: 1}, false},
		{workerapi.Assignment{Worker: "w", Role: dbaas.RoleSlave}, false},
		{workerapi.Assignment{Worker: "w", Role: dbaas.RoleSlave, PID: -1}, false},
		{workerapi.Assignment{Worker: "w", PID: 1}, false},
		{workerapi.Assignment{Worker: "w", Role: "king", PID: 1}, false},
	} {
		if err := tc.a.Validate(); (err == nil) != tc.ok || (err != nil && dbaas.CodeOf(err) != dbaas.CodeInvalid) {
			t.Errorf("%+v: got %v, want ok=%t", tc.a, err, tc.ok)
		}
	}
}
