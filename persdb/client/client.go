// Package client calls persdb's servers, one of which is active. It also defines the paths, headers and encodings of the
// internal API for both sides. The client offers the same methods as commitlog.Store with the same guarantees, so workers
// need not know whether persdb is in their process or on another machine.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/rpc"
	"rideshare/internal/tlsfiles"
	"rideshare/internal/wire"
)

// Config holds the settings of a Client. Only URL is required.
type Config struct {
	// URL is the address of the server, http://host:port, or those of several servers on one log, with commas in between.
	URL string
	// Observe means that the client never makes a server the active one.
	Observe bool
	// HTTP makes the calls; if nil, the Client creates its own with keep-alive.
	HTTP *http.Client
	// Timeout bounds, in addition to a call's context, the wait for the start of the answer and each pause within the
	// answer; 15 s if zero. A paused server must not block a worker forever. Some calls wait longer for the start.
	Timeout time.Duration
	// TLS holds the CAs that the client trusts and the certificate that it presents; nil means the system's CAs.
	TLS *tlsfiles.Files
}

const (
	defaultTimeout = 15 * time.Second
	idleConns      = 16
)

// Client calls a persdb server, or the active one of several. It is safe for concurrent use.
type Client struct {
	servers    []*rpc.Caller
	clocks     []*clock          // of the servers
	transports []*http.Transport // unused if HTTP was given
	timeout    time.Duration
	observe    bool
	current    atomic.Int32   // index of the server that answered last
	silent     []atomic.Int64 // when each server last gave no answer, in nanoseconds since 1970
}

// New returns a client. It does not connect yet; an error means a bad URL.
func New(cfg Config) (*Client, error) {
	c := &Client{timeout: cmp.Or(cfg.Timeout, defaultTimeout), observe: cfg.Observe}
	for address := range strings.SplitSeq(cfg.URL, ",") {
		base, transport, err := httpapi.Reach(strings.TrimSpace(address))
		if err != nil {
			return nil, fmt.Errorf("persdb's address: %w", err)
		}
		transport.MaxIdleConnsPerHost = idleConns
		cfg.TLS.Trust(transport)
		c.transports = append(c.transports, transport)
		at := &clock{}
		c.clocks = append(c.clocks, at)
		c.servers = append(c.servers, &rpc.Caller{
			Peer: "persdb", Base: base, HTTP: cmp.Or(cfg.HTTP, &http.Client{Transport: timed{transport, at}}), Timeout: c.timeout,
			MaxAnswer: 2 * wire.MaxBytes, // a commit's answer has two frames
		})
	}
	c.silent = make([]atomic.Int64, len(c.servers))
	return c, nil
}

// Servers returns the caller of each server, in the order of Config.URL.
func (c *Client) Servers() []*rpc.Caller { return c.servers }

// Close closes idle connections. It does not end running calls; their contexts do.
func (c *Client) Close() error {
	for _, transport := range c.transports {
		transport.CloseIdleConnections()
	}
	return nil
}

// Claim requests a new epoch. After an error persdb may have issued an epoch that stays unused, which does no harm.
func (c *Client) Claim(ctx context.Context) (dbaas.Epoch, error) {
	head, err := asJSON[dbaas.Head](ctx, c, toActive, rpc.Request{Method: http.MethodPost, Path: PathClaim}, nil)
	return head.Epoch, err
}

// Head returns the newest position and epoch.
func (c *Client) Head(ctx context.Context) (dbaas.Head, error) {
	return asJSON[dbaas.Head](ctx, c, toActive, rpc.Request{Method: http.MethodGet, Path: PathHead}, nil)
}

// Sizes returns the current sizes of the database.
func (c *Client) Sizes(ctx context.Context) (dbaas.Sizes, error) {
	return asJSON[dbaas.Sizes](ctx, c, toAny, rpc.Request{Method: http.MethodGet, Path: PathSizes}, nil)
}

// Hashes returns the content hashes of all application tables.
func (c *Client) Hashes(ctx context.Context) (dbaas.TableHashes, error) {
	r := rpc.Request{Method: http.MethodGet, Path: PathHashes, Timeout: 4 * c.timeout}
	return asJSON[dbaas.TableHashes](ctx, c, toAny, r, nil)
}

// HashPart returns the content hashes of one part of the rows, starting at from.
func (c *Client) HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error) {
	return asJSON[dbaas.HashPart](ctx, c, toAny, rpc.Request{Method: http.MethodPost, Path: PathHashPart}, from)
}

// Commit sends one batch; see commitlog.Store.Commit. CodeUnavailable means that the batch was not committed.
// CodeUnknown means that the connection or the context ended after the batch was sent, so it may have been committed.
// Sending the same batch again returns its result; with several servers the client has done so.
func (c *Client) Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	body, err := wire.WriteRequest{Operations: ops}.Encode(time.Now())
	if err != nil {
		return dbaas.Commit{}, dbaas.WrapError(dbaas.CodeTooLarge, "the batch is too large", err)
	}
	header := http.Header{HeaderEpoch: {strconv.FormatUint(uint64(by.Epoch), 10)}}
	if !by.Cluster.IsZero() {
		header.Set(HeaderCluster, by.Cluster.String())
	}
	r := rpc.Request{Method: http.MethodPost, Path: PathCommit, Header: header, Body: body, Effect: true}
	r.Timeout = dbaas.CommitTime(c.timeout, ops, time.Now())
	return ask(ctx, c, toActive, r, func(ctx context.Context, to *rpc.Caller, r rpc.Request) (dbaas.Commit, error) {
		answer, _, failed := to.Fetch(ctx, r)
		if failed != nil {
			return dbaas.Commit{}, failed
		}
		out, failed := decodeCommit(answer, len(ops))
		if failed != nil {
			return dbaas.Commit{}, to.Unreadable(r, failed)
		}
		return out, nil
	})
}

// Log returns a page of entries; see commitlog.Store.Log. With CodeGone the page has only its bounds.
//
// The server waits at most a minute for entries. A page may take any time as long as its bytes keep arriving: each
// arrival is reported by wait.ReportProgress, and the client's timeout bounds the pauses between arrivals.
func (c *Client) Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	return c.page(ctx, fmt.Sprintf("%s?after=%d&wait=%d", PathLog, after, max(0, wait.Milliseconds())), wait)
}

// Changes is Log for the change feed; see commitlog.Store.Changes.
func (c *Client) Changes(ctx context.Context, after dbaas.Seq, wait time.Duration, size int) (dbaas.Page, error) {
	return c.page(ctx, fmt.Sprintf("%s?after=%d&wait=%d&size=%d", PathChanges, after, max(0, wait.Milliseconds()), size), wait)
}

func (c *Client) page(ctx context.Context, path string, wait time.Duration) (dbaas.Page, error) {
	r := rpc.Request{Method: http.MethodGet, Path: path, Timeout: c.timeout + wait}
	return ask(ctx, c, toAny, r, func(ctx context.Context, to *rpc.Caller, r rpc.Request) (dbaas.Page, error) {
		body, header, refused := to.Fetch(ctx, r)
		if refused != nil && dbaas.CodeOf(refused) != dbaas.CodeGone {
			return dbaas.Page{}, refused
		}
		page, err := boundsOf(header)
		if err != nil {
			return dbaas.Page{}, err
		}
		if refused != nil {
			return page, refused
		}
		if page.Entries, err = wire.DecodeEntries(body); err != nil {
			return dbaas.Page{}, to.Unreadable(r, err)
		}
		return page, nil
	})
}

// Lookup returns the stored result of an operation, or CodeNotFound.
func (c *Client) Lookup(ctx context.Context, id dbaas.OpID) (dbaas.OperationResult, error) {
	r := rpc.Request{Method: http.MethodGet, Path: PathOperations + id.String()}
	return ask(ctx, c, toActive, r, func(ctx context.Context, to *rpc.Caller, r rpc.Request) (dbaas.OperationResult, error) {
		body, _, err := to.Fetch(ctx, r)
		if err != nil {
			return dbaas.OperationResult{}, err
		}
		reply, err := wire.DecodeWriteReply(body)
		if err == nil && len(reply.Answers) != 1 {
			err = errShort
		}
		if err != nil {
			return dbaas.OperationResult{}, to.Unreadable(r, err)
		}
		return reply.Answers[0].Result, nil
	})
}

// Snapshot starts to fetch a copy of the database; persdb makes the copy while the caller reads it. Reading Body ends
// with an error instead of io.EOF if the copy is incomplete, or if no bytes arrive for the client's timeout. The caller
// verifies Sum and closes Body.
func (c *Client) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	resp, err := open(ctx, c, rpc.Request{Method: http.MethodGet, Path: PathSnapshot, Timeout: 8 * c.timeout}) //nolint:bodyclose // the reader of the snapshot closes it.
	if err != nil {
		return nil, err
	}
	head, err := headOf(resp.Header)
	if err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return &dbaas.Snapshot{Head: head, Body: resp.Body, Sum: func() (uint32, bool) { return sumOf(resp.Trailer) }}, nil
}

// backupWait bounds the wait for the start of a backup: persdb first copies the tables to a file. fileWait is the same
// for FileSQL.
const (
	backupWait = 10 * time.Minute
	fileWait   = time.Minute
)

// Backup starts to fetch a backup; see commitlog.Store.Backup. Reading Body ends with an error instead of io.EOF if the
// backup is incomplete, or if no bytes arrive for the client's timeout. The caller closes Body.
func (c *Client) Backup(ctx context.Context, form dbaas.BackupForm) (*dbaas.Backup, error) {
	query := url.Values{"table": form.Tables, "sql": {strconv.FormatBool(form.SQL)}}
	resp, err := open(ctx, c, rpc.Request{Method: http.MethodGet, Path: PathBackup + "?" + query.Encode(), Timeout: backupWait})
	if err != nil {
		return nil, err
	}
	head, err := headOf(resp.Header)
	if err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return &dbaas.Backup{Head: head, Body: resp.Body}, nil
}

// FileSQL returns the SQL text of a database file; see commitlog.Store.FileSQL.
func (c *Client) FileSQL(ctx context.Context, file []byte) ([]byte, error) {
	r := rpc.Request{Method: http.MethodPost, Path: PathFileSQL, Body: file, Timeout: fileWait}
	return ask(ctx, c, toAny, r, func(ctx context.Context, to *rpc.Caller, r rpc.Request) ([]byte, error) {
		text, _, err := to.Fetch(ctx, r)
		return text, err
	})
}
