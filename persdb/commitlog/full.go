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

// DefaultReserve is the disk space that a production store keeps in reserve.
const DefaultReserve = 32 << 20

// diskFull is the message that callers see when the engine found no disk space.
const diskFull = "persdb's disk is full"

// ErrLogFull is the cause of a CodeFull error if the log is on another disk and that disk is full, not the data folder's.
var ErrLogFull = errors.New("the log's own disk is full")

var errDiskFull = &dbaas.Error{Code: dbaas.CodeFull, Message: diskFull}

// reserve is disk space kept back for when the disk is full: a file of zeros. On a completely full disk the WAL cannot
// be written back to the database, so not even a delete, a trim or a claim would find space.
type reserve struct {
	path string
	size int64 // 0: no reserve
	kept bool
	free func() int64 // returns the free bytes of the disk
}

// keep creates the file. It returns CodeFull if the disk has less than twice its size free.
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

// use releases the reserved space. It returns false if there was none.
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

// freeBytes returns the free space on the disk of a directory, or 0 if it cannot be determined.
func freeBytes(dir string) int64 {
	var disk syscall.Statfs_t
	if syscall.Statfs(dir, &disk) != nil {
		return 0
	}
	return int64(disk.Bavail) * int64(disk.Bsize) //nolint:unconvert // other systems have other types.
}

// noteFull marks the disk as full after the first step that found no space, and releases the reserve. It returns err
// with the message for callers. The caller owns the connection, and no transaction is open.
func (s *Store) noteFull(ctx context.Context, err error) error {
	if dbaas.CodeOf(err) != dbaas.CodeFull || errors.Is(err, errArchiveFull) || errors.Is(err, ErrLogFull) {
		return err
	}
	if !s.full.Swap(true) {
		s.cfg.Log.ErrorContext(ctx, "the disk is full, writes that need room are refused until there is some", logkey.Error, err)
	}
	s.fullAt = s.tables.Load()
	if s.reserve.use() {
		s.conn.CheckpointPassive() // the contents of the WAL now find space in the database.
	}
	return dbaas.WrapError(dbaas.CodeFull, diskFull, err)
}

// noteRoom marks the disk as no longer full once the reserve exists again. It is called after a successful step.
func (s *Store) noteRoom(ctx context.Context) {
	if s.full.Load() && s.reserve.keep() == nil {
		s.full.Store(false)
		s.cfg.Log.InfoContext(ctx, "the disk has room again, writes are taken")
	}
}

// short reports whether the store has used up its reserve. It then refuses operations that grow the tables, so that
// deletes find space.
func (s *Store) short() bool { return s.full.Load() && s.reserve.size > 0 && !s.reserve.kept }
