// Package workertest provides persdb for the tests of package worker and the packages below it: the real store, with a
// switch for each fault of the connection to it.
package workertest

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/rideschema"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

const (
	// pageEntries makes pages short, so that a log has several.
	pageEntries = 10
	// kept is how many operations Trim leaves in the log.
	kept = 3
)

// Store is a commitlog.Store in a directory of the test. It is safe for concurrent use.
type Store struct {
	*commitlog.Store

	tb      testing.TB
	path    string
	elapsed atomic.Int64 // of the clock that determines the age of entries

	committing sync.Mutex // held until lose has returned, so that lose is called in log order

	mu    sync.Mutex // guards the fields below
	down  bool
	calls map[string]int
	lose  func(dbaas.Commit) error
}

// NewStore returns a Store at position 0, with the tables that schema creates, or with those of the application if
// schema is empty. It is closed when the test ends.
func NewStore(tb testing.TB, schema ...string) *Store {
	tb.Helper()
	dir := tb.TempDir()
	s := &Store{tb: tb, path: filepath.Join(dir, commitlog.FileName), calls: map[string]int{}}
	var protected []string
	if len(schema) == 0 {
		schema, protected = rideschema.Create(), rideschema.Protected()
	}
	var err error
	s.Store, err = commitlog.Open(tb.Context(), commitlog.Config{
		Dir: dir, Schema: schema, Protected: protected, Retain: commitlog.Retention{Ops: kept}, TrimEvery: -1,
		StatementLimit: time.Minute, OperationLimit: time.Minute, SharedLimit: time.Minute, // however slow the machine is
		Elapsed: func() time.Duration { return time.Duration(s.elapsed.Load()) },
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close persdb: %v", err)
		}
	})
	return s
}

// Path returns the path of the database file, for readers that do not use the store's code.
func (s *Store) Path() string { return s.path }

// SetDown makes every call of a worker fail as if persdb were not listening.
func (s *Store) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// LoseAnswers makes f determine the error that Commit returns after it has committed; nil stops that.
func (s *Store) LoseAnswers(f func(dbaas.Commit) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = f
}

// Calls returns how often a method was called: "commit", "head", "log", "snapshot", "hashes".
func (s *Store) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// Trim removes the log except for the entries of the newest few (kept) operations.
func (s *Store) Trim() {
	s.tb.Helper()
	s.elapsed.Add(int64(time.Minute)) // old enough for every entry to be trimmed
	if _, err := s.Store.Trim(s.tb.Context()); err != nil {
		s.tb.Fatal(err)
	}
}

// Write commits one operation of these statements at the newest epoch and
// returns the entry. It fails the test when a statement fails.
func (s *Store) Write(statements ...dbaas.Statement) dbaas.Entry {
	s.tb.Helper()
	head, err := s.Store.Head(s.tb.Context())
	if err == nil && head.Epoch == 0 {
		head.Epoch, err = s.Claim(s.tb.Context())
	}
	if err != nil {
		s.tb.Fatal(err)
	}
	op := dbaas.Operation{ID: dbaas.NewOpID(time.Now()), SeenSeq: head.Seq, Statements: statements}
	c, err := s.Store.Commit(s.tb.Context(), dbaas.Leadership{Cluster: head.Cluster, Epoch: head.Epoch}, []dbaas.Operation{op})
	if err != nil {
		s.tb.Fatal(err)
	}
	for _, r := range c.Results[0].Statements {
		if r.Code != dbaas.CodeOK {
			s.tb.Fatalf("%v: %s", statements, r.Message)
		}
	}
	return storetest.Entry(s.tb, c)
}

// enter counts a call, and fails it while the store is down.
func (s *Store) enter(method string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[method]++
	if s.down {
		return dbaas.WrapError(dbaas.CodeUnavailable, "persdb cannot be reached", dbaas.ErrUnreachable)
	}
	return nil
}

// Head implements worker.Store.
func (s *Store) Head(ctx context.Context) (dbaas.Head, error) {
	if err := s.enter("head"); err != nil {
		return dbaas.Head{}, err
	}
	return s.Store.Head(ctx)
}

// Log implements worker.Store.
func (s *Store) Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	if err := s.enter("log"); err != nil {
		return dbaas.Page{}, err
	}
	p, err := s.Store.Log(ctx, after, wait)
	p.Entries = p.Entries[:min(len(p.Entries), pageEntries)]
	return p, err
}

// Snapshot implements worker.Store.
func (s *Store) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	if err := s.enter("snapshot"); err != nil {
		return nil, err
	}
	return s.Store.Snapshot(ctx)
}

// HashPart implements worker.Store.
func (s *Store) HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error) {
	if err := s.enter("hashes"); err != nil {
		return dbaas.HashPart{}, err
	}
	return s.Store.HashPart(ctx, from)
}

// Commit implements worker.Store.
func (s *Store) Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	if err := s.enter("commit"); err != nil {
		return dbaas.Commit{}, err
	}
	s.committing.Lock()
	defer s.committing.Unlock()
	c, err := s.Store.Commit(ctx, by, ops)
	if err != nil {
		return dbaas.Commit{}, err
	}
	s.mu.Lock()
	lose := s.lose
	s.mu.Unlock()
	if lose == nil {
		return c, nil
	}
	if err = lose(c); err != nil {
		return dbaas.Commit{}, err
	}
	return c, nil
}
