// Package workercontrol serves a worker's control API (internal/workerapi), which assigns roles and returns status and
// hashes. It is not on the data path.
package workercontrol

import (
	"context"
	"net/http"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/rpc"
	"rideshare/internal/workerapi"
)

// maxBodyBytes bounds a request; an Assignment needs less than 100 bytes.
const maxBodyBytes = 4 << 10

// Worker is the part of a worker that this package needs. *worker.Worker implements it. It is safe for concurrent use.
type Worker interface {
	// Assign accepts a role or returns a *dbaas.Error with CodeInvalid or CodeConflict. When a master is demoted, nil
	// means that it has no pending writes; CodeUnavailable means that it still has some.
	Assign(ctx context.Context, a workerapi.Assignment) error
	// Yield accepts a request to hand over the leadership, or returns a *dbaas.Error with CodeInvalid or CodeConflict.
	Yield(y workerapi.Yield) error
	// Drain makes the worker leave gracefully; it returns immediately.
	Drain()
	Status() workerapi.Status
	// Pulse never blocks: it waits for no lock, disk or other goroutine.
	Pulse() workerapi.Pulse
	// Hashes returns the replica's hashes, or CodeNotCaughtUp while there is no replica.
	Hashes(ctx context.Context) (dbaas.TableHashes, error)
	// Verify compares the replica with persdb and discards the replica if it differs. Errors are CodeNotCaughtUp,
	// CodeUnavailable, or an error of the replica's file.
	Verify(ctx context.Context) (workerapi.Verification, error)
}

// Handler returns the control API of w.
func Handler(w Worker) http.Handler {
	mux := &rpc.Mux{}
	mux.Handle("PUT "+workerapi.PathRole, accept(w.Assign))
	mux.Handle("POST "+workerapi.PathYield, accept(func(_ context.Context, y workerapi.Yield) error { return w.Yield(y) }))
	mux.Handle("POST "+workerapi.PathDrain, rpc.NoBody(func(context.Context) (rpc.None, error) {
		w.Drain()
		return rpc.None{}, nil
	}))
	mux.Handle("GET "+workerapi.PathStatus, rpc.NoBody(func(context.Context) (workerapi.Status, error) { return w.Status(), nil }))
	mux.Handle("GET "+workerapi.PathHashes, rpc.NoBody(w.Hashes))
	mux.Handle("POST "+workerapi.PathVerify, rpc.NoBody(w.Verify))
	mux.Handle("GET "+workerapi.PathLive, rpc.NoBody(func(context.Context) (workerapi.Pulse, error) { return w.Pulse(), nil }))
	mux.Handle("GET "+workerapi.PathReady, rpc.NoBody(func(context.Context) (rpc.None, error) { return rpc.None{}, ready(w.Status()) }))
	return mux
}

// accept returns the handler for a request that do accepts or refuses.
func accept[In any](do func(context.Context, In) error) rpc.Handler {
	return rpc.WithBody(maxBodyBytes, func(ctx context.Context, in In) (rpc.None, error) {
		err := do(ctx, in)
		if err == nil {
			failpoint.Hit(failpoint.WorkerAssigned)
		}
		return rpc.None{}, err
	})
}

// ready returns CodeUnavailable unless the worker serves its role.
func ready(s workerapi.Status) error {
	if s.Ready {
		return nil
	}
	return dbaas.Errorf(dbaas.CodeUnavailable, "role %q, catching up %t, registered %t", s.Role, s.CatchingUp, s.Registered)
}
