package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"
)

// Head returns the newest position and epoch.
func (c *Client) Head(ctx context.Context) (dbaas.Head, error) {
	var out struct {
		Cluster dbaas.ClusterID `json:"cluster"`
		Seq     dbaas.Seq       `json:"seq"`
		Epoch   dbaas.Epoch     `json:"epoch"`
	}
	err := c.fetchJSON(ctx, call{method: http.MethodGet, path: "/v1/head", timeout: c.timeout}, &out)
	return dbaas.Head(out), err
}

// Sizes returns the present sizes of the database.
func (c *Client) Sizes(ctx context.Context) (dbaas.Sizes, error) {
	var out dbaas.Sizes
	err := c.fetchJSON(ctx, call{method: http.MethodGet, path: "/v1/sizes", timeout: c.timeout}, &out)
	return out, err
}

// Log returns a page of entries; see commitlog.Store.Log. With CodeGone the page has only its bounds.
//
// The server waits at most a minute. A page may take as long as it needs while its bytes arrive: each arrival is reported
// by wait.Heard, and the client's timeout bounds the silence between arrivals.
func (c *Client) Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	path := fmt.Sprintf("/v1/log?after=%d&wait=%d", after, max(0, wait.Milliseconds()))
	body, header, refused := c.fetch(ctx, call{method: http.MethodGet, path: path, timeout: c.timeout + wait})
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
		return dbaas.Page{}, dbaas.WrapError(dbaas.CodeInternal, "persdb's answer could not be read", err)
	}
	return page, nil
}

// boundsOf returns a page without entries.
func boundsOf(h http.Header) (dbaas.Page, error) {
	head, err := headOf(h)
	if err != nil {
		return dbaas.Page{}, err
	}
	first, err := strconv.ParseUint(h.Get(headerFirst), 10, 64)
	if err != nil {
		return dbaas.Page{}, dbaas.WrapError(dbaas.CodeInternal, "persdb's answer does not say where the log begins", err)
	}
	return dbaas.Page{Head: head, First: dbaas.Seq(first)}, nil
}

func headOf(h http.Header) (dbaas.Head, error) {
	seq, err := strconv.ParseUint(h.Get(headerSeq), 10, 64)
	epoch, err2 := strconv.ParseUint(h.Get(headerEpoch), 10, 64)
	var cluster dbaas.ClusterID
	if err = errors.Join(err, err2, cluster.UnmarshalText([]byte(h.Get(headerCluster)))); err != nil {
		return dbaas.Head{}, dbaas.WrapError(dbaas.CodeInternal, "persdb's answer has no position", err)
	}
	return dbaas.Head{Cluster: cluster, Seq: dbaas.Seq(seq), Epoch: dbaas.Epoch(epoch)}, nil
}

// Lookup returns the stored result of an operation, or CodeNotFound.
func (c *Client) Lookup(ctx context.Context, id dbaas.OpID) (dbaas.OperationResult, error) {
	body, _, err := c.fetch(ctx, call{method: http.MethodGet, path: "/v1/operations/" + id.String(), timeout: c.timeout})
	if err != nil {
		return dbaas.OperationResult{}, err
	}
	reply, err := wire.DecodeWriteReply(body)
	if err == nil && len(reply.Answers) != 1 {
		err = errShort
	}
	if err != nil {
		return dbaas.OperationResult{}, dbaas.WrapError(dbaas.CodeInternal, "persdb's answer could not be read", err)
	}
	return reply.Answers[0].Result, nil
}

// Hashes returns the content hashes of all application tables.
func (c *Client) Hashes(ctx context.Context) (dbaas.TableHashes, error) {
	var out dbaas.TableHashes
	err := c.fetchJSON(ctx, call{method: http.MethodGet, path: "/v1/hashes", timeout: 4 * c.timeout}, &out)
	return out, err
}

// HashPart returns the content hashes of one part of the rows, starting at from.
func (c *Client) HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error) {
	body, err := json.Marshal(from)
	if err != nil {
		return dbaas.HashPart{}, dbaas.WrapError(dbaas.CodeInvalid, "the place in the tables", err)
	}
	var out dbaas.HashPart
	err = c.fetchJSON(ctx, call{method: http.MethodPost, path: "/v1/hashes/part", body: body, timeout: c.timeout}, &out)
	return out, err
}

// Snapshot starts to fetch a copy of the database, which persdb makes while it is read. Reading Body ends with an error
// instead of io.EOF if the copy is incomplete, or if no bytes arrive for the client's timeout. The caller verifies Sum
// and closes Body.
func (c *Client) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	resp, stop, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/snapshot", timeout: 8 * c.timeout}) //nolint:bodyclose // newBounded closes it. Others may be read first.
	if err != nil {
		return nil, err
	}
	head, err := headOf(resp.Header)
	if err != nil {
		err = errors.Join(err, resp.Body.Close())
		stop()
		return nil, err
	}
	return &dbaas.Snapshot{Head: head, Body: newBounded(ctx, resp.Body, stop, c.timeout), Sum: func() (uint32, bool) { return sumOf(resp.Trailer) }}, nil
}

// sumOf reads the checksum that follows a snapshot, and reports whether it arrived.
func sumOf(trailer http.Header) (sum uint32, whole bool) {
	digits := trailer.Get(headerSum)
	n, err := strconv.ParseUint(digits, 16, 32)
	return uint32(n), err == nil && len(digits) == sumDigits
}
