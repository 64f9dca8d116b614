package workerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"rideshare/internal/dbaas"
)

// maxAnswerBytes bounds how much of an answer a client reads: a status, or the hashes of some thousand tables.
const maxAnswerBytes = 1 << 20

// Client calls control APIs. HTTP is required; its transport determines how workers are reached. Client is safe for
// concurrent use.
//
// Every method returns a *dbaas.Error: the worker's own code if it answered, or CodeUnavailable if it could not be
// reached or did not answer in time. All calls are idempotent, so they can be retried safely.
type Client struct {
	HTTP *http.Client
}

// Assign assigns a role to the worker at baseURL. A nil error means that the worker accepted the role, not that it
// serves: it catches up and registers first. By the time Assign returns nil, a demoted master has stopped taking writes
// and has answered all its pending ones. CodeConflict: the worker is not the intended one, has a newer epoch or another
// pid, is a master to which the assignment does not apply, or is leaving.
func (c *Client) Assign(ctx context.Context, baseURL string, a Assignment) error {
	return c.call(ctx, http.MethodPut, baseURL+PathRole, a, nil)
}

// Yield asks the master at baseURL to hand over its role. A nil error means that the master wants to hand over for
// YieldFor and informs the control loop through its registration; until then it keeps writing. CodeConflict: the worker
// is not a master, or not the intended worker.
func (c *Client) Yield(ctx context.Context, baseURL string, y Yield) error {
	return c.call(ctx, http.MethodPost, baseURL+PathYield, y, nil)
}

// Status reads the state of the worker at baseURL.
func (c *Client) Status(ctx context.Context, baseURL string) (Status, error) {
	var s Status
	err := c.call(ctx, http.MethodGet, baseURL+PathStatus, nil, &s)
	return s, err
}

// Drain asks the worker at baseURL to finish its pending work, leave and exit. A nil error means that it has begun.
func (c *Client) Drain(ctx context.Context, baseURL string) error {
	return c.call(ctx, http.MethodPost, baseURL+PathDrain, nil, nil)
}

// Hashes reads the hashes of the tables of the worker at baseURL, and their position. CodeNotCaughtUp: the worker has no
// replica at the moment.
func (c *Client) Hashes(ctx context.Context, baseURL string) (dbaas.TableHashes, error) {
	var h dbaas.TableHashes
	err := c.call(ctx, http.MethodGet, baseURL+PathHashes, nil, &h)
	return h, err
}

// Verify makes the worker at baseURL compare its tables with persdb's at one position. If they differ, the worker
// restarts from a snapshot. A nil error means that the tables were compared. CodeNotCaughtUp: the worker has no replica
// at the moment. CodeUnavailable: also returned if persdb does not answer the worker, or if continuing writes kept the
// two from being at one position.
func (c *Client) Verify(ctx context.Context, baseURL string) (Verification, error) {
	var v Verification
	err := c.call(ctx, http.MethodPost, baseURL+PathVerify, nil, &v)
	return v, err
}

func (c *Client) call(ctx context.Context, method, url string, in, out any) error {
	var body io.Reader = http.NoBody
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return dbaas.WrapError(dbaas.CodeInternal, "encode request to worker", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return dbaas.WrapError(dbaas.CodeInvalid, "control URL of worker", err)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return dbaas.WrapError(dbaas.CodeUnavailable, "worker not reached", err)
	}
	defer func() { _ = resp.Body.Close() }() // read only: nothing to lose.
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return dbaas.WrapError(dbaas.CodeUnavailable, "worker's answer was cut off", err)
	}
	if resp.StatusCode/100 != 2 {
		return problem(resp.StatusCode, answer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return dbaas.WrapError(dbaas.CodeInternal, "worker's answer not understood", err)
	}
	return nil
}

func problem(status int, answer []byte) error {
	var p Problem
	if err := json.Unmarshal(answer, &p); err != nil || p.Code == dbaas.CodeOK {
		return dbaas.WrapError(dbaas.CodeUnavailable, "worker's answer not understood", fmt.Errorf("status %d", status))
	}
	return dbaas.Errorf(p.Code, "%s", p.Message)
}
