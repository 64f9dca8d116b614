package master

import "time"

// next returns the operations for the next commit. Operations that are slow, or were part of a failed commit, wait in
// the side lane; all others wait in the main lane. The two lanes take turns, so the main lane waits for at most one
// commit of the side lane.
func (m *Master) next(pending []*message, now time.Time) []ref {
	batch := gather(pending)
	if len(batch) > 0 && !m.aside {
		m.aside = true
		return batch
	}
	m.aside = false
	if side := gatherSide(pending, now); len(side) > 0 {
		return side
	}
	m.aside = len(batch) > 0
	return batch
}

// gather returns the operations for one commit of the main lane: whole messages in order of arrival, at least one, up
// to maxBatchOps and maxBatchBytes. Operations past their deadline have been answered by expire.
func gather(pending []*message) []ref {
	var batch []ref
	size := 0
	for _, m := range pending {
		before := len(batch)
		eachUnanswered([]*message{m}, func(r ref) bool {
			if r.op().share == 0 {
				batch = append(batch, r)
			}
			return true
		})
		if len(batch) == before {
			continue
		}
		size += m.size
		if before > 0 && (size > maxBatchBytes || len(batch) > maxBatchOps) {
			return batch[:before]
		}
	}
	return batch
}

// gatherSide returns the next operations of the side lane. Their number does not exceed the share of any of them.
func gatherSide(pending []*message, now time.Time) []ref {
	var batch []ref
	most := 0
	eachUnanswered(pending, func(r ref) bool {
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

// nextEvent returns the earliest time at which a pending operation reaches its deadline or its next attempt in the side
// lane. Zero means never.
func nextEvent(pending []*message, now time.Time) time.Time {
	var t time.Time
	sooner := func(at time.Time) {
		if !at.IsZero() && (t.IsZero() || at.Before(t)) {
			t = at
		}
	}
	eachUnanswered(pending, func(r ref) bool {
		sooner(r.op().Deadline)
		if r.op().notBefore.After(now) {
			sooner(r.op().notBefore)
		}
		return true
	})
	return t
}
