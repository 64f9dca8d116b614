package replication

import (
	"maps"
	"slices"

	"rideshare/internal/sqlite"
)

// recordedCounter returns a counter of AUTOINCREMENT as it is recorded.
func recordedCounter(n sqlite.Counter) string {
	return string(appendRecorded(appendRecorded(nil, n.Name), n.Seq))
}

// takeSequences records all of sqlite_sequence if it has changed, or if replicas that repeat the batch's inserts would
// change theirs. sqlite_sequence has one row for each table with AUTOINCREMENT.
func (k *Capture) takeSequences() error {
	rows, err := k.c.Counters()
	if err != nil {
		return err
	}
	k.pending = rows
	same := maps.EqualFunc(rows, k.sequences, func(a, b sqlite.Counter) bool { return recordedCounter(a) == recordedCounter(b) })
	if same && !k.counted {
		return nil
	}
	k.buf = appendUint(append(k.buf, recordSequence), uint64(len(rows)))
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		k.buf = append(appendInt(k.buf, id), recordedCounter(rows[id])...)
	}
	return nil
}

// applySequences makes sqlite_sequence equal to the record.
func (a *applier) applySequences(r *records) error {
	type row struct {
		id int64
		sqlite.Counter
	}
	var rows []row
	for n := r.uint(); n > 0 && !r.bad; n-- {
		next := row{id: r.int()}
		next.Name, _ = r.value()
		next.Seq, _ = r.value()
		rows = append(rows, next)
	}
	if r.bad {
		return errRecord
	}
	if len(rows) == 0 {
		have, err := a.c.Counters() // the table may be missing.
		if err != nil || len(have) == 0 {
			return err
		}
	}
	if err := a.c.Exec("DELETE FROM sqlite_sequence"); err != nil {
		return diverged(err)
	}
	for _, s := range rows {
		if err := a.c.AddCounter(s.id, s.Counter); err != nil {
			return diverged(err)
		}
	}
	return nil
}
