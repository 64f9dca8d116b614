package commitlog

import (
	"context"
	"errors"
	"os"

	"rideshare/internal/logkey"
	"rideshare/internal/sqlite"
)

// defaultShrinkFrom is the file size from which shrinking is worthwhile.
const defaultShrinkFrom = 64 << 20

// shrink compacts a file that is mostly free pages: it copies the used pages into a new file, which replaces the old
// one by a rename. Row ids do not change. If the process dies in between, the old file and a part of the new one
// remain; the next start removes that part.
//
// shrink runs at the start, when no commit waits. If the disk has no room for the copy, shrink does nothing and returns
// nil.
func (s *Store) shrink(ctx context.Context, path string) error {
	copied := path + ".new"
	if err := os.Remove(copied); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() < s.cfg.shrinkFrom {
		return nil //nolint:nilerr // the file does not exist yet.
	}
	done, err := s.copyUsed(path, copied, info.Size())
	if err != nil || !done {
		return errors.Join(err, removed(copied))
	}
	if wal, absent := os.Stat(path + "-wal"); absent == nil && wal.Size() > 0 { // the WAL belongs to the old file
		return removed(copied)
	}
	if err = s.replaceBy(copied, path); err != nil {
		return errors.Join(err, removed(copied))
	}
	if smaller, err := os.Stat(path); err == nil {
		s.cfg.Log.InfoContext(ctx, "database file made smaller", logkey.Path, path, logkey.Bytes, smaller.Size(), "before", info.Size())
	}
	return nil
}

// replaceBy gives a copy the name of the file that it replaces. It also syncs the directory before the rename, so that the
// removal of the old file's WAL is durable. Otherwise that WAL could reappear beside the new file after a power loss.
func (s *Store) replaceBy(copied, path string) error {
	for _, path := range []string{copied, s.cfg.Dir} {
		if err := s.cfg.files.sync(path); err != nil {
			return err
		}
	}
	if err := s.cfg.files.rename(copied, path); err != nil {
		return err
	}
	return s.cfg.files.sync(s.cfg.Dir)
}

// copyUsed copies the used pages if at least half of the file's pages are free and the disk has room for twice the used
// pages.
func (s *Store) copyUsed(path, to string, size int64) (done bool, err error) {
	c, err := sqlite.Open(path, sqlite.Options{Durable: true})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	pages, err := c.UsedPages()
	used := pages * sqlite.PageSize
	if err != nil || 2*used > size || freeBytes(s.cfg.Dir) < 2*used {
		return false, err
	}
	return true, c.CopyUsed(to)
}

func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
