package commitlog

import (
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"
)

// index maps operation ids to the entries of the retained log. It is derived from the log and rebuilt at open.
type index struct {
	places map[dbaas.OpID]place
	// entries describes the entries of the retained log, oldest first and without gaps.
	entries []entryInfo
	ops     int       // in all entries
	bytes   int64     // of all entries' records
	lost    dbaas.Seq // the newest damaged entry whose operations may be unknown
}

// place is the location of an operation in the log.
type place struct {
	seq   dbaas.Seq
	order int32 // among the operations of its entry
}

// entryInfo is the part of an entry that the trimming policy uses.
type entryInfo struct {
	seq dbaas.Seq
	// met is when this process first saw the entry, by Config.Elapsed: at its commit, or at open.
	met   time.Duration
	ops   int
	bytes int64
	end   int64 // total bytes of this entry and all earlier entries that this process has seen, trimmed ones included
}

// add adds the operations of a committed entry, first seen at now.
func (x *index) add(r *Record, ids []dbaas.OpID, now time.Duration) {
	for i, id := range ids {
		x.places[id] = place{seq: r.Entry.Seq, order: int32(i)}
	}
	info := entryInfo{seq: r.Entry.Seq, met: now, ops: len(ids), bytes: r.size(), end: x.end() + r.size()}
	x.entries = append(x.entries, info)
	x.ops += info.ops
	x.bytes += info.bytes
}

// addRecord adds a record that was read from the log. Of a damaged record it adds what can be read.
func (x *index) addRecord(r *Record, now time.Duration) {
	known, err := wire.DecodeRecords(r.Operations)
	if err != nil {
		r.Damage = DamagedOperations
	}
	if r.Damage == DamagedOperations {
		x.lost = r.Entry.Seq
	}
	ids := make([]dbaas.OpID, len(known))
	for i := range known {
		ids[i] = known[i].Result.ID
	}
	x.add(r, ids, now)
}

// forget removes the operations of the oldest entry, which was trimmed.
func (x *index) forget(r *Record) {
	known, err := wire.DecodeRecords(r.Operations)
	if err != nil || r.Damage != 0 {
		x.forgetUpTo(r.Entry.Seq)
		return
	}
	for i := range known {
		id := known[i].Result.ID
		if x.places[id].seq == r.Entry.Seq {
			delete(x.places, id)
		}
	}
	x.dropEntries(r.Entry.Seq)
}

// forgetUpTo removes the operations of all entries up to seq. It scans the whole index. It is for records that cannot
// be read, because they are damaged or were removed by a trim whose outcome was unknown.
func (x *index) forgetUpTo(seq dbaas.Seq) {
	if len(x.entries) == 0 || x.entries[0].seq > seq {
		return
	}
	for id, at := range x.places {
		if at.seq <= seq {
			delete(x.places, id)
		}
	}
	x.dropEntries(seq)
}

func (x *index) dropEntries(upTo dbaas.Seq) {
	for len(x.entries) > 0 && x.entries[0].seq <= upTo {
		x.ops -= x.entries[0].ops
		x.bytes -= x.entries[0].bytes
		x.entries = x.entries[1:]
	}
}

// end returns the total bytes of all entries that this process has seen; it is 0 while no entry is retained.
func (x *index) end() int64 {
	if n := len(x.entries); n > 0 {
		return x.entries[n-1].end
	}
	return 0
}

// firstAfter returns the oldest retained entry after seq, or nil.
func (x *index) firstAfter(seq dbaas.Seq) *entryInfo {
	n := len(x.entries)
	if n == 0 || x.entries[n-1].seq <= seq {
		return nil
	}
	return &x.entries[max(seq+1, x.entries[0].seq)-x.entries[0].seq]
}

// after returns the bytes of the retained entries after seq.
func (x *index) after(seq dbaas.Seq) int64 {
	first := x.firstAfter(seq)
	if first == nil {
		return 0
	}
	return x.end() - first.end + first.bytes
}
