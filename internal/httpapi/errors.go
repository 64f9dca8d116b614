package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"rideshare/internal/dbaas"
)

// HeaderOpID carries the operation's id when the outcome of a write is unknown. A header, because the body may be
// `{}`.
const HeaderOpID = "X-Operation-Id"

// HeaderError carries the reason of an error whose body is `{}`.
const HeaderError = "X-Error"

// maxHeaderError is how many bytes of the reason are sent: some proxies refuse heads of over 4 KiB.
const maxHeaderError = 512

// retryAfter is how many seconds a refused client should wait if the error does not ask for more. A new master or slave
// takes a few seconds; clients that retry every second notice it soon.
const retryAfter = "1"

// maxRetryAfter limits Retry-After, not counting the random second.
const maxRetryAfter = 30 * time.Second

// problemPrefix plus a code is the type of a problem. It never changes.
const problemPrefix = "urn:rideshare:problem:"

// status is the only mapping from codes to HTTP statuses, for the public API and between the parts. It has every code.
var status = map[dbaas.Code]int{
	dbaas.CodeOK:           http.StatusOK,
	dbaas.CodeInvalid:      http.StatusBadRequest,
	dbaas.CodeConstraint:   http.StatusBadRequest,
	dbaas.CodeNotFound:     http.StatusNotFound,
	dbaas.CodeConflict:     http.StatusConflict,
	dbaas.CodeMismatch:     http.StatusUnprocessableEntity,
	dbaas.CodeExpired:      http.StatusGatewayTimeout, // the outcome is unknown, which is the meaning of 504
	dbaas.CodeTooLarge:     http.StatusRequestEntityTooLarge,
	dbaas.CodeIncomplete:   http.StatusRequestTimeout,
	dbaas.CodeUnavailable:  http.StatusServiceUnavailable,
	dbaas.CodeQuota:        http.StatusTooManyRequests,
	dbaas.CodeNotCaughtUp:  http.StatusServiceUnavailable,
	dbaas.CodeUnknown:      http.StatusGatewayTimeout,
	dbaas.CodeTimeout:      http.StatusGatewayTimeout,
	dbaas.CodeUnauthorized: http.StatusUnauthorized,
	dbaas.CodeForbidden:    http.StatusForbidden,
	dbaas.CodeStaleEpoch:   http.StatusServiceUnavailable, // certainly not done; a newer master will serve
	dbaas.CodeGone:         http.StatusGone,
	dbaas.CodeFull:         http.StatusServiceUnavailable, // certainly not done, until there is room again
	dbaas.CodeAgain:        http.StatusServiceUnavailable, // this and the next code do not leave persdb and its master
	dbaas.CodeSlow:         http.StatusServiceUnavailable,
	dbaas.CodeDamaged:      http.StatusInternalServerError,
	dbaas.CodeInternal:     http.StatusInternalServerError,
}

// Errors that exist only in HTTP.
var (
	errMethod   = errors.New("method not allowed")
	errPanicked = errors.New("handler panicked")
)

// Problem is an error body (RFC 9457) with the extensions code, op_id, reason and retry_after_ms.
type Problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"` // the request id
	Code     string `json:"code"`
	OpID     string `json:"op_id,omitempty"`
	// Reason and RetryAfter, in milliseconds, are those of dbaas.Error.
	Reason     string `json:"reason,omitempty"`
	RetryAfter int64  `json:"retry_after_ms,omitempty"`
	// Message is Detail in calls between parts, because workers of an older version, which knows only code and message,
	// may run beside this one. The public API does not send it.
	Message string `json:"message,omitempty"`
}

// NewProblem returns the problem of a code, without a detail.
func NewProblem(code dbaas.Code) Problem { return newProblem(string(code), StatusOf(code)) }

func newProblem(code string, status int) Problem {
	return Problem{Type: problemPrefix + code, Title: title(status), Status: status, Code: code}
}

// title is the text of a status. For 413 it is that of RFC 9110, since an answer can be too large too.
func title(status int) string {
	if status == http.StatusRequestEntityTooLarge {
		return "Content Too Large"
	}
	return http.StatusText(status)
}

// StatusOf returns the HTTP status of a code.
func StatusOf(code dbaas.Code) int {
	if s, ok := status[code]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// CodeFromStatus returns the code for a status if the body gives none. 502 and 504 are CodeUnknown: the server that
// answered had already passed the request on.
func CodeFromStatus(httpStatus int) dbaas.Code {
	switch httpStatus {
	case http.StatusNotFound:
		return dbaas.CodeNotFound
	case http.StatusConflict:
		return dbaas.CodeConflict
	case http.StatusGone:
		return dbaas.CodeGone
	case http.StatusUnprocessableEntity:
		return dbaas.CodeMismatch
	case http.StatusRequestEntityTooLarge:
		return dbaas.CodeTooLarge
	case http.StatusRequestTimeout:
		return dbaas.CodeIncomplete
	case http.StatusUnauthorized:
		return dbaas.CodeUnauthorized
	case http.StatusForbidden:
		return dbaas.CodeForbidden
	case http.StatusTooManyRequests:
		return dbaas.CodeQuota
	case http.StatusServiceUnavailable:
		return dbaas.CodeUnavailable
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return dbaas.CodeUnknown
	case http.StatusInsufficientStorage:
		return dbaas.CodeFull
	}
	switch {
	case httpStatus < http.StatusBadRequest:
		return dbaas.CodeOK
	case httpStatus < http.StatusInternalServerError:
		return dbaas.CodeInvalid
	}
	return dbaas.CodeInternal
}

// ErrorFromAnswer converts an error answer back to the *dbaas.Error that caused it. The body's code takes precedence
// over the status, because other versions may use other statuses. coded is false if the body has no known code; the
// code is then derived from the status.
func ErrorFromAnswer(httpStatus int, header http.Header, body []byte) (e *dbaas.Error, coded bool) {
	e = &dbaas.Error{Code: CodeFromStatus(httpStatus), Message: http.StatusText(httpStatus)}
	var p Problem
	if json.Unmarshal(body, &p) == nil {
		e.Message = cmp.Or(p.Detail, p.Message, e.Message)
		e.Reason, e.RetryAfter = p.Reason, time.Duration(p.RetryAfter)*time.Millisecond
		if _, known := status[dbaas.Code(p.Code)]; known && p.Code != "" {
			e.Code, coded = dbaas.Code(p.Code), true
		}
	}
	if e.RetryAfter <= 0 {
		e.RetryAfter = RetryAfter(header)
	}
	for _, text := range []string{p.OpID, header.Get(HeaderOpID)} {
		if id, err := dbaas.ParseOpID(text); err == nil {
			e.Op = id
			break
		}
	}
	return e, coded
}

// RetryAfter returns how long the header of an answer asks to wait, zero if it does not say.
func RetryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0 // also a date, which this product does not send
	}
	return time.Duration(seconds) * time.Second
}

// codeOf is dbaas.CodeOf, but also knows the errors of contexts.
func codeOf(err error) dbaas.Code {
	code := dbaas.CodeOf(err)
	if code != dbaas.CodeInternal {
		return code
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return dbaas.CodeTimeout
	case errors.Is(err, context.Canceled): // The client has gone and will not read this.
		return dbaas.CodeUnavailable
	}
	return code
}

// statusOf returns the HTTP status of err.
func statusOf(err error) int {
	if errors.Is(err, errMethod) {
		return http.StatusMethodNotAllowed
	}
	return StatusOf(codeOf(err))
}

// problemOf returns the body for err. It has a detail only if err has a message that is safe to show.
func problemOf(err error) Problem {
	code := codeOf(err)
	p := newProblem(string(code), statusOf(err))
	if p.Status == http.StatusMethodNotAllowed {
		p = newProblem("method_not_allowed", p.Status)
	}
	if e, ok := errors.AsType[*dbaas.Error](err); ok && code != dbaas.CodeInternal {
		p.Detail, p.Reason, p.RetryAfter = e.Message, e.Reason, int64((e.RetryAfter+time.Millisecond-1)/time.Millisecond)
		if !e.Op.IsZero() {
			p.OpID = e.Op.String()
		}
	}
	return p
}

// WriteError answers r with err. course reports whether the path answers `{}` by default.
func WriteError(w http.ResponseWriter, r *http.Request, course bool, err error) {
	p := problemOf(err)
	p.Instance = RequestID(r.Context())
	h := w.Header()
	if p.OpID != "" {
		h.Set(HeaderOpID, p.OpID)
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		h.Set("Retry-After", retrySeconds(err))
	}
	contentType, body := "application/json", []byte("{}")
	if !course || Lists(r.Header, "Accept", "application/problem+json") {
		contentType = "application/problem+json"
		// A Problem has only strings and a number, so encoding cannot fail.
		body, _ = json.Marshal(p)
		body = append(body, '\n')
	} else {
		h.Set(HeaderError, headerText(cmp.Or(p.Detail, p.Title)))
	}
	h.Set("Content-Type", contentType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // The client may have gone; there is nothing to do.
}

// headerText returns text as a header can carry it. The text may quote the client, so everything but printable ASCII
// becomes a question mark.
func headerText(text string) string {
	safe := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return safe[:min(len(safe), maxHeaderError)]
}

// retrySeconds returns the value of Retry-After. After a refusal under overload, zero or one second is added at random,
// so that the refused clients do not all return simultaneously.
func retrySeconds(err error) string {
	e, ok := errors.AsType[*dbaas.Error](err)
	if !ok || e.Reason == "" {
		return retryAfter
	}
	wait := min(max(e.RetryAfter, time.Second), maxRetryAfter)
	seconds := (wait + time.Second - 1) / time.Second
	return strconv.FormatInt(int64(seconds)+rand.Int64N(2), 10) //nolint:gosec // Nobody gains by guessing it.
}

// Lists reports whether a header lists a value, with or without parameters. A wildcard does not count.
func Lists(h http.Header, header, value string) bool {
	for _, line := range h.Values(header) {
		for part := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), value) {
				return true
			}
		}
	}
	return false
}
