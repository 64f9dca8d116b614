package dispatch

import (
	"context"
	"sync/atomic"

	"rideshare/internal/dbaas"
)

// smallBytes is what a request or an answer may have and still count as small: those have room of their own,
// so that a few large ones do not shut out everybody.
const smallBytes = 64 << 10

// budget bounds the bytes of requests or answers that are held at once. It is safe for concurrent use.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reports whether there is room for n bytes, and takes it. Small ones may use a quarter more than the
// limit, and one alone always has room.
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

// give gives back what take took.
func (b *budget) give(n int) { b.used.Add(-int64(n)) }

// keep counts a large answer until its request's context ends, which is when its caller has passed it on. It
// returns CodeUnavailable when there is no room.
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
