package commitlog

import (
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/frame"
)

// index finds the operations of the retained log by id. It is derived from the
// log and rebuilt at open.
type index struct {
	places map[dbaas.OpID]place
	// entries are those of the retained log, oldest first and dense.
	entries []entryInfo
	ops     int // in all entries
}

// place is where the log has an operation.
type place struct {
	seq   dbaas.Seq
	order int32 // among the operations of its entry
}

// entryInfo is what the trimming policy looks at.
type entryInfo struct {
	seq dbaas.Seq
	at  time.Time
	ops int
}

// add makes the operations of a committed entry known.
func (x *index) add(e *dbaas.Entry, ids []dbaas.OpID) {
	for i, id := range ids {
		x.places[id] = place{seq: e.Seq, order: int32(i)}
	}
	x.entries = append(x.entries, entryInfo{seq: e.Seq, at: e.At, ops: len(ids)})
	x.ops += len(ids)
}

// addRecord is add for a record that was read from the log.
func (x *index) addRecord(r *Record) error {
	known, err := frame.DecodeRecords(r.Operations)
	if err != nil {
		return err
	}
	ids := make([]dbaas.OpID, len(known))
	for i := range known {
		ids[i] = known[i].Result.ID
	}
	x.add(&r.Entry, ids)
	return nil
}

// forget removes the operations of the oldest entry, which was trimmed.
func (x *index) forget(r *Record) error {
	known, err := frame.DecodeRecords(r.Operations)
	if err != nil {
		return err
	}
	for i := range known {
		id := known[i].Result.ID
		if x.places[id].seq == r.Entry.Seq {
			delete(x.places, id)
		}
	}
	if len(x.entries) > 0 && x.entries[0].seq == r.Entry.Seq {
		x.ops -= x.entries[0].ops
		x.entries = x.entries[1:]
	}
	return nil
}

// minAge is how long an entry is kept whatever the other bounds say: a broker
// that delivers a message again does so within seconds, replicas fetch the log
// every few seconds, and the two clocks of IssuedAt and At may differ by clockSkew.
const minAge = time.Minute

// Retention bounds the log: an entry is trimmed when it is older than For, or when
// more than Ops operations came with and after it; never when it is younger than a minute.
type Retention struct {
	For time.Duration
	Ops int
}

// trimmable returns how many of the oldest entries the policy gives up at now.
// It is a pure function; the newest entry is always kept.
func (p Retention) trimmable(entries []entryInfo, ops int, now time.Time) int {
	n := 0
	for n < len(entries)-1 {
		e := entries[n]
		age := now.Sub(e.at)
		if age < minAge || (age <= p.For && ops <= p.Ops) {
			break
		}
		ops -= e.ops
		n++
	}
	return n
}
