// Package control serves a worker's control API (internal/workerapi): roles come
// in, status and hashes go out. It is not on the data path.
package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/logkey"
	"rideshare/internal/workerapi"
)

// maxBodyBytes bounds a request; an Assignment needs less than 100 bytes.
const maxBodyBytes = 4 << 10

// Worker is what this package needs from a worker. *worker.Worker implements
// it, safe for concurrent use.
type Worker interface {
	// Assign accepts a role or returns a *dbaas.Error with CodeInvalid or CodeConflict.
	Assign(a workerapi.Assignment) error
	// Drain makes the worker leave gracefully; it returns at once.
	Drain()
	Status() workerapi.Status
	// Hashes returns the replica's hashes, or CodeNotCaughtUp without a replica.
	Hashes(ctx context.Context) (dbaas.TableHashes, error)
	// Verify compares the replica with persdb and throws it away if it differs. Errors
	// are CodeNotCaughtUp, CodeUnavailable, or one of the replica's file.
	Verify(ctx context.Context) (workerapi.Verification, error)
}

// Handler returns the control API of w.
func Handler(w Worker, log *slog.Logger) http.Handler {
	h := handler{w: w, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT "+workerapi.PathRole, h.assign)
	mux.HandleFunc("POST "+workerapi.PathDrain, h.drain)
	mux.HandleFunc("GET "+workerapi.PathStatus, h.status)
	mux.HandleFunc("GET "+workerapi.PathHashes, h.hashes)
	mux.HandleFunc("POST "+workerapi.PathVerify, h.verify)
	mux.HandleFunc("GET "+workerapi.PathLive, h.live)
	mux.HandleFunc("GET "+workerapi.PathReady, h.ready)
	return mux
}

type handler struct {
	w   Worker
	log *slog.Logger
}

func (h handler) assign(rw http.ResponseWriter, r *http.Request) {
	var a workerapi.Assignment
	dec := json.NewDecoder(http.MaxBytesReader(rw, r.Body, maxBodyBytes))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		h.fail(rw, r, dbaas.WrapError(dbaas.CodeInvalid, "body is no assignment", err))
		return
	}
	if err := h.w.Assign(a); err != nil {
		h.fail(rw, r, err)
		return
	}
	failpoint.Hit(failpoint.WorkerAssigned)
	h.answer(rw, r, struct{}{})
}

func (h handler) drain(rw http.ResponseWriter, r *http.Request) {
	h.w.Drain()
	h.answer(rw, r, struct{}{})
}

func (h handler) status(rw http.ResponseWriter, r *http.Request) { h.answer(rw, r, h.w.Status()) }

func (h handler) hashes(rw http.ResponseWriter, r *http.Request) {
	hashes, err := h.w.Hashes(r.Context())
	if err != nil {
		h.fail(rw, r, err)
		return
	}
	h.answer(rw, r, hashes)
}

func (h handler) verify(rw http.ResponseWriter, r *http.Request) {
	v, err := h.w.Verify(r.Context())
	if err != nil {
		h.fail(rw, r, err)
		return
	}
	h.answer(rw, r, v)
}

func (h handler) live(rw http.ResponseWriter, r *http.Request) { h.answer(rw, r, struct{}{}) }

func (h handler) ready(rw http.ResponseWriter, r *http.Request) {
	if s := h.w.Status(); !s.Ready {
		h.fail(rw, r, dbaas.Errorf(dbaas.CodeUnavailable, "role %q, catching up %t, registered %t", s.Role, s.CatchingUp, s.Registered))
		return
	}
	h.answer(rw, r, struct{}{})
}

func (h handler) answer(rw http.ResponseWriter, r *http.Request, v any) {
	rw.Header().Set("Content-Type", "application/json")
	h.write(rw, r, v)
}

func (h handler) fail(rw http.ResponseWriter, r *http.Request, err error) {
	code := dbaas.CodeOf(err)
	message := "internal error"
	if e, ok := asError(err); ok {
		message = e.Message
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(statusOf(code))
	h.write(rw, r, workerapi.Problem{Code: code, Message: message})
}

// write sends v. An error means that the caller has gone, who asks again.
func (h handler) write(rw http.ResponseWriter, r *http.Request, v any) {
	if err := json.NewEncoder(rw).Encode(v); err != nil {
		h.log.DebugContext(r.Context(), "control answer not sent", logkey.Path, r.URL.Path, logkey.Error, err)
	}
}
