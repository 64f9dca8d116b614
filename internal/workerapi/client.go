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

// maxAnswerBytes bounds what a client reads of an answer: a status, or the
// hashes of some thousand tables.
const maxAnswerBytes = 1 << 20

// Client calls control APIs. HTTP is required, its transport decides how workers
// are reached. It is safe for concurrent use.
//
// Every method returns a *dbaas.Error: with the worker's own code when it
// answered, with CodeUnavailable when it could not be reached or did not answer
// in time. All calls are idempotent, so trying again is safe.
type Client struct {
	HTTP *http.Client
}

// Assign gives the worker at baseURL its role. nil means accepted, not that it
// serves: it catches up and registers first. A master that becomes a slave has stopped taking
// writes, and answered all that it had, when Assign returns nil. CodeConflict: it is another worker,
// has a newer mastership or another pid, is a master that this does not mean, or is leaving.
func (c *Client) Assign(ctx context.Context, baseURL string, a Assignment) error {
	return c.call(ctx, http.MethodPut, baseURL+PathRole, a, nil)
}

// Yield asks the master at baseURL to hand its role over. nil means that it wants to, for
// YieldFor, and tells the control loop by its registration; it goes on writing meanwhile.
// CodeConflict: it is no master, or another worker.
func (c *Client) Yield(ctx context.Context, baseURL string, y Yield) error {
	return c.call(ctx, http.MethodPost, baseURL+PathYield, y, nil)
}

// Status asks the worker at baseURL how it is.
func (c *Client) Status(ctx context.Context, baseURL string) (Status, error) {
	var s Status
	err := c.call(ctx, http.MethodGet, baseURL+PathStatus, nil, &s)
	return s, err
}

// Drain asks the worker at baseURL to finish what is in hand, leave and exit.
// nil means that it has begun.
func (c *Client) Drain(ctx context.Context, baseURL string) error {
	return c.call(ctx, http.MethodPost, baseURL+PathDrain, nil, nil)
}

// Hashes asks the worker at baseURL for the hashes of its tables and the
// position that they belong to. CodeNotCaughtUp: it has no replica at the moment.
func (c *Client) Hashes(ctx context.Context, baseURL string) (dbaas.TableHashes, error) {
	var h dbaas.TableHashes
	err := c.call(ctx, http.MethodGet, baseURL+PathHashes, nil, &h)
	return h, err
}

// Verify makes the worker at baseURL compare its tables with persdb's at one
// position, and start again from a snapshot if they differ. nil means that they were
// compared. CodeNotCaughtUp: it has no replica at the moment. CodeUnavailable also when persdb
// does not answer the worker, or writes went on so that the two were never at one position.
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
