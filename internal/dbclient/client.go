// Package dbclient is the client of the orchestrator's HTTP API, as the users
// and rides services use it: parameterised statements out, typed rows back.
//
// Every failure is a *dbaas.Error whose code determines what the caller can do: with CodeUnavailable the call was
// certainly not done, with CodeUnknown it may have been done.
package dbclient

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/instances"
	"rideshare/internal/tlsfiles"
	"rideshare/internal/tracing"
)

const (
	// maxIdleConns is how many connections stay open between requests: as many as concurrent calls are expected. With
	// fewer, each burst would open and close hundreds.
	maxIdleConns = 512
	// idleTimeout is less than the server's 60 s, so that the client closes first and never sends a request into a
	// closing connection.
	idleTimeout = 30 * time.Second
	// defaultTimeout is longer than the orchestrator's own call timeout (5 s by default), so that its more specific
	// answer arrives first.
	defaultTimeout = 10 * time.Second
	// maxAnswer bounds an answer in memory, in bytes.
	maxAnswer = 256 << 20
	// largeAnswer is the size in bytes from which an answer counts as held by its request.
	largeAnswer = 64 << 10
)

// Config is the settings of a Client. Only URL is required.
type Config struct {
	// URL is the orchestrator's base URL, such as http://orchestrator:9500, or those of several with commas in between. The
	// first one that answers is used.
	URL string
	// Authorization returns the value of the Authorization header, "" for none. It is called for each call, so that
	// credentials can change. nil sends none.
	Authorization func() string
	// Timeout bounds a call; zero means 10 s.
	Timeout time.Duration
	// TLS is what the client trusts and presents; nil means the system's CAs.
	TLS *tlsfiles.Files
	// BreakAfter is how many attempts in a row must fail before the client makes no attempt for a second. Zero means
	// 10; a negative number means never.
	BreakAfter int
}

// Client calls one orchestrator, or the first of several that answers. It is safe for concurrent use.
//
// With several, reads see every position that the client has seen in an answer during the last minute, whichever orchestrator
// serves them.
//
// The Client makes up to three attempts for a call if
//   - the orchestrator refuses it: 429, or 503 for any reason except a position that is not reached, or
//   - the orchestrator cannot be reached, or
//   - it is a write whose outcome is unknown, or whose earlier attempt still runs. The attempts have the same key.
//
// A request that was certainly not sent to one orchestrator goes to the next one within the same attempt. If an orchestrator
// dies while it handles a write, the next attempt is made immediately, at another orchestrator.
//
// Between attempts it waits for a random time of up to 50 ms, then 100 ms, plus what the server asks for (Retry-After).
// It does not retry if that wait would pass the deadline, or if the retries of the last 10 s have reached a tenth of
// the calls and at least 100.
//
// After ten consecutive failed attempts (see Config.BreakAfter) it makes none for a second, then a single attempt. An attempt
// fails with 502, 503 or 504, or without an answer while no other orchestrator lives. Reads and writes count separately.
type Client struct {
	base          string
	authorization func() string
	timeout       time.Duration
	pool          *instances.Pool
	newest        newest
	budget        budget
	reads, writes breaker
	outcomes      outcomes
}

// New returns a Client. It returns an error unless each URL is http or https with a host. It does not contact the server.
func New(cfg Config) (*Client, error) {
	pool, err := instances.New(instances.Config{URLs: strings.Split(cfg.URL, ","), TLS: cfg.TLS, Transport: &http.Transport{
		MaxIdleConns:        maxIdleConns,
		MaxIdleConnsPerHost: maxIdleConns,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
	}})
	if err != nil {
		return nil, fmt.Errorf("orchestrator URL: %w", err)
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.BreakAfter = cmp.Or(cfg.BreakAfter, breakAfter)
	if cfg.Authorization == nil {
		cfg.Authorization = func() string { return "" }
	}
	c := &Client{
		base:          pool.Base(),
		authorization: cfg.Authorization,
		timeout:       cfg.Timeout,
		pool:          pool,
	}
	c.reads.after, c.writes.after = cfg.BreakAfter, cfg.BreakAfter
	return c, nil
}

// Close closes idle connections. Calls in flight continue.
func (c *Client) Close() { c.pool.CloseIdleConnections() }

// Options are the options of a call. The zero value suits most calls.
type Options struct {
	// MinSeq is the position that a read must have reached; a write always sees the newest state.
	MinSeq dbaas.Seq
	// Key makes a write idempotent: the same key with the same statements is applied once. It has 1 to 255 printable
	// characters, see httpapi.KeyScope. "" means a new key for this call.
	Key string
}

// Answer is the result of a call.
type Answer struct {
	// Seq is the position of the write, or the position that the read saw; zero if the answer has none.
	Seq     dbaas.Seq
	Results []Result
}

// Query runs reads, all on the same state, which includes every write acknowledged before. The error is that of the
// call or of the first statement that failed; the answer then has the results of the statements before it.
func (c *Client) Query(ctx context.Context, opts Options, stmts ...dbaas.Statement) (Answer, error) {
	return c.statements(ctx, "/db/query", false, opts, stmts)
}

// Execute runs writes, all or none of them. nil means that they are on disk. CodeConstraint means that a key or
// foreign key constraint was violated, CodeUnavailable that certainly nothing was done, CodeUnknown that it may have
// been.
func (c *Client) Execute(ctx context.Context, opts Options, stmts ...dbaas.Statement) (Answer, error) {
	return c.statements(ctx, "/db/execute?transaction", true, opts, stmts)
}

// Request runs reads and writes together on the master, all or none of them. No other write takes effect between them.
// Errors as for Execute.
func (c *Client) Request(ctx context.Context, opts Options, stmts ...dbaas.Statement) (Answer, error) {
	return c.statements(ctx, "/db/request?transaction", true, opts, stmts)
}

// Clear empties the tables of users, rides and seats, all or none. Errors as for Execute.
func (c *Client) Clear(ctx context.Context, opts Options) (Answer, error) {
	ans, err := c.call(ctx, call{method: http.MethodPost, path: "/api/v1/db/clear", write: true, opts: opts})
	return Answer{Seq: ans.seq}, err
}

// Ready returns nil if the orchestrator can serve reads and writes, otherwise its answer about what is missing. It does
// not retry.
func (c *Client) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	_, last := c.once(ctx, call{method: http.MethodGet, path: "/readyz", authorization: c.authorization()}, false)
	return last.err
}

func (c *Client) statements(ctx context.Context, path string, write bool, opts Options, stmts []dbaas.Statement) (Answer, error) {
	body, err := encodeStatements(stmts)
	if err != nil {
		return Answer{}, err
	}
	ans, err := c.call(ctx, call{method: http.MethodPost, path: path, body: body, write: write, opts: opts})
	if err != nil {
		return Answer{Seq: ans.seq}, err
	}
	results, err := decodeResults(ans.body, len(stmts))
	return Answer{Seq: ans.seq, Results: results}, err
}

// header builds the headers of a call. seen is the position that a read must see beside its own, nil for none.
func (c *Client) header(ctx context.Context, k call, seen *position) http.Header {
	h := http.Header{"Accept": {"application/json, application/problem+json"}}
	if k.body != nil {
		h.Set("Content-Type", "application/json")
		h.Set(httpapi.HeaderPlainText, "true")
	}
	if k.authorization != "" {
		h.Set("Authorization", k.authorization)
	} else if user := httpapi.UserLabel(ctx); user != "" {
		h.Set(httpapi.HeaderUser, user)
	}
	if id := httpapi.RequestID(ctx); id != "" {
		h.Set(httpapi.HeaderRequestID, id)
	}
	tracing.Inject(ctx, h)
	if k.write {
		h.Set(httpapi.HeaderIdempotencyKey, k.opts.Key)
		return h
	}
	// A nil value is not sent. It allows the transport to retry a read that met a closing connection, as it may retry
	// every write, which has a key.
	h["X-Idempotency-Key"] = nil
	switch {
	case seen != nil && seen.seq >= k.opts.MinSeq:
		h[httpapi.HeaderMinSeq], h[httpapi.HeaderCluster] = seen.text, seen.cluster
	case k.opts.MinSeq > 0:
		h.Set(httpapi.HeaderMinSeq, strconv.FormatUint(uint64(k.opts.MinSeq), 10))
	}
	return h
}

// newKey generates the key of a write whose caller gave none. With a key the transport may retry a request that met a
// closing connection: the database applies it once.
func newKey() string { return uuid.NewString() }
