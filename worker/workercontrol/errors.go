package workercontrol

import (
	"errors"
	"net/http"

	"rideshare/internal/dbaas"
)

func asError(err error) (*dbaas.Error, bool) { return errors.AsType[*dbaas.Error](err) }

// statuses maps the codes that this API answers; any other code is a bug.
var statuses = map[dbaas.Code]int{
	dbaas.CodeInvalid:     http.StatusBadRequest,
	dbaas.CodeConflict:    http.StatusConflict,
	dbaas.CodeStaleEpoch:  http.StatusConflict,
	dbaas.CodeUnavailable: http.StatusServiceUnavailable,
	dbaas.CodeNotCaughtUp: http.StatusServiceUnavailable,
}

func statusOf(code dbaas.Code) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusInternalServerError
}
