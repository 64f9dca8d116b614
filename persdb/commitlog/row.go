package commitlog

import (
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"
)

// Row is a Record in the form in which a log stores it, one field for each column.
type Row struct {
	Seq, Epoch int64
	At         int64 // in milliseconds since 1970
	Sum        int64 // the checksum of all other fields
	Operations []byte
	Changes    []byte // a frame of wire.AppendChanges
}

// RowOf returns the row of a record.
func RowOf(r *Record) Row {
	e := &r.Entry
	w := Row{
		Seq: int64(e.Seq), Epoch: int64(e.Epoch), At: e.At.UnixMilli(),
		Operations: r.Operations, Changes: wire.AppendChanges(nil, e.Changes),
	}
	w.Sum = w.sum()
	return w
}

func (w *Row) sum() int64 { return sumOf(w.Seq, w.Epoch, w.At, w.Operations, w.Changes) }

// Record returns the record of a row that was read. If noChanges is set, the row was read without its changes.
func (w *Row) Record(noChanges bool) Record {
	return w.record(damageOf(w.Sum, w.sum(), noChanges))
}

// record returns the record of a row. damage is the result of comparing the checksum, or 0 for a row without a checksum.
// Changes that cannot be decoded count as damaged too.
func (w *Row) record(damage Damage) Record {
	r := Record{Operations: w.Operations, Damage: damage, Entry: dbaas.Entry{
		Seq: dbaas.Seq(w.Seq), Epoch: dbaas.Epoch(w.Epoch), At: time.UnixMilli(w.At),
	}}
	if damage != 0 {
		return r
	}
	changes, err := wire.DecodeChanges(w.Changes)
	if err != nil {
		r.Damage = DamagedChanges
		return r
	}
	r.Entry.Changes = changes
	return r
}

// Undamaged returns the records before the first damaged one. If the first record, the one after seq, is damaged, it
// returns CodeDamaged.
func Undamaged(records []Record, after dbaas.Seq) ([]Record, error) {
	for i := range records {
		if records[i].Damage == 0 {
			continue
		}
		if i == 0 {
			return nil, errDamaged(after + 1)
		}
		return records[:i], nil
	}
	return records, nil
}
