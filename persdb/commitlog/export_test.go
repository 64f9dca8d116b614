package commitlog

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// Hook points of a commit, for tests.
func (s *Store) FailBeforeAppend(f func() error) { s.hooks.beforeAppend = f }
func (s *Store) FailBeforeTables(f func() error) { s.hooks.beforeTables = f }
func (s *Store) FailAfterCommit(f func() error)  { s.hooks.afterCommit = f }

// SetMaxPages bounds the files of tables and log, as a full disk does.
func (s *Store) SetMaxPages(tables, log int64) error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	return errors.Join(s.conn.SetMaxPages(tables), s.log.(*FileLog).writer.SetMaxPages(log))
}

// SetSizes bounds one entry, for tests of oversized operations.
func (s *Store) SetSizes(entry int64, results, result int) {
	s.sizes = sizes{entry: entry, results: results, result: result}
}

// Trimmable applies the policy to entries of these ages, each with ops operations and bytes.
func Trimmable(p Retention, ages []time.Duration, ops int, bytes int64) int {
	const now = 1000 * time.Hour
	var entries []entryInfo
	for i, age := range ages {
		entries = append(entries, entryInfo{seq: dbaas.Seq(i + 1), met: now - age, ops: ops, bytes: bytes})
	}
	return p.trimmable(entries, ops*len(ages), bytes*int64(len(ages)), now)
}

// Pace makes long statements of batches call pace repeatedly.
func (s *Store) Pace(pace func()) {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.conn.Pace(pace)
}

// Watch runs the size check of the trimming goroutine.
func (s *Store) Watch(ctx context.Context) { s.watch(ctx) }

// SetFree sets how many free bytes the disk has.
func (s *Store) SetFree(n int64) { s.OnFree(func() int64 { return n }) }

// OnFree sets what returns how many free bytes the disk has.
func (s *Store) OnFree(free func() int64) {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.reserve.free = free
}

// SetBacklog sets how many bytes of entries may wait for the archive.
func (s *Store) SetBacklog(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Archive.Backlog = n
}

// ShrinkFrom makes Open shrink files of so many bytes.
func ShrinkFrom(cfg Config, size int64) Config {
	cfg.shrinkFrom = size
	return cfg
}

// OnDisk makes Open use a test disk's sync and rename for the files that the engine does not write.
func OnDisk(cfg Config, sync func(path string) error, rename func(from, to string) error) Config {
	cfg.files = files{sync: sync, rename: rename}
	return cfg
}

// Checkpoint copies the WALs to their files, as far as readers allow it.
func (s *Store) Checkpoint() {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.conn.CheckpointPassive()
	s.log.(*FileLog).writer.CheckpointPassive()
}

// Pragma sets or reads a setting of the writing connection.
func (s *Store) Pragma(name string) (string, error) {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	return pragma(s.conn, name)
}

// LogPragma sets or reads a setting of the log's writing connection.
func (s *Store) LogPragma(name string) (string, error) {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	return pragma(s.log.(*FileLog).writer, name)
}

// ReaderPragma reads a setting of a reading connection.
func (s *Store) ReaderPragma(ctx context.Context, name string) (value string, err error) {
	err = s.readers.Use(ctx, func(c *sqlite.Conn) error {
		value, err = pragma(c, name)
		return err
	})
	return value, err
}

func pragma(c *sqlite.Conn, name string) (value string, err error) {
	err = c.Query("PRAGMA "+name, func(r sqlite.Row) error {
		value = r.Text(0)
		return nil
	})
	return value, err
}
