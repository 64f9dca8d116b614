package orchestratorapi_test

import (
	"errors"
	"net/http"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/orchestratorapi"
)

// The role goes to the worker with the given pid, or to any slave without a pid. The answer has both masters and epochs.
func TestHandOver_AnswersBothLeaderships(t *testing.T) {
	var asked int
	h := newAPI(&system{handover: func(pid int) (orchestratorapi.HandedOver, error) {
		asked = pid
		return orchestratorapi.HandedOver{Old: orchestratorapi.Leadership{PID: 7, Epoch: 3}, New: orchestratorapi.Leadership{PID: 9, Epoch: 4}}, nil
	}})
	for body, pid := range map[string]int{``: 0, `{}`: 0, `{"pid":9}`: 9} {
		want(t, call(t, h, "POST", "/api/v1/master", body), http.StatusOK, `{"old":{"pid":7,"epoch":3},"new":{"pid":9,"epoch":4}}`)
		if asked != pid {
			t.Errorf("%s: asked for %d, want %d", body, asked, pid)
		}
	}
	for _, body := range []string{`{"pid":"9"}`, `{"pid":-1}`, `{"pid":9,"force":true}`, `[]`, `{`} {
		want(t, call(t, h, "POST", "/api/v1/master", body), http.StatusBadRequest, "")
	}
}

// The reason why the role cannot move decides the status. Errors of the systems behind the API are outages.
func TestHandOver_Refused(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{dbaas.Errorf(dbaas.CodeInvalid, "no worker has pid 9"), http.StatusBadRequest},
		{dbaas.Errorf(dbaas.CodeConflict, "no slave"), http.StatusConflict},
		{dbaas.Errorf(dbaas.CodeUnavailable, "no master"), http.StatusServiceUnavailable},
		{errors.New("launcher away"), http.StatusServiceUnavailable},
	} {
		h := newAPI(&system{handover: func(int) (orchestratorapi.HandedOver, error) { return orchestratorapi.HandedOver{}, tt.err }})
		want(t, call(t, h, "POST", "/api/v1/master", ""), tt.want, "")
	}
}
