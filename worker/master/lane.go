package master

import "time"

// next returns the operations for the next commit. What is slow, or was part of a commit that failed, waits in the side lane,
// and the two lanes take turns: the others wait for one commit of it at most.
func (m *Master) next(hand []*message, now time.Time) []ref {
	batch := gather(hand)
	if len(batch) > 0 && !m.aside {
		m.aside = true
		return batch
	}
	m.aside = false
	if side := gatherSide(hand, now); len(side) > 0 {
		return side
	}
	m.aside = len(batch) > 0
	return batch
}

// gather returns the operations for one commit of those that are not in the side lane: whole messages in order of
// arrival, at least one, up to the bounds. Those that are late were answered before.
func gather(hand []*message) []ref {
	var batch []ref
	size := 0
	for _, m := range hand {
		before := len(batch)
		pending([]*message{m}, func(r ref) bool {
			if r.op().share == 0 {
				batch = append(batch, r)
			}
			return true
		})
		if len(batch) == before {
			continue
		}
		size += len(m.delivery.Message().Body)
		if before > 0 && (size > maxBatchBytes || len(batch) > maxBatchOps) {
			return batch[:before]
		}
	}
	return batch
}

// gatherSide returns the next operations of the side lane, no more than each of them shares a commit with.
func gatherSide(hand []*message, now time.Time) []ref {
	var batch []ref
	most := 0
	pending(hand, func(r ref) bool {
		op := r.op()
		if op.share == 0 || op.notBefore.After(now) {
			return true
		}
		if len(batch) == 0 {
			most = op.share
		}
		if most = min(most, op.share); len(batch) >= most {
			return false
		}
		batch = append(batch, r)
		return true
	})
	return batch
}

// nextEvent returns when something in hand is due: a deadline, or the next try of an operation in the side lane. Zero is never.
func nextEvent(hand []*message, now time.Time) time.Time {
	var t time.Time
	sooner := func(at time.Time) {
		if !at.IsZero() && (t.IsZero() || at.Before(t)) {
			t = at
		}
	}
	pending(hand, func(r ref) bool {
		sooner(r.op().Deadline)
		if r.op().notBefore.After(now) {
			sooner(r.op().notBefore)
		}
		return true
	})
	return t
}
