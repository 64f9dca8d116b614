package client

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"
)

// Commit sends one batch; see commitlog.Store.Commit. CodeUnavailable means certainly not sent or certainly not done.
// CodeUnknown means that the connection or the context ended after the batch was sent; sending the same batch again
// finds out.
func (c *Client) Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	body, err := wire.WriteRequest{Operations: ops}.Encode(time.Now())
	if err != nil {
		return dbaas.Commit{}, dbaas.WrapError(dbaas.CodeTooLarge, "the batch is too large", err)
	}
	header := http.Header{headerEpoch: {strconv.FormatUint(uint64(by.Epoch), 10)}}
	if !by.Cluster.IsZero() {
		header.Set(headerCluster, by.Cluster.String())
	}
	answer, _, err := c.fetch(ctx, call{
		method: http.MethodPost, path: "/v1/commit", body: body, timeout: c.timeout, effect: true,
		header: header,
	})
	if err != nil {
		return dbaas.Commit{}, err
	}
	out, err := decodeCommit(answer, len(ops))
	if err != nil {
		return dbaas.Commit{}, lost(true, err)
	}
	return out, nil
}

var errShort = errors.New("the answer does not fit the request")

func decodeCommit(b []byte, want int) (dbaas.Commit, error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) { //nolint:gosec // not negative.
		return dbaas.Commit{}, errShort
	}
	results, entry := b[n:n+int(size)], b[n+int(size):] //nolint:gosec // bounded on the line above.
	reply, err := wire.DecodeWriteReply(results)
	if err != nil {
		return dbaas.Commit{}, err
	}
	if len(reply.Answers) != want {
		return dbaas.Commit{}, errShort
	}
	out := dbaas.Commit{Results: make([]dbaas.OperationResult, want)}
	for i, a := range reply.Answers {
		if a.Index != i {
			return dbaas.Commit{}, errShort
		}
		out.Results[i] = a.Result
	}
	if len(entry) > 0 {
		at, err := wire.CheckEntry(entry)
		if err != nil {
			return dbaas.Commit{}, err
		}
		out.Entry = &dbaas.EncodedEntry{Head: at, Frame: entry}
	}
	return out, nil
}
