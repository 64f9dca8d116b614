package server

import (
	"encoding/json"
	"errors"
	"net/http"

	"rideshare/internal/dbaas"
)

// Problem is the body of an error: problem details as of RFC 9457, with an additional code from which the client
// restores the same *dbaas.Error.
type Problem struct {
	Title  string     `json:"title"`
	Status int        `json:"status"`
	Detail string     `json:"detail"`
	Code   dbaas.Code `json:"code"`
}

// statusOf returns the HTTP status of a code. Clients use the code; the status is for logs and intermediate tools.
func statusOf(code dbaas.Code) int {
	switch code {
	case dbaas.CodeOK:
		return http.StatusOK
	case dbaas.CodeInvalid:
		return http.StatusBadRequest
	case dbaas.CodeIncomplete:
		return http.StatusRequestTimeout
	case dbaas.CodeUnauthorized, dbaas.CodeForbidden:
		return http.StatusUnauthorized
	case dbaas.CodeNotFound:
		return http.StatusNotFound
	case dbaas.CodeConstraint, dbaas.CodeConflict, dbaas.CodeStaleEpoch:
		return http.StatusConflict
	case dbaas.CodeGone, dbaas.CodeExpired:
		return http.StatusGone
	case dbaas.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case dbaas.CodeMismatch:
		return http.StatusUnprocessableEntity
	case dbaas.CodeUnavailable, dbaas.CodeNotCaughtUp, dbaas.CodeAgain, dbaas.CodeSlow:
		return http.StatusServiceUnavailable
	case dbaas.CodeUnknown, dbaas.CodeTimeout:
		return http.StatusGatewayTimeout
	case dbaas.CodeFull:
		return http.StatusInsufficientStorage
	case dbaas.CodeInternal, dbaas.CodeDamaged:
	}
	return http.StatusInternalServerError
}

func sendError(w http.ResponseWriter, err error) {
	code := dbaas.CodeOf(err)
	p := Problem{Title: string(code), Status: statusOf(code), Detail: "internal error", Code: code}
	if e, ok := errors.AsType[*dbaas.Error](err); ok {
		p.Detail = e.Message
	}
	b, _ := json.Marshal(p) // strings and numbers only.
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(b)
}
