// Package usercheck asks the users service, through the gateway, whether a user exists. Creating and joining rides use
// it.
package usercheck

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/instances"
	"rideshare/internal/tlsfiles"
	"rideshare/internal/tracing"
)

// Mode selects the request sent to the users service.
type Mode string

// The modes.
const (
	Lookup Mode = "lookup" // GET /api/v1/users/{username}
	List   Mode = "list"   // GET /api/v1/users, as the course demands
)

const (
	timeout      = 5 * time.Second
	idleTimeout  = 30 * time.Second // below the server's 60 s
	maxIdleConns = 256
	maxAnswer    = 256 << 20 // bytes
	maxRefusal   = 64 << 10  // bytes of an error's body
	// countPath is the path of the users counter; no user can have this name.
	countPath = "_count"
)

// Config holds the settings of a Client. Gateway is required.
type Config struct {
	Gateway string // base URL, or several with commas in between: the first that answers is used
	Origin  string // header Origin: this rides instance; "" sends none
	Mode    Mode   // "" means Lookup
	// TLS is what the client trusts and presents; nil means the system's CAs.
	TLS *tlsfiles.Files
}

// Client asks the users service. It is safe for concurrent use.
type Client struct {
	cfg  Config
	pool *instances.Pool
}

// New returns a Client. An unknown mode and a URL that is not http or https are errors.
func New(cfg Config) (*Client, error) {
	cfg.Mode = cmp.Or(cfg.Mode, Lookup)
	if cfg.Mode != Lookup && cfg.Mode != List {
		return nil, fmt.Errorf("user check %q is neither %s nor %s", cfg.Mode, Lookup, List)
	}
	pool, err := instances.New(instances.Config{URLs: strings.Split(cfg.Gateway, ","), TLS: cfg.TLS, Transport: &http.Transport{
		MaxIdleConns:        maxIdleConns,
		MaxIdleConnsPerHost: maxIdleConns,
		IdleConnTimeout:     idleTimeout,
	}})
	if err != nil {
		return nil, fmt.Errorf("gateway URL: %w", err)
	}
	return &Client{cfg: cfg, pool: pool}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.pool.CloseIdleConnections() }

// Exists asks once, without a cache, whether this user exists at minSeq or later. If a gateway accepts no connection, Exists asks
// the next one. A refusal of the users service, 429 or 503, is returned with its reason and its time to retry. Any other
// CodeUnavailable means that the users service gave no valid answer.
func (c *Client) Exists(ctx context.Context, name string, minSeq dbaas.Seq) (bool, error) {
	if name == "" || name == countPath {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	path := "/api/v1/users"
	if c.cfg.Mode == Lookup {
		path += "/" + url.PathEscape(name)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.pool.Base()+path, nil)
	if err != nil {
		return false, dbaas.WrapError(dbaas.CodeInternal, "make user check", err)
	}
	c.setHeaders(req, minSeq)
	// The users service counts its requests, so this one is not repeated once it was sent. A transport repeats a GET by itself if
	// its connection breaks, unless the GET has a body, even an empty one.
	req.Body = io.NopCloser(strings.NewReader(""))
	// RoundTrip instead of an http.Client, because redirects must not be followed.
	resp, err := c.pool.RoundTrip(req)
	if err != nil {
		return false, unavailable(err)
	}
	defer func() { _ = resp.Body.Close() }() // Read as far as needed; a close error does not matter.
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		return false, refused(resp)
	}
	found, err := c.read(name, resp.StatusCode, json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)))
	if err != nil {
		return false, unavailable(err)
	}
	return found, nil
}

func (c *Client) setHeaders(req *http.Request, minSeq dbaas.Seq) {
	req.Header.Set("Accept", "application/json, application/problem+json") // a refusal has its reason only in a problem
	if c.cfg.Origin != "" {
		req.Header.Set("Origin", c.cfg.Origin)
	}
	if id := httpapi.RequestID(req.Context()); id != "" {
		req.Header.Set(httpapi.HeaderRequestID, id)
	}
	tracing.Inject(req.Context(), req.Header)
	if user := httpapi.UserLabel(req.Context()); user != "" {
		req.Header.Set(httpapi.HeaderUser, user)
	}
	if minSeq > 0 {
		req.Header.Set(httpapi.HeaderMinSeq, strconv.FormatUint(uint64(minSeq), 10))
	}
}

// read returns whether name exists according to an answer.
func (c *Client) read(name string, status int, body *json.Decoder) (bool, error) {
	switch {
	case c.cfg.Mode == List && status == http.StatusNoContent:
		return false, nil
	case c.cfg.Mode == List && status == http.StatusOK:
		return listed(name, body)
	case c.cfg.Mode == Lookup && status == http.StatusNotFound:
		return false, nil
	case c.cfg.Mode == Lookup && status == http.StatusOK:
		var user struct {
			Username string `json:"username"`
		}
		if err := body.Decode(&user); err != nil {
			return false, fmt.Errorf("decode user: %w", err)
		}
		if user.Username != name {
			return false, errors.New("the answer is about another user")
		}
		return true, nil
	}
	return false, fmt.Errorf("users service answered %d", status)
}

// listed reports whether name is in an array of names. It holds one name at a time: there may be millions.
func listed(name string, names *json.Decoder) (bool, error) {
	open, err := names.Token()
	if err == nil && open != json.Delim('[') {
		err = errors.New("not an array")
	}
	found := false
	for err == nil && names.More() {
		var next string
		err = names.Decode(&next)
		found = found || next == name
	}
	if err == nil {
		_, err = names.Token() // the end must be there: a truncated list proves nothing
	}
	if err != nil {
		return false, fmt.Errorf("decode users: %w", err)
	}
	return found, nil
}

// refused returns the error of a refusal. The status stays what it is: a body that gives the code of another status does
// not count.
func refused(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return unavailable(err)
	}
	e, coded := httpapi.ErrorFromAnswer(resp.StatusCode, resp.Header, body)
	if !coded || httpapi.StatusOf(e.Code) != resp.StatusCode {
		e.Code, e.Message = httpapi.CodeFromStatus(resp.StatusCode), cannotAsk
	}
	return e
}

// cannotAsk is the message if the users service gives no reason.
const cannotAsk = "the users service cannot be asked"

func unavailable(err error) error {
	return dbaas.WrapError(dbaas.CodeUnavailable, cannotAsk, err)
}
