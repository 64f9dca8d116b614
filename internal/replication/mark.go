package replication

import (
	"maps"

	"rideshare/internal/dbaas"
)

// Mark is a position in the recorded changes.
type Mark struct {
	parts, buffered int
	fed             []byte // the feed's buffer; later bytes are only appended to it
	over            bool   // the feed was given up before
	delta           map[string]tableSum
	emptied         map[string]bool
	moved           map[string]string
}

// Mark returns the current position.
func (k *Capture) Mark() Mark {
	return Mark{parts: len(k.changes), buffered: len(k.buf), fed: k.feed.buf, over: k.feed.over, delta: maps.Clone(k.sums.delta), emptied: maps.Clone(k.sums.emptied), moved: maps.Clone(k.sums.moved)}
}

// Rewind drops everything recorded after m. The caller has undone these changes.
func (k *Capture) Rewind(m Mark) {
	k.feed.rewind(k.changes, m.parts, m.fed, m.over)
	if len(k.changes) > m.parts {
		k.buf = nil
		if m.buffered > 0 {
			k.buf = k.changes[m.parts].Data
		}
		for _, c := range k.changes[m.parts:] {
			if c.Kind != dbaas.ChangeFeed {
				k.size -= int64(len(c.Data))
			}
		}
		k.changes = k.changes[:m.parts]
	}
	k.buf, k.table = k.buf[:m.buffered], nil
	k.sums.delta, k.sums.emptied, k.sums.moved = maps.Clone(m.delta), maps.Clone(m.emptied), maps.Clone(m.moved)
}
