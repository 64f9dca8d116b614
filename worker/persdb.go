package worker

import (
	"context"
	"sync"
	"time"

	"rideshare/internal/dbaas"
)

// persdbPatience is how long persdb may leave a worker's calls without an answer before it counts as lost. It is as long as a new
// master asks before it gives up.
const persdbPatience = 5 * time.Second

// watchedStore is a Store that knows whether persdb answers. In every role the replica asks for the head every few seconds.
type watchedStore struct {
	Store

	mu       sync.Mutex // guards the fields below
	answered time.Time  // when persdb last answered
	silent   time.Time  // since when it has not answered, although it was asked; zero while it answers
}

// lost reports whether persdb has not answered for persdbPatience, although it was asked.
func (s *watchedStore) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.silent.IsZero() && time.Since(s.silent) >= persdbPatience
}

// note records the outcome of a call. A refusal is an answer too.
func (s *watchedStore) note(began time.Time, err error) {
	code := dbaas.CodeOf(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case code != dbaas.CodeUnavailable && code != dbaas.CodeUnknown && code != dbaas.CodeTimeout && code != dbaas.CodeInternal:
		s.answered, s.silent = time.Now(), time.Time{}
	case s.silent.IsZero() && began.After(s.answered):
		s.silent = began
	case s.silent.IsZero():
		s.silent = s.answered
	}
}

func (s *watchedStore) Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	began := time.Now()
	c, err := s.Store.Commit(ctx, by, ops)
	s.note(began, err)
	return c, err
}

func (s *watchedStore) Head(ctx context.Context) (dbaas.Head, error) {
	began := time.Now()
	head, err := s.Store.Head(ctx)
	s.note(began, err)
	return head, err
}

func (s *watchedStore) Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	began := time.Now()
	page, err := s.Store.Log(ctx, after, wait)
	s.note(began, err)
	return page, err
}
