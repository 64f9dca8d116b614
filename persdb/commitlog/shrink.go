package commitlog

import (
	"context"
	"errors"
	"os"

	"rideshare/internal/logkey"
	"rideshare/internal/sqlite"
)

// defaultShrinkFrom is the size from which a file is worth making smaller.
const defaultShrinkFrom = 64 << 20

// shrink gives the room of a file back that is mostly free pages: it copies what is used into a new file, which takes
// the old one's place by a rename. Row ids stay as they are. A death on the way leaves the old file, and beside it a
// part of the new one, which the next start removes.
//
// It runs at the start, when no commit waits. It is no error that the disk has no room for the copy.
func (s *Store) shrink(ctx context.Context) error {
	path, copied := s.path(), s.path()+".new"
	if err := os.Remove(copied); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() < s.cfg.shrinkFrom {
		return nil //nolint:nilerr // there is no file yet.
	}
	done, err := s.copyUsed(path, copied, info.Size())
	if err != nil || !done {
		return errors.Join(err, removed(copied))
	}
	if wal, absent := os.Stat(path + "-wal"); absent == nil && wal.Size() > 0 { // it belongs to the old file
		return removed(copied)
	}
	if err = s.replaceBy(copied); err != nil {
		return errors.Join(err, removed(copied))
	}
	if smaller, err := os.Stat(path); err == nil {
		s.cfg.Log.InfoContext(ctx, "database file made smaller", logkey.Bytes, smaller.Size(), "before", info.Size())
	}
	return nil
}

// replaceBy puts a copy in the place of the file. The directory is synced before that too: the old file's WAL is gone for good then,
// else it could be there again after a loss of power, beside the new file.
func (s *Store) replaceBy(copied string) error {
	for _, path := range []string{copied, s.cfg.Dir} {
		if err := s.cfg.files.sync(path); err != nil {
			return err
		}
	}
	if err := s.cfg.files.rename(copied, s.path()); err != nil {
		return err
	}
	return s.cfg.files.sync(s.cfg.Dir)
}

// copyUsed copies the used pages of a file of which more than half are free, if the disk has room for twice as many.
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
