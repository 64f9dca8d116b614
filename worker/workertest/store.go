// Package workertest is a persdb for the tests of package worker and below it: one
// real SQLite file, a log in memory, and a switch for each fault.
package workertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// Store keeps the promises of persdb that workers rely on: fencing, de-duplication, one
// entry a commit. It is safe for concurrent use.
type Store struct {
	tb   testing.TB
	path string

	mu    sync.Mutex // guards the fields below
	conn  *sqlite.Conn
	head  dbaas.Head // of the log, with the newest epoch
	log   []dbaas.Entry
	first dbaas.Seq // of log
	known map[dbaas.OpID]dbaas.OperationResult
	down  bool
	calls map[string]int
	lose  func(dbaas.Commit) error
}

// NewStore returns a Store whose tables are made by schema. It ends with the test.
func NewStore(tb testing.TB, schema ...string) *Store {
	tb.Helper()
	s := &Store{
		tb: tb, path: filepath.Join(tb.TempDir(), "persdb.db"), first: 1,
		known: map[dbaas.OpID]dbaas.OperationResult{}, calls: map[string]int{},
	}
	var err error
	if s.conn, err = sqlite.Open(s.path, sqlite.Options{ForeignKeys: true, Triggers: true}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.conn.Close() })
	if err := s.conn.CreatePosition(); err != nil {
		tb.Fatal(err)
	}
	for _, sql := range schema {
		if err := s.conn.Exec(sql); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

// Path is the database file, for an independent witness.
func (s *Store) Path() string { return s.path }

// SetDown makes every call fail with CodeUnavailable.
func (s *Store) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// LoseAnswers makes f decide what Commit returns after it has committed; nil stops that.
func (s *Store) LoseAnswers(f func(dbaas.Commit) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = f
}

// Trim forgets the log up to seq.
func (s *Store) Trim(seq dbaas.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.log) > 0 && s.first <= seq {
		s.log, s.first = s.log[1:], s.first+1
	}
}

// Calls returns how often a method was called: "commit", "head", "log", "snapshot", "hashes".
func (s *Store) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

func (s *Store) enter(method string) error {
	s.calls[method]++
	if s.down {
		return dbaas.ErrUnavailable
	}
	return nil
}

// Claim gives out a new epoch.
func (s *Store) Claim(context.Context) (dbaas.Epoch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head.Epoch++
	return s.head.Epoch, nil
}

// Head implements worker.Store.
func (s *Store) Head(context.Context) (dbaas.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head, s.enter("head")
}

// Log implements worker.Store. Pages are short, so that there are several.
func (s *Store) Log(_ context.Context, after dbaas.Seq, _ time.Duration) (dbaas.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("log"); err != nil {
		return dbaas.Page{}, err
	}
	switch {
	case after > s.head.Seq:
		return dbaas.Page{}, dbaas.Errorf(dbaas.CodeInvalid, "position is beyond the head")
	case after+1 < s.first:
		return dbaas.Page{}, dbaas.ErrGone
	}
	rest := s.log[after+1-s.first:]
	return dbaas.Page{Entries: rest[:min(len(rest), 10)], Head: s.head}, nil
}

// Snapshot implements worker.Store.
func (s *Store) Snapshot(context.Context) (*dbaas.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("snapshot"); err != nil {
		return nil, err
	}
	path := filepath.Join(s.tb.TempDir(), "snapshot.db")
	begun, err := sqlite.OpenSnapshot(s.path, path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(begun)
	if err = errors.Join(err, begun.Close()); err != nil {
		return nil, err
	}
	sum := dbaas.NewSnapshotSum()
	_, _ = sum.Write(b) // a Hash never returns an error, by its documentation.
	return &dbaas.Snapshot{Head: begun.Head(), Body: io.NopCloser(bytes.NewReader(b)), Sum: func() (uint32, bool) { return sum.Sum32(), true }}, nil
}

// Hashes implements worker.Store.
func (s *Store) Hashes(context.Context) (dbaas.TableHashes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("hashes"); err != nil {
		return dbaas.TableHashes{}, err
	}
	h, err := s.conn.Hashes(func() {})
	return dbaas.TableHashes{Seq: s.head.Seq, Tables: h}, err
}

// Commit implements worker.Store.
func (s *Store) Commit(_ context.Context, epoch dbaas.Epoch, ops []dbaas.Operation) (dbaas.Commit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("commit"); err != nil {
		return dbaas.Commit{}, err
	}
	if epoch < s.head.Epoch {
		return dbaas.Commit{}, dbaas.ErrStaleEpoch
	}
	c, err := s.run(epoch, ops)
	if err == nil && s.lose != nil {
		err = s.lose(c)
	}
	if err != nil {
		return dbaas.Commit{}, err
	}
	return c, nil
}
