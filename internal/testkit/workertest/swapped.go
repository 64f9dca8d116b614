package workertest

import (
	"context"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
)

// Swapped is a persdb that can be replaced by one of another cluster.
type Swapped struct {
	Now atomic.Pointer[Store]
}

// Commit implements worker.Store.
func (s *Swapped) Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	return s.Now.Load().Commit(ctx, by, ops)
}

// Head implements worker.Store.
func (s *Swapped) Head(ctx context.Context) (dbaas.Head, error) { return s.Now.Load().Head(ctx) }

// Log implements worker.Store.
func (s *Swapped) Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error) {
	return s.Now.Load().Log(ctx, after, wait)
}

// Snapshot implements worker.Store.
func (s *Swapped) Snapshot(ctx context.Context) (*dbaas.Snapshot, error) {
	return s.Now.Load().Snapshot(ctx)
}

// HashPart implements worker.Store.
func (s *Swapped) HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error) {
	return s.Now.Load().HashPart(ctx, from)
}
