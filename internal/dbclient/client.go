// Package dbclient is the client of the orchestrator's HTTP API, as the users
// and rides services use it: parameterised statements out, typed rows back.
//
// Every failure is a *dbaas.Error whose code says what the caller may do:
// CodeUnavailable was surely not done, CodeUnknown may have been.
package dbclient

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

const (
	// maxIdleConns is how many connections stay open between requests: as many as
	// calls are expected at once, or each burst would open and close hundreds.
	maxIdleConns = 512
	// idleTimeout is under the server's 60 s, so that this side closes first and
	// no request is sent into a closing connection.
	idleTimeout = 30 * time.Second
	dialTimeout = 2 * time.Second
	// defaultTimeout is over the orchestrator's own call timeout (5 s by default),
	// so that its answer, which knows more, comes first.
	defaultTimeout = 10 * time.Second
	// maxAnswer bounds an answer in memory, in bytes.
	maxAnswer = 256 << 20
	// largeAnswer is from where an answer counts as held by its request, in bytes.
	largeAnswer = 64 << 10
)

// Config is the settings of a Client. Only URL is required.
type Config struct {
	// URL is the orchestrator's base URL, such as http://orchestrator:9500.
	URL string
	// Authorization is the header of that name, see Credentials; "" sends none.
	Authorization string
	// Timeout bounds a call; zero means 10 s.
	Timeout time.Duration
}

// Client calls one orchestrator. It is safe for concurrent use.
type Client struct {
	base          string
	authorization string
	timeout       time.Duration
	transport     *http.Transport
}

// New returns a Client. A URL that is not http or https with a host is an error;
// whether anybody answers there is seen at the first call.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("parse orchestrator URL: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("orchestrator URL %q is not http://host:port", cfg.URL)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	return &Client{
		base:          strings.TrimSuffix(cfg.URL, "/"),
		authorization: cfg.Authorization,
		timeout:       cfg.Timeout,
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: idleTimeout}).DialContext,
			MaxIdleConns:        maxIdleConns,
			MaxIdleConnsPerHost: maxIdleConns,
			IdleConnTimeout:     idleTimeout,
			DisableCompression:  true,
		},
	}, nil
}

// Close closes idle connections. Calls in hand go on.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Options go with a call. The zero value is right for most.
type Options struct {
	// MinSeq is the position that a read must have seen at least; a write sees all.
	MinSeq dbaas.Seq
	// Key makes a write idempotent: the same key with the same statements is
	// applied once. It is 1 to 255 printable characters, see httpapi.KeyScope; "" means a
	// key of its own for this call.
	Key string
}

// Answer is what a call brought back.
type Answer struct {
	// Seq is the position that a write got or a read saw; zero if not told.
	Seq     dbaas.Seq
	Results []Result
}

// Query runs reads, all on one state that has every write acknowledged before.
// The error is that of the call or of the first statement that failed; results
// before it are in the answer.
func (c *Client) Query(ctx context.Context, opts Options, stmts ...dbaas.Statement) (Answer, error) {
	return c.statements(ctx, "/db/query", false, opts, stmts)
}

// Execute runs writes, all or none of them. nil means that they are on disk.
// CodeConstraint says that a key or foreign key refused, CodeUnavailable that
// surely nothing was done, CodeUnknown that it may have been.
func (c *Client) Execute(ctx context.Context, opts Options, stmts ...dbaas.Statement) (Answer, error) {
	return c.statements(ctx, "/db/execute?transaction", true, opts, stmts)
}

// Request runs reads and writes together, all or none of them, at the master:
// what a read of it sees cannot change before a later write of it. Errors as for Execute.
func (c *Client) Request(ctx context.Context, opts Options, stmts ...dbaas.Statement) (Answer, error) {
	return c.statements(ctx, "/db/request?transaction", true, opts, stmts)
}

// Clear empties the users, rides and seats, all of them or nothing. Errors as for Execute.
func (c *Client) Clear(ctx context.Context, opts Options) (Answer, error) {
	ans, err := c.call(ctx, call{method: http.MethodPost, path: "/api/v1/db/clear", write: true, opts: opts})
	return Answer{Seq: ans.seq}, err
}

// Ready returns nil when the orchestrator can serve reads and writes, and its
// answer about what is missing otherwise.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.call(ctx, call{method: http.MethodGet, path: "/readyz"})
	return err
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

// header builds the headers of a call.
func (c *Client) header(ctx context.Context, k call) http.Header {
	h := http.Header{"Accept": {"application/json, application/problem+json"}}
	if k.body != nil {
		h.Set("Content-Type", "application/json")
	}
	if c.authorization != "" {
		h.Set("Authorization", c.authorization)
	}
	if id := httpapi.RequestID(ctx); id != "" {
		h.Set(httpapi.HeaderRequestID, id)
	}
	if k.write {
		h.Set(httpapi.HeaderIdempotencyKey, k.opts.Key)
		return h
	}
	// Not sent: it tells the transport that a read may be sent again when it met
	// a closing connection, as it may every write with its key.
	h["X-Idempotency-Key"] = nil
	if k.opts.MinSeq > 0 {
		h.Set(httpapi.HeaderMinSeq, strconv.FormatUint(uint64(k.opts.MinSeq), 10))
	}
	return h
}

// newKey makes the key of a write whose caller gave none. With a key the
// transport may send a request again that met a closing connection, and the
// database applies it once.
func newKey() string { return uuid.NewString() }
