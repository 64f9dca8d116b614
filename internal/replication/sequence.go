package replication

import (
	"maps"
	"math"
	"slices"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
	"rideshare/internal/rowlog"
	"rideshare/internal/sqlite"
)

// recordedCounter returns a counter of AUTOINCREMENT in its recorded form.
func recordedCounter(n sqlite.Counter) string {
	return string(packed.AppendValue(packed.AppendValue(nil, n.Name), n.Seq))
}

// maxCounters bounds the bytes of sqlite_sequence in an entry. Statements can write any value there, and each entry that counts has all.
const maxCounters = 1 << 20

// CheckSequences returns CodeTooLarge if sqlite_sequence has become too large for an entry. A statement that writes to it must be
// undone then.
func (k *Capture) CheckSequences() error {
	rows, err := k.c.Counters()
	size := 0
	for _, row := range rows {
		size += len(recordedCounter(row))
	}
	if size > maxCounters {
		return dbaas.Errorf(dbaas.CodeTooLarge, "sqlite_sequence would have more than %d bytes", maxCounters)
	}
	return err
}

// checkCounters returns CodeTooLarge if the counters of all tables with AUTOINCREMENT could become too large for an entry: the engine
// stores a counter, with the table's name, at the first row. A change that makes them no larger is accepted: the tables may be older
// than this limit.
func checkCounters(before, after map[string]*table) error {
	if size := countersOf(after); size > maxCounters && size > countersOf(before) {
		return dbaas.Errorf(dbaas.CodeTooLarge, "the names of tables with AUTOINCREMENT would have more than %d bytes", maxCounters)
	}
	return nil
}

// countersOf returns how many bytes the counters of the tables may take in an entry.
func countersOf(tables map[string]*table) (size int) {
	for _, t := range tables {
		if t.sequence {
			size += len(recordedCounter(sqlite.Counter{Name: dbaas.Text(t.name), Seq: dbaas.Integer(math.MaxInt64)}))
		}
	}
	return size
}

// countSequences counts all of sqlite_sequence to the batch's size, since takeSequences will record it.
func (k *Capture) countSequences() {
	if k.sequenceSize > 0 {
		return
	}
	for _, row := range k.sequences {
		k.sequenceSize += int64(len(recordedCounter(row)))
	}
}

// takeSequences records all of sqlite_sequence if it has changed, or if applying the batch's inserts or schema changes could
// change it on replicas. sqlite_sequence has one row for each table with AUTOINCREMENT.
func (k *Capture) takeSequences() error {
	rows, err := k.c.Counters()
	if err != nil {
		return err
	}
	k.pending, k.sequenceSize = rows, 0
	same := maps.EqualFunc(rows, k.sequences, func(a, b sqlite.Counter) bool { return recordedCounter(a) == recordedCounter(b) })
	if same && !k.counted && !k.sums.schema {
		return nil
	}
	k.buf = packed.AppendUint(append(k.buf, rowlog.Sequence), uint64(len(rows)))
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		k.buf = append(packed.AppendInt(k.buf, id), recordedCounter(rows[id])...)
	}
	return nil
}

// applySequences makes sqlite_sequence equal to the record.
func (a *applier) applySequences(r *rowlog.Reader) error {
	type row struct {
		id int64
		sqlite.Counter
	}
	var rows []row
	for n := r.Uint(); n > 0 && !r.Bad; n-- {
		next := row{id: r.Int()}
		next.Name, _ = r.Value()
		next.Seq, _ = r.Value()
		rows = append(rows, next)
	}
	if r.Bad {
		return rowlog.ErrMalformed
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
