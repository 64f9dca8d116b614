// Package api sends requests to the HTTP API of a system under measurement.
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"rideshare/bench/ledger"
	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
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

// Reply is the result of one request: an answer or an error.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error
}

// Fate returns the outcome of a write; done is the status of a write that was applied.
func (r Reply) Fate(done int) ledger.Fate { return ledger.FateOf(r.Status, r.Err, done) }

// Failure returns a short name of why the reply does not have the wanted status, or "" if it has.
func (r Reply) Failure(want int) string {
	switch {
	case r.Err == nil && r.Status == want:
		return ""
	case r.Err == nil:
		return strconv.Itoa(r.Status)
	case isTimeout(r.Err):
		return "timeout"
	default:
		return "connection"
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout())
}

// Pause returns how long a client should wait before its next request.
func (r Reply) Pause() time.Duration {
	if r.Err != nil {
		return refusedPause
	}
	seconds, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return min(longestPause, time.Duration(seconds)*time.Second)
}

// Wrong reports whether the status says that the request was invalid. The benchmarks send only valid requests.
func (r Reply) Wrong() bool {
	return r.Status >= 400 && r.Status < 500 && r.Status != http.StatusTooManyRequests && r.Status != http.StatusRequestTimeout
}

func (r Reply) String() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("%d %.200s", r.Status, r.Body)
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	// Base is the base URL of Call; At sets it.
	Base string
	HTTP *http.Client
	// Authorization is sent with each request, unless it is empty.
	Authorization string
	// User is sent as the user's label with each request, unless it is empty.
	User string
	// Timeout is how long a request waits for its answer; zero: as long as its context.
	Timeout time.Duration

	seen *atomic.Uint64 // the largest position in an answer; nil with one address
}

// Call is Send to a path below Base.
func (c *Client) Call(ctx context.Context, method, path string, body any, header ...string) Reply {
	return c.Send(ctx, method, c.Base+path, body, header...)
}

// Send sends one request, whose URL begins with Base if the client has several addresses (see At). body is encoded as JSON unless it
// is nil; header is names and values in turn.
func (c *Client) Send(ctx context.Context, method, url string, body any, header ...string) Reply {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return Reply{Err: fmt.Errorf("encode request: %w", err)}
		}
	}
	r := c.once(ctx, method, url, text, header)
	if lostElsewhere(r.Err) && slices.Contains(header, httpapi.HeaderIdempotencyKey) {
		// Only a success counts: any other answer proves nothing about the first attempt.
		if again := c.once(ctx, method, url, text, header); again.Status/100 == 2 {
			return again
		}
	}
	return r
}

func (c *Client) once(ctx context.Context, method, url string, body []byte, header []string) Reply {
	var content io.Reader = http.NoBody
	if body != nil {
		content = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return Reply{Err: fmt.Errorf("make request: %w", err)}
	}
	if c.Authorization != "" {
		req.Header.Set("Authorization", c.Authorization)
	}
	if c.User != "" {
		req.Header.Set(httpapi.HeaderUser, c.User)
	}
	c.ask(req.Header)
	for pair := range slices.Chunk(header, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return Reply{Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // read only: nothing to lose.
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return Reply{Err: fmt.Errorf("read the answer: %w", err)}
	}
	c.note(resp.Header)
	return Reply{Status: resp.StatusCode, Header: resp.Header, Body: text}
}

// Insist retries a request until the answer has one of the statuses; if ctx ends first, it returns the last reply. Use
// it only for requests that may be retried.
func Insist(ctx context.Context, request func(context.Context) Reply, statuses ...int) (Reply, error) {
	for {
		r := request(ctx)
		for _, status := range statuses {
			if r.Err == nil && r.Status == status {
				return r, nil
			}
		}
		if !wait.For(ctx, max(r.Pause(), refusedPause)) || r.Wrong() {
			return r, fmt.Errorf("got %v", r)
		}
	}
}

// Decode reads the body of an answer.
func Decode[T any](r Reply) (T, error) {
	var v T
	if err := json.Unmarshal(r.Body, &v); err != nil {
		return v, fmt.Errorf("read %.200s: %w", r.Body, err)
	}
	return v, nil
}

// Cluster is the answer of GET cluster.
type Cluster struct {
	Members []Member `json:"members"`
	Epoch   uint64   `json:"epoch"`
	Head    uint64   `json:"head_seq"`
	Desired int      `json:"desired_slaves"`
}

// Member is one worker as reported by the orchestrator.
type Member struct {
	PID    int            `json:"pid"`
	Worker dbaas.WorkerID `json:"container"`
	Role   string         `json:"role"`
	Ready  bool           `json:"ready"`
	Lag    uint64         `json:"lag"`
}
