package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"rideshare/bench/ledger"
	"rideshare/internal/wait"
)

// maxAnswerBytes bounds what is read of an answer.
const maxAnswerBytes = 64 << 20

const (
	// longestPause bounds the effect of a Retry-After on a client of a closed loop.
	longestPause = 5 * time.Second
	// refusedPause is how long the client waits when there was no answer.
	refusedPause = 200 * time.Millisecond
)

// reply is the result of one request: an answer or an error.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// fate returns the outcome of a write; done is the status of a write that was applied.
func (r reply) fate(done int) ledger.Fate { return ledger.FateOf(r.status, r.err, done) }

// failure returns a short name of why the reply does not have the wanted status, or "" if it has.
func (r reply) failure(want int) string {
	switch {
	case r.err == nil && r.status == want:
		return ""
	case r.err == nil:
		return strconv.Itoa(r.status)
	case isTimeout(r.err):
		return "timeout"
	default:
		return "connection"
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout())
}

// pause returns how long a client should wait before its next request.
func (r reply) pause() time.Duration {
	if r.err != nil {
		return refusedPause
	}
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return min(longestPause, time.Duration(seconds)*time.Second)
}

// wrong reports whether the status says that the request was invalid; none of ours is.
func (r reply) wrong() bool {
	return r.status >= 400 && r.status < 500 && r.status != http.StatusTooManyRequests && r.status != http.StatusRequestTimeout
}

func (r reply) String() string {
	if r.err != nil {
		return r.err.Error()
	}
	return fmt.Sprintf("%d %.200s", r.status, r.body)
}

// client sends requests to the system.
type client struct {
	http          *http.Client
	targets       Targets
	authorization string
	timeout       time.Duration
}

func newClient(cfg Config) *client {
	return &client{
		targets: cfg.Targets, authorization: cfg.Authorization, timeout: cfg.Timeout,
		http: &http.Client{
			Transport: &http.Transport{
				MaxIdleConns: 0, MaxIdleConnsPerHost: max(cfg.MaxInFlight, int(cfg.Plan.Peak())), DisableCompression: true,
				IdleConnTimeout: 30 * time.Second, // shorter than the servers', which would otherwise close a connection under a request.
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// send sends one request; body is encoded as JSON unless it is nil.
func (c *client) send(ctx context.Context, method, url string, body any) reply {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return reply{err: fmt.Errorf("encode request: %w", err)}
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return reply{err: fmt.Errorf("make request: %w", err)}
	}
	if c.authorization != "" {
		req.Header.Set("Authorization", c.authorization)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = resp.Body.Close() }() // read only: nothing to lose.
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return reply{err: fmt.Errorf("read the answer: %w", err)}
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: text}
}

// read sends a structured read to the orchestrator.
func (c *client) read(ctx context.Context, table string, columns []string, condition map[string]any) reply {
	return c.send(ctx, http.MethodPost, c.targets.Orchestrator+"/api/v1/db/read",
		map[string]any{"table": table, "columns": columns, "condition": condition})
}

// insist repeats a request until the answer has one of the statuses; if ctx ends first, it returns the last reply. Use
// it only for requests that may be repeated.
func insist(ctx context.Context, request func(context.Context) reply, statuses ...int) (reply, error) {
	for {
		r := request(ctx)
		for _, status := range statuses {
			if r.err == nil && r.status == status {
				return r, nil
			}
		}
		if !wait.For(ctx, max(r.pause(), refusedPause)) || r.wrong() {
			return r, fmt.Errorf("got %v", r)
		}
	}
}

// decode reads the body of an answer.
func decode[T any](r reply) (T, error) {
	var v T
	if err := json.Unmarshal(r.body, &v); err != nil {
		return v, fmt.Errorf("read %.200s: %w", r.body, err)
	}
	return v, nil
}
