package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"

	"rideshare/internal/tracing"
)

// HeaderRequestID carries the request id, in requests and answers.
const HeaderRequestID = "X-Request-Id"

// maxRequestID is the longest request id accepted from a client, in bytes: every message and log line of the request
// carries the id.
const maxRequestID = 128

type requestKey struct{}

// request is the data of a request in its context.
type request struct {
	id      string
	span    tracing.Span
	user    string // see UserLabel
	maxBody int64  // of its route, in bytes
	// identity is the sender, once accepted; nil without credentials.
	identity *identity
	held     holding
}

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// WithRequestID returns ctx with a request id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{id: id})
}

// RequestID returns the request id of ctx, or "" if it has none.
func RequestID(ctx context.Context) string {
	if r := requestOf(ctx); r != nil {
		return r.id
	}
	return ""
}

// RequestIDFrom returns the request id in the headers: X-Request-Id, or else the trace id of a well-formed
// traceparent (W3C Trace Context). If there is none, or it is not fit for a log line, the id is that of the trace in ctx,
// or generated.
func RequestIDFrom(ctx context.Context, h http.Header) string {
	if id := h.Get(HeaderRequestID); validRequestID(id) {
		return id
	}
	if id, ok := traceID(h.Get("Traceparent")); ok {
		return id
	}
	if id := tracing.TraceID(ctx); id != "" {
		return id
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails, by its documentation.
	return hex.EncodeToString(b[:])
}

func validRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		word := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !word && strings.IndexByte("-_.:/+=@", c) < 0 {
			return false
		}
	}
	return true
}

// traceID returns the trace id of "00-<32 hex>-<16 hex>-<2 hex>".
func traceID(parent string) (string, bool) {
	const size = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(parent) != size || parent[2] != '-' || parent[35] != '-' || parent[52] != '-' {
		return "", false
	}
	id, span := parent[3:35], parent[36:52]
	if !lowerHex(parent[:2]) || !lowerHex(id) || !lowerHex(span) || !lowerHex(parent[53:]) {
		return "", false
	}
	if parent[:2] == "ff" || strings.Trim(id, "0") == "" || strings.Trim(span, "0") == "" {
		return "", false
	}
	return id, true
}

func lowerHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}
