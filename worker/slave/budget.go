package slave

import "sync/atomic"

// budget bounds the bytes of all answers that are rendered and not sent. It is safe for concurrent use.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reports whether there is room for n bytes, and takes it. One answer alone always has room: its own
// size has a limit elsewhere.
func (b *budget) take(n int) bool {
	if used := b.used.Add(int64(n)); used <= b.limit || used == int64(n) {
		return true
	}
	b.used.Add(-int64(n))
	return n == 0
}

// give gives back what take took.
func (b *budget) give(n int) { b.used.Add(-int64(n)) }
