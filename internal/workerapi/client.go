package workerapi

import (
	"context"
	"net/http"

	"rideshare/internal/dbaas"
	"rideshare/internal/rpc"
)

// maxAnswerBytes bounds how much of an answer a client reads: a status, or the hashes of some thousand tables.
const maxAnswerBytes = 1 << 20

// Client calls control APIs. HTTP is required; its transport determines how workers are reached. Client is safe for
// concurrent use.
//
// Every method returns a *dbaas.Error: the worker's own code if it answered, otherwise as rpc.Caller says. All calls are
// idempotent, so they can be retried safely.
type Client struct {
	HTTP *http.Client
}

// Assign assigns a role to the worker at baseURL. A nil error means that the worker accepted the role, not that it
// serves: it catches up and registers first. By the time Assign returns nil, a demoted master has stopped taking writes
// and has answered all its pending ones. CodeConflict: the worker is not the intended one, has a newer epoch or another
// pid, is a master to which the assignment does not apply, or is leaving.
func (c *Client) Assign(ctx context.Context, baseURL string, a Assignment) error {
	_, err := call[rpc.None](ctx, c, http.MethodPut, baseURL+PathRole, a)
	return err
}

// Yield asks the master at baseURL to hand over its role. A nil error means that the master wants to hand over for
// YieldFor and informs the control loop through its registration; until then it keeps writing. CodeConflict: the worker
// is not a master, or not the intended worker.
func (c *Client) Yield(ctx context.Context, baseURL string, y Yield) error {
	_, err := call[rpc.None](ctx, c, http.MethodPost, baseURL+PathYield, y)
	return err
}

// Status reads the state of the worker at baseURL.
func (c *Client) Status(ctx context.Context, baseURL string) (Status, error) {
	return call[Status](ctx, c, http.MethodGet, baseURL+PathStatus, nil)
}

// Pulse asks the worker at baseURL for a sign of life.
func (c *Client) Pulse(ctx context.Context, baseURL string) (Pulse, error) {
	return call[Pulse](ctx, c, http.MethodGet, baseURL+PathLive, nil)
}

// Drain asks the worker at baseURL to finish its pending work, leave and exit. A nil error means that it has begun.
func (c *Client) Drain(ctx context.Context, baseURL string) error {
	_, err := call[rpc.None](ctx, c, http.MethodPost, baseURL+PathDrain, nil)
	return err
}

// Hashes reads the hashes of the tables of the worker at baseURL, and their position. CodeNotCaughtUp: the worker has no
// replica at the moment.
func (c *Client) Hashes(ctx context.Context, baseURL string) (dbaas.TableHashes, error) {
	return call[dbaas.TableHashes](ctx, c, http.MethodGet, baseURL+PathHashes, nil)
}

// Verify makes the worker at baseURL compare its tables with persdb's at one position. If they differ, the worker
// restarts from a snapshot. A nil error means that the tables were compared. CodeNotCaughtUp: the worker has no replica
// at the moment. CodeUnavailable: also returned if persdb does not answer the worker, or if continuing writes kept the
// two from being at one position.
func (c *Client) Verify(ctx context.Context, baseURL string) (Verification, error) {
	return call[Verification](ctx, c, http.MethodPost, baseURL+PathVerify, nil)
}

func call[Out any](ctx context.Context, c *Client, method, url string, in any) (Out, error) {
	worker := rpc.Caller{Peer: "worker", HTTP: c.HTTP, MaxAnswer: maxAnswerBytes}
	return rpc.Call[Out](ctx, &worker, rpc.Request{Method: method, Path: url}, in)
}
