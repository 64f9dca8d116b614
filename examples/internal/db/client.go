// Package db is the examples' client of the database. It speaks the public HTTP API of the orchestrator.
//
// Three rules cover every call:
//   - A nil error is an answer, in which each statement has its own result. Look at Result.Error.
//   - A *Refusal with Unknown() false was certainly not done.
//   - A *Refusal with Unknown() true may have been done. Send the write again with the same key, as Insist does.
package db

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// CallLimit is how long a call waits for its answer. The database ends a call earlier, by default within 5 s.
const CallLimit = 10 * time.Second

// Client talks to one orchestrator for one user. It is safe for concurrent use.
type Client struct {
	base, user, authorization string
	http                      *http.Client
}

// New returns a client of the orchestrator at base, such as http://127.0.0.1:8083. The database gives each user a share, so
// that no user can starve another. It takes the user's name from authorization, a header; user counts only if that is "".
func New(base, user, authorization string) *Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: 30 * time.Second}
	return &Client{base: strings.TrimRight(base, "/"), user: user, authorization: authorization, http: &http.Client{Transport: transport}}
}

// Statement is one SQL text and the values of its parameters. A map as the only value binds parameters by name.
type Statement []any

// SQL returns a statement.
func SQL(text string, values ...any) Statement { return append(Statement{text}, values...) }

// Options are the options of one call. The zero value is good for most calls.
type Options struct {
	Key     string // the same key with the same statements has one effect and one answer
	Async   bool   // answer as soon as the broker has the write on disk; Answer.Operation then names it
	Rows    bool   // the results have the rows of RETURNING
	Level   string // of a read: "", none, weak, linearizable or strong
	MinSeq  string // a position that the read must see
	Cluster string // the data folder of that position; "": any
}

// Answer is the answer of a call.
type Answer struct {
	Results      []Result // one for each statement
	Seq, Cluster string   `json:"-"` // the position of the write, or that the read saw
	Cache        string   `json:"-"` // where the answer of a read came from: HIT, FLIGHT, MISS or BYPASS
	Operation    string   `json:"-"` // the id of an asynchronous write
}

// Err returns the error of the first statement that failed.
func (a Answer) Err() error {
	for _, result := range a.Results {
		if result.Error != "" {
			return errors.New(result.Error)
		}
	}
	return nil
}

// Position is where the change feed continues after this answer.
func (a Answer) Position() string { return a.Cluster + ":" + a.Seq }

// Result is the result of one statement.
type Result struct {
	Values       [][]any // rows; numbers are json.Number
	RowsAffected int64   `json:"rows_affected"`
	Error        string
}

// Int returns a value of a row that is an integer.
func Int(value any) int64 {
	number, _ := value.(json.Number)
	n, _ := number.Int64()
	return n
}

// Execute runs statements that change something.
func (c *Client) Execute(ctx context.Context, o Options, statements ...Statement) (Answer, error) {
	path := map[bool]string{true: "/db/request", false: "/db/execute"}[o.Rows]
	return c.statements(ctx, path, o, statements)
}

// Insist is Execute for a write with a key. While the outcome is unknown, Insist sends the write again under its key, until
// ctx ends; then the error is a *Refusal with Unknown() true. However many attempts there are, the write has one effect.
func (c *Client) Insist(ctx context.Context, o Options, statements ...Statement) (Answer, error) {
	for unknown := false; ; {
		a, err := c.Execute(ctx, o, statements...)
		r, refused := errors.AsType[*Refusal](err)
		unknown = refused && (unknown || r.Unknown()) // A later refusal says nothing about an attempt with an unknown outcome.
		if !unknown || r.Status == http.StatusUnprocessableEntity {
			return a, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return a, &Refusal{Status: http.StatusGatewayTimeout, Message: "not known whether the write was done"}
		}
	}
}

// Query runs statements that only read.
func (c *Client) Query(ctx context.Context, o Options, statements ...Statement) (Answer, error) {
	return c.statements(ctx, "/db/query", o, statements)
}

func (c *Client) statements(ctx context.Context, path string, o Options, statements []Statement) (Answer, error) {
	body, err := json.Marshal(statements)
	if err != nil {
		return Answer{}, fmt.Errorf("encode statements: %w", err)
	}
	path += "?level=" + url.QueryEscape(cmp.Or(o.Level, "weak"))
	head := http.Header{"X-Plain-Text": {"true"}}
	if o.Async {
		head.Set("Prefer", "respond-async")
	}
	for name, value := range map[string]string{"Idempotency-Key": o.Key, "X-Min-Seq": o.MinSeq, "X-Cluster-Id": o.Cluster} {
		if value != "" {
			head.Set(name, value)
		}
	}
	var a Answer
	head, err = c.call(ctx, path, body, head, &a)
	a.Seq, a.Cluster, a.Cache, a.Operation = head.Get("X-Seq"), head.Get("X-Cluster-Id"), head.Get("X-Cache"), head.Get("X-Operation-Id")
	return a, err
}

// Operation decodes the database's JSON about an asynchronous write into state. Its status is pending, applied or failed.
func (c *Client) Operation(ctx context.Context, id string, state any) error {
	_, err := c.call(ctx, "/api/v1/db/writes/"+url.PathEscape(id), nil, http.Header{}, state)
	return err
}

// call sends one request and decodes the body of a 2xx into answer. The headers returned are never nil.
func (c *Client) call(ctx context.Context, path string, body []byte, head http.Header, answer any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	resp, err := c.send(ctx, path, body, head)
	if err != nil {
		return http.Header{}, err
	}
	defer finish(resp)
	text := json.NewDecoder(resp.Body)
	text.UseNumber() // a float64 cannot hold every integer
	if err = text.Decode(answer); err != nil {
		return http.Header{}, broken(err, true)
	}
	return resp.Header, nil
}

// send sends a POST, or without a body a GET. An answer other than 2xx is a *Refusal.
func (c *Client) send(ctx context.Context, path string, body []byte, head http.Header) (*http.Response, error) {
	method := map[bool]string{true: http.MethodGet, false: http.MethodPost}[body == nil]
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header = head
	req.Header.Set("X-Rideshare-User", c.user)
	if c.authorization != "" {
		req.Header.Set("Authorization", c.authorization)
	}
	// wrote stays set when the connection breaks and the transport sends a request with a key again.
	var wrote atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }}
	resp, err := c.http.Do(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		return nil, broken(err, wrote.Load())
	}
	if resp.StatusCode/100 != 2 {
		defer finish(resp)
		return nil, refused(resp)
	}
	return resp, nil
}

// finish reads the rest of an answer, so that its connection can be used again.
func finish(resp *http.Response) {
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// Refusal is the error of every call that was not answered 2xx.
type Refusal struct { //nolint:errname // Refusal is the word of the API.
	Status     int    // without an answer 503 if the request was never sent, else 504
	Reason     string // which part refused under overload, such as user-rate
	Message    string
	RetryAfter time.Duration
}

func (r *Refusal) Error() string { return fmt.Sprintf("%d %s", r.Status, r.Message) }

// Unknown reports whether the write may have been done. 409 says that an earlier attempt under the same key still runs.
func (r *Refusal) Unknown() bool {
	return r.Status == http.StatusConflict || (r.Status >= 500 && r.Status != http.StatusServiceUnavailable)
}

// broken returns the refusal for a call without a whole answer. wrote reports whether any part of the request was sent.
func broken(err error, wrote bool) error {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" && !wrote {
		return &Refusal{Status: http.StatusServiceUnavailable, Message: "the database cannot be reached", RetryAfter: time.Second}
	}
	return &Refusal{Status: http.StatusGatewayTimeout, Message: "no answer from the database: " + err.Error()}
}

// refused reads a refusal from an answer.
func refused(resp *http.Response) error {
	var problem struct {
		Detail, Title, Reason string
		RetryMS               int64 `json:"retry_after_ms"`
	}
	_ = json.NewDecoder(resp.Body).Decode(&problem) // What is missing has its default below.
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return &Refusal{
		Status: resp.StatusCode, Reason: problem.Reason, Message: cmp.Or(problem.Detail, problem.Title, resp.Status),
		RetryAfter: cmp.Or(time.Duration(problem.RetryMS)*time.Millisecond, time.Duration(seconds)*time.Second),
	}
}
