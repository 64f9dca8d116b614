package dispatch

import (
	"context"
	"sync/atomic"

	"rideshare/internal/dbaas"
)

// smallBytes is the largest size of a small request or answer. Room is reserved for small ones,
// so that a few large ones do not shut out all others.
const smallBytes = 64 << 10

// budget bounds the total size, in bytes, of the requests or answers held at the same time. It is safe for concurrent
// use.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes and reports whether there was room. Small requests and answers may use a quarter more than the
// limit, and a request or answer that is alone always has room.
func (b *budget) take(n int) bool {
	limit := b.limit
	if n <= smallBytes {
		limit += limit / 4
	}
	if used := b.used.Add(int64(n)); used <= limit || used == int64(n) {
		return true
	}
	b.give(n)
	return false
}

// give releases n bytes that take reserved.
func (b *budget) give(n int) { b.used.Add(-int64(n)) }

// keep counts a large answer against the budget until ctx ends, which is when the caller has passed the answer on.
// It returns CodeUnavailable when there is no room.
func (d *Dispatcher) keep(ctx context.Context, result *dbaas.ReadResult) error {
	n := len(result.Body)
	if n <= smallBytes || ctx.Done() == nil {
		return nil
	}
	if !d.answers.take(n) {
		return dbaas.Errorf(dbaas.CodeUnavailable, "too many large answers are under way at the moment; try again")
	}
	context.AfterFunc(ctx, func() { d.answers.give(n) })
	return nil
}
