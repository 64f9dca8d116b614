package commitlog

import (
	"context"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
)

const (
	// snapshotDir holds the first parts of snapshots while they are made.
	snapshotDir = "snapshots"
	// maxSnapshots is how many snapshots are read at the same time: each holds a connection and keeps the WAL from
	// being reset.
	maxSnapshots = 4
)

// cleanSnapshots removes the files that a dead process left.
func (s *Store) cleanSnapshots() error {
	dir := filepath.Join(s.cfg.Dir, snapshotDir)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o750)
}

// Snapshot returns a copy of all application tables as of one entry. The copy is made while Body is read. Commits
// continue in the meantime, but the WAL grows until Body is closed, so the caller must close it soon. ctx bounds the
// wait while other snapshots are read.
func (s *Store) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	select {
	case s.copying <- struct{}{}:
	case <-ctx.Done():
		return nil, dbaas.WrapError(dbaas.CodeUnavailable, "other snapshots are being made", ctx.Err())
	}
	begun, err := s.beginSnapshot()
	if err != nil {
		<-s.copying
		if dbaas.CodeOf(err) == dbaas.CodeFull {
			return nil, err
		}
		return nil, dbaas.WrapError(dbaas.CodeUnavailable, "no snapshot could be made", err)
	}
	body := &snapshotBody{source: begun, sum: dbaas.NewSnapshotSum(), release: sync.OnceFunc(func() { <-s.copying })}
	head := begun.Head()
	head.Cluster = s.cluster
	return &dbaas.Snapshot{Head: head, Body: body, Sum: body.announce}, nil
}

func (s *Store) beginSnapshot() (*replication.Snapshot, error) {
	dir, err := os.MkdirTemp(filepath.Join(s.cfg.Dir, snapshotDir), "")
	if err != nil {
		return nil, err
	}
	begun, err := replication.OpenSnapshot(s.path(), filepath.Join(dir, FileName))
	if removed := os.RemoveAll(dir); err == nil && removed != nil {
		return nil, errors.Join(removed, begun.Close())
	}
	return begun, err
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
