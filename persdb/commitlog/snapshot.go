package commitlog

import (
	"context"
	"errors"
	"hash"
	"io"
	"sync"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
)

// maxSnapshots is how many snapshots are read at the same time: each holds a connection and keeps the WAL from being
// reset.
const maxSnapshots = 4

// Snapshot returns a copy of the tables' file as of one entry. The copy is made while Body is read. Commits
// continue in the meantime, but the WAL grows until Body is closed, so the caller must close it soon. ctx bounds the
// wait while other snapshots are read.
func (s *Store) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	head, body, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &dbaas.Snapshot{Head: head, Body: body, Bytes: body.source.Bytes(), Sum: body.announce}, nil
}

func (s *Store) snapshot(ctx context.Context) (head dbaas.Head, body *snapshotBody, err error) {
	if err = s.leftBehind(); err != nil {
		return head, nil, err
	}
	select {
	case s.copying <- struct{}{}:
	case <-ctx.Done():
		return head, nil, dbaas.WrapError(dbaas.CodeUnavailable, "other snapshots are being made", ctx.Err())
	}
	begun, err := replication.OpenSnapshot(s.path())
	if err != nil {
		<-s.copying
		return head, nil, dbaas.WrapError(dbaas.CodeUnavailable, "no snapshot could be made", err)
	}
	body = &snapshotBody{source: begun, sum: dbaas.NewSnapshotSum(), release: sync.OnceFunc(func() { <-s.copying })}
	head = begun.Head()
	head.Cluster = s.cluster
	return head, body, nil
}

// snapshotBody computes the checksum of the bytes that are read.
type snapshotBody struct {
	source  *replication.Snapshot
	sum     hash.Hash32
	whole   bool
	release func()
}

func (b *snapshotBody) Read(p []byte) (int, error) {
	n, err := b.source.Read(p)
	_, _ = b.sum.Write(p[:n]) // a Hash never returns an error, by its documentation.
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, err
}

func (b *snapshotBody) announce() (sum uint32, whole bool) {
	return b.sum.Sum32(), b.whole
}

func (b *snapshotBody) Close() error {
	defer b.release()
	return b.source.Close()
}
