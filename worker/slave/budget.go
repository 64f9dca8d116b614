package slave

import "sync/atomic"

// budget bounds the total bytes of all answers that are rendered but not sent. It is safe for concurrent use.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes and reports whether there was room. If nothing else is reserved, there is always room: the size
// of a single answer is limited elsewhere.
func (b *budget) take(n int) bool {
	if used := b.used.Add(int64(n)); used <= b.limit || used == int64(n) {
		return true
	}
	b.used.Add(-int64(n))
	return n == 0
}

// give returns the bytes that take reserved.
func (b *budget) give(n int) { b.used.Add(-int64(n)) }
