package commitlog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// snapshotDir holds snapshots while they are read.
const snapshotDir = "snapshots"

// cleanSnapshots removes what a process that died has left.
func (s *Store) cleanSnapshots() error {
	dir := filepath.Join(s.cfg.Dir, snapshotDir)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o750)
}

// Snapshot returns a copy of all application tables as they are after one entry.
// Commits go on meanwhile. The caller closes Body, which removes the copy. Only
// one copy is made at a time; ctx bounds the wait for that.
func (s *Store) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	select {
	case s.copying <- struct{}{}:
	case <-ctx.Done():
		return nil, dbaas.WrapError(dbaas.CodeUnavailable, "another snapshot is being made", ctx.Err())
	}
	defer func() { <-s.copying }()
	dir, err := os.MkdirTemp(filepath.Join(s.cfg.Dir, snapshotDir), "")
	if err != nil {
		return nil, dbaas.WrapError(dbaas.CodeUnavailable, "no snapshot could be made", err)
	}
	snapshot, err := s.copyTo(dir)
	if err != nil {
		err = errors.Join(err, os.RemoveAll(dir))
		if dbaas.CodeOf(err) == dbaas.CodeFull {
			return nil, err
		}
		return nil, dbaas.WrapError(dbaas.CodeUnavailable, "no snapshot could be made", err)
	}
	return snapshot, nil
}

func (s *Store) copyTo(dir string) (*dbaas.Snapshot, error) {
	path := filepath.Join(dir, FileName)
	head, err := sqlite.Snapshot(s.path(), path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path) //nolint:gosec // our own temporary file.
	if err != nil {
		return nil, err
	}
	snapshot := &dbaas.Snapshot{Head: head, Body: &temporary{File: f, dir: dir}}
	sum := sha256.New()
	if snapshot.Size, err = io.Copy(sum, f); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("checksum: %w", err), f.Close())
	}
	snapshot.SHA256 = [32]byte(sum.Sum(nil))
	return snapshot, nil
}

// temporary is a file that goes when it is closed.
type temporary struct {
	*os.File
	dir string
}

func (t *temporary) Close() error { return errors.Join(t.File.Close(), os.RemoveAll(t.dir)) }
