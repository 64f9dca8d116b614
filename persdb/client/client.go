// Package client is the client of persdb's server. It offers the same methods as commitlog.Store with the same
// guarantees, so that workers need not know whether persdb is in their process or on another machine.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"
)

// Config holds the settings of a Client. Only URL is required.
type Config struct {
	// URL is the address of the server, http://host:port.
	URL string
	// HTTP makes the calls; if nil, the Client creates its own with keep-alive.
	HTTP *http.Client
	// Timeout bounds, in addition to a call's context, the wait for the start of the answer, and the silence within the
	// answer; 15 s if zero. A paused server must not block a worker for ever.
	Timeout time.Duration
}

const (
	defaultTimeout = 15 * time.Second
	idleConns      = 16
	// maxProblem bounds the body of an error.
	maxProblem = 64 << 10
)

// Client calls one persdb server. It is safe for concurrent use.
type Client struct {
	base    string
	http    *http.Client
	timeout time.Duration
	own     *http.Transport // nil if HTTP was given
}

// New returns a client. It does not connect yet; an error means a bad URL.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("persdb's address %q is no http URL", cfg.URL)
	}
	c := &Client{base: strings.TrimSuffix(u.String(), "/"), http: cfg.HTTP, timeout: cfg.Timeout}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	if c.http == nil {
		c.own = &http.Transport{MaxIdleConnsPerHost: idleConns, IdleConnTimeout: time.Minute, DisableCompression: true}
		c.http = &http.Client{Transport: c.own}
	}
	return c, nil
}

// Close closes idle connections. It does not end running calls; their contexts do.
func (c *Client) Close() error {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	return nil
}

// call is one request.
type call struct {
	method, path string
	body         []byte
	header       http.Header
	timeout      time.Duration
	effect       bool // the call has an effect, so after a lost answer its outcome is unknown
}

// do sends a request and returns the answer if it is a success. The body ends with ctx or when stop is called. With the
// server's error, do returns the answer without its body.
func (c *Client) do(ctx context.Context, in call) (resp *http.Response, stop context.CancelFunc, err error) {
	ctx, stop = context.WithCancel(ctx)
	timer := time.AfterFunc(in.timeout, stop) // bounds the wait for headers; a body is bounded by its reader.
	defer timer.Stop()
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := http.NewRequestWithContext(traced, in.method, c.base+in.path, bytes.NewReader(in.body))
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("request to persdb: %w", err)
	}
	maps.Copy(req.Header, in.header)
	resp, err = c.http.Do(req)
	if err != nil {
		stop()
		if !connected.Load() { // certainly nothing was sent
			return nil, nil, lost(false, fmt.Errorf("%w: %w", dbaas.ErrUnreachable, err))
		}
		return nil, nil, lost(in.effect, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer stop()
		return resp, nil, problem(resp, in.effect)
	}
	return resp, stop, nil
}

// lost returns the error of a call that was sent but got no answer.
func lost(effect bool, err error) error {
	if effect {
		return dbaas.WrapError(dbaas.CodeUnknown, "persdb did not answer, the outcome is not known", err)
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "persdb cannot be reached", err)
}

// problem restores the server's error. An answer that is not persdb's own, such as a proxy's, does not show whether the
// call had an effect.
func problem(resp *http.Response, effect bool) error {
	defer func() { _ = resp.Body.Close() }()
	var p struct {
		Detail string     `json:"detail"`
		Code   dbaas.Code `json:"code"`
	}
	err := json.NewDecoder(io.LimitReader(resp.Body, maxProblem)).Decode(&p)
	if err != nil || p.Code == dbaas.CodeOK {
		return lost(effect, fmt.Errorf("status %d without a code", resp.StatusCode))
	}
	return &dbaas.Error{Code: p.Code, Message: p.Detail}
}

// fetch is do followed by reading the whole body, of at most twice wire.MaxBytes: a commit's answer has two frames. The
// headers are there with the server's error too.
func (c *Client) fetch(ctx context.Context, in call) ([]byte, http.Header, error) {
	resp, stop, err := c.do(ctx, in) //nolint:bodyclose // newBounded closes it, and do closes that of an error.
	if resp == nil {
		return nil, nil, err
	}
	if err != nil {
		return nil, resp.Header, err
	}
	answer := newBounded(ctx, resp.Body, stop, c.timeout)
	defer func() { _ = answer.Close() }() // the body was read completely, or the rest is not needed.
	body, err := io.ReadAll(io.LimitReader(answer, 2*wire.MaxBytes+1))
	if err == nil && len(body) > 2*wire.MaxBytes {
		err = wire.ErrTooLarge
	}
	if err != nil {
		return nil, nil, lost(in.effect, err)
	}
	return body, resp.Header, nil
}

func (c *Client) fetchJSON(ctx context.Context, in call, out any) error {
	body, _, err := c.fetch(ctx, in)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return dbaas.WrapError(dbaas.CodeInternal, "persdb's answer could not be read", err)
	}
	return nil
}

// Claim requests a new epoch. After an error an epoch may have been issued and stays unused, which does no harm.
func (c *Client) Claim(ctx context.Context) (dbaas.Epoch, error) {
	var out struct {
		Epoch dbaas.Epoch `json:"epoch"`
	}
	err := c.fetchJSON(ctx, call{method: http.MethodPost, path: "/v1/claim", timeout: c.timeout}, &out)
	return out.Epoch, err
}

// Names of the headers that the server sends.
const (
	headerSeq   = "X-Seq"
	headerEpoch = "X-Epoch"
	headerSum   = "X-Crc32c"

	headerCluster = "X-Cluster-Id"
	headerFirst   = "X-First-Seq"
)

// sumDigits is how many hexadecimal digits a checksum has.
const sumDigits = 8
