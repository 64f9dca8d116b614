package wire

import (
	"encoding/binary"
	"fmt"
	"slices"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
)

// MaxEntryBytes limits the changes that are sent with an entry to receivers that did not ask for them. Receivers
// fetch larger changes from the log when they can: several copies of 80 MiB would overload a broker.
const MaxEntryBytes = 1 << 20

// EncodeEntry returns e as a frame for syncQ and for the answer to a commit. If the changes are large, the frame
// leaves them out, and decoding it sets ChangesOmitted.
func EncodeEntry(e dbaas.Entry) ([]byte, error) {
	if e.ChangesOmitted || e.Size() > MaxEntryBytes {
		return sized(appendPlace(appendHeader(nil, KindEntryWithoutChanges, e.Shard), &e))
	}
	b := appendHeader(nil, KindEntry, e.Shard)
	return sized(appendEntry(b, &e))
}

// DecodeEntry decodes what EncodeEntry returned. Changes are parts of b.
func DecodeEntry(b []byte) (dbaas.Entry, error) {
	d, e := openEntry(b)
	if !e.ChangesOmitted {
		e.Changes = d.changes()
	}
	return e, d.end()
}

// CheckEntry checks everything in a frame that DecodeEntry checks, and returns the entry's position.
func CheckEntry(b []byte) (dbaas.Head, error) {
	d, e := openEntry(b)
	if !e.ChangesOmitted {
		for n := d.count(); n > 0 && !d.Bad; n-- {
			d.change()
		}
	}
	return dbaas.Head{Cluster: e.Cluster, Seq: e.Seq, Epoch: e.Epoch}, d.end()
}

// openEntry starts decoding a frame of KindEntry or KindEntryWithoutChanges: all but the changes.
func openEntry(b []byte) (*decoder, dbaas.Entry) {
	d := newDecoder(b)
	kind, shard := d.header()
	if !d.Bad && kind != KindEntry && kind != KindEntryWithoutChanges {
		d.fail(fmt.Errorf("kind %d where an entry is wanted: %w", kind, ErrMalformed))
	}
	e := d.place()
	e.Shard, e.ChangesOmitted = shard, kind == KindEntryWithoutChanges
	return d, e
}

// EncodeEntries returns a page of entries of one shard, or ErrTooLarge. The frame is the concatenation of parts;
// large changes become parts without being copied.
func EncodeEntries(shard dbaas.ShardID, entries []dbaas.Entry) (parts [][]byte, err error) {
	const large = 64 << 10
	size := 0
	cut := func(part []byte) {
		if len(part) > 0 {
			parts = append(parts, part)
			size += len(part)
		}
	}
	b := appendHeader(nil, KindEntries, shard)
	b = packed.AppendUint(b, uint64(len(entries)))
	for i := range entries {
		e := &entries[i]
		b = packed.AppendUint(appendPlace(b, e), uint64(len(e.Changes)))
		for _, c := range e.Changes {
			b = packed.AppendUint(append(b, byte(c.Kind)), uint64(len(c.Data)))
			if len(c.Data) < large {
				b = append(b, c.Data...)
				continue
			}
			cut(b)
			cut(c.Data)
			b = nil
		}
	}
	cut(b)
	if size > MaxBytes {
		return nil, ErrTooLarge
	}
	return parts, nil
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

func appendEntry(b []byte, e *dbaas.Entry) []byte { return AppendChanges(appendPlace(b, e), e.Changes) }

// appendPlace appends an entry without its changes.
func appendPlace(b []byte, e *dbaas.Entry) []byte {
	b = append(b, e.Cluster[:]...)
	b = packed.AppendUint(b, uint64(e.Seq))
	b = packed.AppendUint(b, uint64(e.Epoch))
	return appendTime(b, e.At)
}

func (d *decoder) entry() dbaas.Entry {
	e := d.place()
	e.Changes = d.changes()
	return e
}

func (d *decoder) place() dbaas.Entry {
	return dbaas.Entry{Cluster: d.sixteen(), Seq: dbaas.Seq(d.Uint()), Epoch: dbaas.Epoch(d.Uint()), At: d.time()}
}

// AppendChanges appends the changes of an entry as the log stores them.
func AppendChanges(b []byte, changes []dbaas.Change) []byte {
	size := binary.MaxVarintLen64
	for i := range changes {
		size += 1 + binary.MaxVarintLen64 + len(changes[i].Data)
	}
	b = slices.Grow(b, size)
	b = packed.AppendUint(b, uint64(len(changes)))
	for _, c := range changes {
		b = append(b, byte(c.Kind))
		b = packed.AppendBytes(b, c.Data)
	}
	return b
}

// DecodeChanges decodes what AppendChanges wrote. The data are parts of b.
func DecodeChanges(b []byte) ([]dbaas.Change, error) {
	if len(b) > MaxBytes {
		return nil, ErrTooLarge
	}
	d := newDecoder(b)
	changes := d.changes()
	return changes, d.end()
}

func (d *decoder) changes() []dbaas.Change { return list(d, (*decoder).change) }

func (d *decoder) change() dbaas.Change {
	c := dbaas.Change{Kind: dbaas.ChangeKind(d.Byte()), Data: d.Bytes()}
	if c.Kind < dbaas.ChangeSet || c.Kind > dbaas.ChangeFeed {
		d.Fail()
	}
	return c
}

// Record is what the log stores about one operation.
type Record struct {
	Fingerprint dbaas.Fingerprint
	Result      dbaas.OperationResult
}

// EncodeRecords returns the operations of one entry as the log stores them, or
// ErrTooLarge.
func EncodeRecords(shard dbaas.ShardID, records []Record) ([]byte, error) {
	b := appendHeader(make([]byte, 0, 64+64*len(records)), KindRecords, shard)
	b = packed.AppendUint(b, uint64(len(records)))
	for i := range records {
		b = append(b, records[i].Fingerprint[:]...)
		b = appendResult(b, &records[i].Result)
	}
	return sized(b)
}

// DecodeRecords decodes a frame of KindRecords. With an error it returns the records that it could decode before the
// error.
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
