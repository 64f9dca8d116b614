// Package rpc implements the calls between the parts of one system: JSON or frames over HTTP, with errors that keep
// their codes. A Handler answers calls, a Caller makes them. Routes, types and the meaning of the codes belong to the
// APIs that use it: persdb's, the workers' and the launcher's.
package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/strictjson"
	"rideshare/internal/tracing"
)

// Handler answers a call, or returns an error. Unless the error wraps ErrCut, nothing of the answer was sent yet.
type Handler func(w http.ResponseWriter, r *http.Request) error

// ErrCut is wrapped in the error of a Handler that cannot complete the answer that it has begun. The connection is cut,
// so that the caller notices.
var ErrCut = errors.New("answer aborted")

// None is an answer without content, {}.
type None struct{}

// NoBody returns the Handler of a call without a body.
func NoBody[Out any](do func(context.Context) (Out, error)) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		out, err := do(r.Context())
		if err != nil {
			return err
		}
		return Answer(w, out)
	}
}

// WithBody returns the Handler of a call with a JSON body of at most limit bytes, which is decoded by the rules of
// strictjson.Unmarshal.
func WithBody[In, Out any](limit int64, do func(context.Context, In) (Out, error)) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := httpapi.ReadLimited(w, r, limit)
		if err != nil {
			return err
		}
		var in In
		if err = strictjson.Unmarshal(body, &in); err != nil {
			return err
		}
		out, err := do(r.Context(), in)
		if err != nil {
			return err
		}
		return Answer(w, out)
	}
}

// Answer sends v as JSON. A failed write is not an error: the caller has gone, and will repeat the call.
func Answer(w http.ResponseWriter, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
	return nil
}

// Mux routes calls by patterns of http.ServeMux and sends the errors of their handlers. Register routes before serving.
type Mux struct {
	// Failed, if set, is called with every error before it is sent.
	Failed func(ctx context.Context, pattern string, err error)

	mux http.ServeMux
}

// Handle registers the handler of a pattern.
func (m *Mux) Handle(pattern string, h Handler) {
	m.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if tracing.On() {
			r = r.WithContext(tracing.Accept(r))
		}
		err := h(w, r)
		if err == nil {
			return
		}
		if m.Failed != nil {
			m.Failed(r.Context(), pattern, err)
		}
		if errors.Is(err, ErrCut) {
			panic(http.ErrAbortHandler) // net/http cuts the connection
		}
		sendError(w, err)
	})
}

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

// sendError sends the code and the message of err. Unlike a client of the public API, a caller may read the message of
// an internal error too.
func sendError(w http.ResponseWriter, err error) {
	p := httpapi.NewProblem(dbaas.CodeOf(err))
	p.Detail = "internal error"
	if e, ok := errors.AsType[*dbaas.Error](err); ok {
		p.Detail, p.Reason = e.Message, e.Reason
	}
	p.Message = p.Detail
	b, _ := json.Marshal(p) // strings and numbers only
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(b)
}
