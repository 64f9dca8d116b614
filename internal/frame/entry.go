package frame

import "rideshare/internal/dbaas"

// EncodeEntry returns e as a frame for syncQ and for log pages, or ErrTooLarge.
func EncodeEntry(e dbaas.Entry) ([]byte, error) {
	b := appendHeader(nil, KindEntry, e.Shard)
	return sized(appendEntry(b, &e))
}

// DecodeEntry decodes a frame of KindEntry. Changes are parts of b.
func DecodeEntry(b []byte) (dbaas.Entry, error) {
	d, shard, err := open(b, KindEntry)
	if err != nil {
		return dbaas.Entry{}, err
	}
	e := d.entry()
	e.Shard = shard
	return e, d.end()
}

// EncodeEntries returns a page of entries of one shard, or ErrTooLarge.
func EncodeEntries(shard dbaas.ShardID, entries []dbaas.Entry) ([]byte, error) {
	b := appendHeader(nil, KindEntries, shard)
	b = appendUint(b, uint64(len(entries)))
	for i := range entries {
		b = appendEntry(b, &entries[i])
	}
	return sized(b)
}

// DecodeEntries decodes a frame of KindEntries. Changes are parts of b.
func DecodeEntries(b []byte) ([]dbaas.Entry, error) {
	d, shard, err := open(b, KindEntries)
	if err != nil {
		return nil, err
	}
	entries := list(d, (*decoder).entry)
	for i := range entries {
		entries[i].Shard = shard
	}
	return entries, d.end()
}

func appendEntry(b []byte, e *dbaas.Entry) []byte {
	b = appendUint(b, uint64(e.Seq))
	b = appendUint(b, uint64(e.Epoch))
	b = appendTime(b, e.At)
	return AppendChanges(b, e.Changes)
}

func (d *decoder) entry() dbaas.Entry {
	return dbaas.Entry{
		Seq:     dbaas.Seq(d.uint()),
		Epoch:   dbaas.Epoch(d.uint()),
		At:      d.time(),
		Changes: d.changes(),
	}
}

// AppendChanges appends the changes of an entry as the log stores them.
func AppendChanges(b []byte, changes []dbaas.Change) []byte {
	b = appendUint(b, uint64(len(changes)))
	for _, c := range changes {
		b = append(b, byte(c.Kind))
		b = appendBlob(b, c.Data)
	}
	return b
}

// DecodeChanges decodes what AppendChanges wrote. The data are parts of b.
func DecodeChanges(b []byte) ([]dbaas.Change, error) {
	if len(b) > MaxBytes {
		return nil, ErrTooLarge
	}
	d := &decoder{b: b}
	changes := d.changes()
	return changes, d.end()
}

func (d *decoder) changes() []dbaas.Change { return list(d, (*decoder).change) }

func (d *decoder) change() dbaas.Change {
	c := dbaas.Change{Kind: dbaas.ChangeKind(d.byte()), Data: d.blob()}
	if c.Kind != dbaas.ChangeRows && c.Kind != dbaas.ChangeSchema {
		d.fail(ErrMalformed)
	}
	return c
}

// Record is what the log keeps of one operation.
type Record struct {
	Fingerprint dbaas.Fingerprint
	Result      dbaas.OperationResult
}

// EncodeRecords returns the operations of one entry as the log stores them, or
// ErrTooLarge.
func EncodeRecords(shard dbaas.ShardID, records []Record) ([]byte, error) {
	b := appendHeader(make([]byte, 0, 64+64*len(records)), KindRecords, shard)
	b = appendUint(b, uint64(len(records)))
	for i := range records {
		b = append(b, records[i].Fingerprint[:]...)
		b = appendResult(b, &records[i].Result)
	}
	return sized(b)
}

// DecodeRecords decodes a frame of KindRecords.
func DecodeRecords(b []byte) ([]Record, error) {
	d, _, err := open(b, KindRecords)
	if err != nil {
		return nil, err
	}
	records := list(d, (*decoder).record)
	return records, d.end()
}

func (d *decoder) record() Record {
	return Record{Fingerprint: dbaas.Fingerprint(d.sixteen()), Result: d.result()}
}
