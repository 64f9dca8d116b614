package commitlog

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
)

// DefaultReserve is the room that a store in production keeps back.
const DefaultReserve = 32 << 20

// diskFull is what callers see when the engine found no room.
const diskFull = "persdb's disk is full"

var errDiskFull = &dbaas.Error{Code: dbaas.CodeFull, Message: diskFull}

// reserve is room on the disk that is kept back for the day when there is no other: a file of zeros. On a disk that is
// really full the WAL cannot go into the database, so that not even a delete, a trim or a claim would find room.
type reserve struct {
	path string
	size int64 // 0: none is kept
	kept bool
	free func() int64 // bytes that the disk has
}

// keep makes the file, unless the disk would have no room beside it.
func (r *reserve) keep() error {
	if r.size == 0 || r.kept {
		return nil
	}
	if info, err := os.Stat(r.path); err == nil && info.Size() == r.size {
		r.kept = true
		return nil
	}
	if free := r.free(); free < 2*r.size {
		return dbaas.Errorf(dbaas.CodeFull, "the disk has %d bytes, too few to keep %d back", free, r.size)
	}
	f, err := os.Create(r.path)
	if err == nil {
		_, err = io.CopyN(f, zeros{}, r.size)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return errors.Join(err, os.Remove(r.path))
	}
	r.kept = true
	return nil
}

// use gives the room to others. It returns false if there was none.
func (r *reserve) use() bool {
	used := r.kept && os.Remove(r.path) == nil
	r.kept = r.kept && !used
	return used
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// freeBytes returns the room on the disk of a directory, 0 if it cannot be found out.
func freeBytes(dir string) int64 {
	var disk syscall.Statfs_t
	if syscall.Statfs(dir, &disk) != nil {
		return 0
	}
	return int64(disk.Bavail) * int64(disk.Bsize) //nolint:gosec,unconvert // other systems have other types.
}

// noteFull keeps the record of a disk that is full, from the first step that found no room on, and gives the reserve away.
// It returns err in the words for callers. The caller owns the connection, and no transaction is open.
func (s *Store) noteFull(ctx context.Context, err error) error {
	if dbaas.CodeOf(err) != dbaas.CodeFull {
		return err
	}
	if !s.full.Swap(true) {
		s.cfg.Log.ErrorContext(ctx, "the disk is full, writes that need room are refused until there is some", logkey.Error, err)
	}
	s.fullAt = s.tables.Load()
	if s.reserve.use() {
		s.conn.CheckpointPassive() // what the WAL has finds room in the database now.
	}
	return dbaas.WrapError(dbaas.CodeFull, diskFull, err)
}

// noteRoom ends what noteFull began, once a step has written and the reserve is there again.
func (s *Store) noteRoom(ctx context.Context) {
	if s.full.Load() && s.reserve.keep() == nil {
		s.full.Store(false)
		s.cfg.Log.InfoContext(ctx, "the disk has room again, writes are taken")
	}
}

// short reports whether the store lives on its reserve: then what grows is refused, so that deletes find room.
func (s *Store) short() bool { return s.full.Load() && s.reserve.size > 0 && !s.reserve.kept }
