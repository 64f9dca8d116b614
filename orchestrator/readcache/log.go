package readcache

import (
	"sync/atomic"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"
)

// era is the time between two resets. An item belongs to the era in which its read was sent, and is valid only in that
// era.
type era struct {
	cluster dbaas.ClusterID
	// base is the position of the reset. Changes before it are not known.
	base uint64
	// applied is the position up to which the log was processed.
	applied atomic.Uint64
	// last has, for each slot, the last entry that touched it; zero stands for base.
	last [readtags.Slots]atomic.Uint64
}

func newEra(head dbaas.Head) *era {
	e := &era{cluster: head.Cluster, base: uint64(head.Seq)}
	e.applied.Store(e.base)
	return e
}

// process processes the next entry. It returns false, having changed nothing that a reader could see, if the entry may
// touch all tags. Only one goroutine may call process.
//
// The slots are raised first. A reader that sees the new position therefore sees all slots of the entry.
func (e *era) process(entry *dbaas.Entry) bool {
	seq := uint64(entry.Seq)
	if !readtags.OfEntry(entry, func(s readtags.Slot) { e.last[s].Store(seq) }) {
		return false
	}
	e.applied.Store(seq)
	return true
}

// item is an answer, the position at which a slave computed it, and its tags.
type item struct {
	era  *era
	p    uint64
	tags readtags.Tags
	body []byte
}

// valid reports whether the item's answer is still the answer at the position that the caller loaded from e.applied
// before it loaded the item. If it is not, kind is the kind of the tag that was touched, or -1 if the item is from
// another era or from before the reset.
func (it *item) valid(e *era) (ok bool, kind int) {
	if it.era != e || it.p < e.base {
		return false, -1
	}
	for i := range it.tags.Len() {
		if k, slot := it.tags.At(i); e.last[slot].Load() > it.p {
			return false, int(k)
		}
	}
	return true, 0
}
