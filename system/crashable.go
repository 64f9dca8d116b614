package system

import (
	"context"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/commitlog"
)

// crashable is a worker's connection to persdb that can be cut like that of a killed process: a commit under way may
// still happen, but its answer is lost.
type crashable struct {
	store *commitlog.Store
	cut   atomic.Bool
}

func newCrashable(store *commitlog.Store) *crashable { return &crashable{store: store} }

// Crash cuts the connection permanently.
func (s *crashable) Crash() { s.cut.Store(true) }

// guard drops the answer of a call if the connection was cut during the call.
func guard[T any](s *crashable, lost error, call func() (T, error)) (T, error) {
	var none T
	if s.cut.Load() {
		return none, dbaas.ErrUnavailable
	}
	v, err := call()
	if s.cut.Load() {
		return none, lost
	}
	return v, err
}

// Commit implements worker.Store.
func (s *crashable) Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	return guard(s, dbaas.ErrUnknown, func() (dbaas.Commit, error) { return s.store.Commit(ctx, by, ops) })
}

// Head implements worker.Store.
func (s *crashable) Head(ctx context.Context) (dbaas.Head, error) {
	return guard(s, dbaas.ErrUnavailable, func() (dbaas.Head, error) { return s.store.Head(ctx) })
}

// Log implements worker.Store.
func (s *crashable) Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	return guard(s, dbaas.ErrUnavailable, func() (dbaas.Page, error) { return s.store.Log(ctx, after, wait) })
}

// HashPart implements worker.Store.
func (s *crashable) HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error) {
	return guard(s, dbaas.ErrUnavailable, func() (dbaas.HashPart, error) { return s.store.HashPart(ctx, from) })
}

// Snapshot implements worker.Store.
func (s *crashable) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	if s.cut.Load() {
		return nil, dbaas.ErrUnavailable
	}
	return s.store.Snapshot(ctx)
}
