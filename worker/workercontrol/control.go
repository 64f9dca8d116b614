// Package workercontrol serves a worker's control API (internal/workerapi), which assigns roles and returns status and
// hashes. It is not on the data path.
package workercontrol

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

// Worker is the part of a worker that this package needs. *worker.Worker implements it. It is safe for concurrent use.
type Worker interface {
	// Assign accepts a role or returns a *dbaas.Error with CodeInvalid or CodeConflict. When a master is demoted, nil
	// means that it has no pending writes, and CodeUnavailable that it still has some.
	Assign(ctx context.Context, a workerapi.Assignment) error
	// Yield accepts the request to hand the leadership over, or returns a *dbaas.Error with CodeInvalid or
	// CodeConflict.
	Yield(y workerapi.Yield) error
	// Drain makes the worker leave gracefully; it returns immediately.
	Drain()
	Status() workerapi.Status
	// Hashes returns the replica's hashes, or CodeNotCaughtUp without a replica.
	Hashes(ctx context.Context) (dbaas.TableHashes, error)
	// Verify compares the replica with persdb and discards the replica if it differs. Errors are CodeNotCaughtUp,
	// CodeUnavailable, or an error of the replica's file.
	Verify(ctx context.Context) (workerapi.Verification, error)
}

// Handler returns the control API of w.
func Handler(w Worker, log *slog.Logger) http.Handler {
	h := handler{w: w, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT "+workerapi.PathRole, h.assign)
	mux.HandleFunc("POST "+workerapi.PathYield, h.yield)
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
	err := decode(rw, r, &a)
	if err == nil {
		err = h.w.Assign(r.Context(), a)
	}
	h.done(rw, r, err)
}

func (h handler) yield(rw http.ResponseWriter, r *http.Request) {
	var y workerapi.Yield
	err := decode(rw, r, &y)
	if err == nil {
		err = h.w.Yield(y)
	}
	h.done(rw, r, err)
}

// decode reads a body into v, or returns a *dbaas.Error with CodeInvalid.
func decode(rw http.ResponseWriter, r *http.Request, v any) error {
	dec := json.NewDecoder(http.MaxBytesReader(rw, r.Body, maxBodyBytes))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return dbaas.WrapError(dbaas.CodeInvalid, "body is not what this path takes", err)
	}
	return nil
}

// done answers a call whose only result is its error.
func (h handler) done(rw http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
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

// write sends v. An error means that the caller has gone; the caller retries.
func (h handler) write(rw http.ResponseWriter, r *http.Request, v any) {
	if err := json.NewEncoder(rw).Encode(v); err != nil {
		h.log.DebugContext(r.Context(), "control answer not sent", logkey.Path, r.URL.Path, logkey.Error, err)
	}
}
