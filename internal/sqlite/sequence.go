package sqlite

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"rideshare/internal/dbaas"
)

// sequenceRow is a row of sqlite_sequence, where SQLite keeps the counters of AUTOINCREMENT. The engine changes that
// table without calling the hook that captures rows.
type sequenceRow struct{ name, seq dbaas.Value }

// encoded returns the row as it is recorded.
func (s sequenceRow) encoded() string {
	return string(appendRecorded(appendRecorded(nil, s.name), s.seq))
}

const sequenceTable = "sqlite_sequence"

// readSequences returns the rows of sqlite_sequence by row id, or none if there is no such table.
func (c *Conn) readSequences() (map[int64]sequenceRow, error) {
	rows := map[int64]sequenceRow{}
	exists := false
	err := c.Query("SELECT 1 FROM sqlite_master WHERE name='sqlite_sequence'", func(Row) error {
		exists = true
		return nil
	})
	if err == nil && exists {
		err = c.Query("SELECT rowid, name, seq FROM sqlite_sequence", func(r Row) error {
			rows[r.Int(0)] = sequenceRow{name: r.Value(1), seq: r.Value(2)}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the counters: %w", err)
	}
	return rows, nil
}

// CounterUsedUp reports whether a counter of AUTOINCREMENT has reached its maximum. An INSERT that needs the next number
// then fails as if the disk were full.
func (c *Conn) CounterUsedUp() (bool, error) {
	rows, err := c.readSequences()
	for _, row := range rows {
		if row.seq.Kind == dbaas.KindInteger && row.seq.Int == math.MaxInt64 {
			return true, nil
		}
	}
	return false, err
}

// takeSequences records all of sqlite_sequence if it has changed, or if replicas that repeat the batch's inserts would
// change theirs. sqlite_sequence has one row for each table with AUTOINCREMENT.
func (k *Capture) takeSequences() error {
	rows, err := k.c.readSequences()
	if err != nil {
		return err
	}
	k.pending = rows
	same := maps.EqualFunc(rows, k.sequences, func(a, b sequenceRow) bool { return a.encoded() == b.encoded() })
	if same && !k.counted {
		return nil
	}
	k.buf = appendUint(append(k.buf, recordSequence), uint64(len(rows)))
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		k.buf = append(appendInt(k.buf, id), rows[id].encoded()...)
	}
	return nil
}

// applySequences makes sqlite_sequence equal to the record.
func (a *applier) applySequences(r *records) error {
	type row struct {
		id int64
		sequenceRow
	}
	var rows []row
	for n := r.uint(); n > 0 && !r.bad; n-- {
		next := row{id: r.int()}
		next.name, _ = r.value()
		next.seq, _ = r.value()
		rows = append(rows, next)
	}
	if r.bad {
		return errRecord
	}
	if len(rows) == 0 {
		have, err := a.c.readSequences() // the table may be missing.
		if err != nil || len(have) == 0 {
			return err
		}
	}
	if err := a.c.Exec("DELETE FROM sqlite_sequence"); err != nil {
		return diverged(err)
	}
	for _, s := range rows {
		if err := a.c.Exec("INSERT INTO sqlite_sequence(rowid, name, seq) VALUES(?,?,?)", dbaas.Integer(s.id), s.name, s.seq); err != nil {
			return diverged(err)
		}
	}
	return nil
}
