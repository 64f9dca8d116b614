package commitlog

import (
	"time"

	"rideshare/internal/dbaas"
)

// Hook points of a commit, for tests.
func (s *Store) FailBeforeAppend(f func() error) { s.hooks.beforeAppend = f }
func (s *Store) FailBeforeCommit(f func() error) { s.hooks.beforeCommit = f }
func (s *Store) FailAfterCommit(f func() error)  { s.hooks.afterCommit = f }

// SetMaxPages bounds the file, as a full disk does.
func (s *Store) SetMaxPages(n int64) error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	return s.conn.SetMaxPages(n)
}

// SetSizes bounds one entry, for tests of what does not fit.
func (s *Store) SetSizes(entry int64, rows, result int) {
	s.sizes = sizes{entry: entry, rows: rows, result: result}
}

// Trimmable asks the policy about entries of these ages, each with ops operations.
func Trimmable(p Retention, ages []time.Duration, ops int) int {
	now := time.Unix(1_000_000, 0)
	var entries []entryInfo
	for i, age := range ages {
		entries = append(entries, entryInfo{seq: dbaas.Seq(i + 1), at: now.Add(-age), ops: ops})
	}
	return p.trimmable(entries, ops*len(ages), now)
}
