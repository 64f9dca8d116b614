// Package readtags decides which cached reads a commit can change. A read has tags, and a commit touches tags. An
// answer can only have changed if the commit touched a tag of the read. persdb writes the touched tags into each entry
// (Touched), a slave finds the tags of a read (Tags), and the orchestrator compares them without knowing the schema.
//
// A tag hashes to one of 65536 slots. If two tags share a slot, an answer may seem changed when it is not, never the
// reverse. The slot of a tag is part of the log's format and must not change.
package readtags

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"

	"rideshare/internal/dbaas"
)

// Slots is the number of slots.
const Slots = 1 << 16

// Slot is the hash of a tag.
type Slot uint16

// Kind says what a tag stands for.
type Kind uint8

// The kinds of tags.
const (
	// KindTable is touched by every change of a table.
	KindTable Kind = iota
	// KindPrefix is touched by every change of a row whose first key columns have the given values.
	KindPrefix
	// KindRow is touched by every change of the row with the given key.
	KindRow
	// KindWhole is touched when a table is emptied without visiting its rows. Reads with a row or prefix tag have it too.
	KindWhole
)

// Kinds is the number of kinds.
const Kinds = int(KindWhole) + 1

func (k Kind) String() string { return [...]string{"table", "prefix", "row", "whole"}[k] }

var polynomial = crc32.MakeTable(crc32.Castagnoli)

func fold(sum uint32) Slot { return Slot(sum>>16) ^ Slot(sum) }

// A checksum is computed over bytes collected in a buffer, because each call of the checksum function moves the bytes
// that it gets to the heap.

// named appends what the checksum of a table begins with.
func named(b []byte, kind byte, table string) []byte { return append(append(b, kind), table...) }

func checksum(b []byte) uint32 { return crc32.Update(0, polynomial, b) }

// Table returns the slot of a table.
func Table(name string) Slot { return fold(checksum(named(nil, 't', name))) }

// Whole returns the slot that is touched when a table is emptied.
func Whole(name string) Slot { return fold(checksum(named(nil, 'w', name))) }

// Key returns the slot of the rows of a table whose first key columns have these stored values. Values that SQLite
// treats as equal have the same slot.
func Key(table string, values ...dbaas.Value) Slot {
	b := named(make([]byte, 0, 64), 'k', table)
	for i := range values {
		b = appendValue(b, &values[i])
	}
	return fold(checksum(b))
}

// appendValue appends the bytes of a value that a checksum covers. A float that is a whole number counts as an integer,
// since SQLite treats the two as equal.
func appendValue(b []byte, v *dbaas.Value) []byte {
	kind, number := v.Kind, uint64(v.Int)
	switch v.Kind {
	case dbaas.KindFloat:
		if f := v.Float; f == math.Trunc(f) && f >= -(1<<63) && f < 1<<63 {
			kind, number = dbaas.KindInteger, uint64(int64(f))
		} else {
			number = math.Float64bits(f)
		}
	case dbaas.KindText:
		number = uint64(len(v.Text))
	case dbaas.KindBlob:
		number = uint64(len(v.Blob))
	case dbaas.KindNull:
		number = 0
	case dbaas.KindInteger:
	}
	b = binary.LittleEndian.AppendUint64(append(b, byte(kind)), number)
	return append(append(b, v.Text...), v.Blob...)
}

// Tags are the tags of a read, encoded for the wire: for each tag one byte for the kind and two for the slot. Empty
// Tags mean that the read cannot be cached.
type Tags []byte

// TagBytes is the size of one encoded tag.
const TagBytes = 3

// ErrMalformed is returned for bytes that are not valid Tags.
var ErrMalformed = errors.New("malformed tags")

// Add appends a tag.
func (t Tags) Add(kind Kind, slot Slot) Tags {
	return append(t, byte(kind), byte(slot), byte(slot>>8))
}

// Len returns the number of tags.
func (t Tags) Len() int { return len(t) / TagBytes }

// At returns tag i.
func (t Tags) At(i int) (Kind, Slot) {
	return Kind(t[TagBytes*i]), Slot(t[TagBytes*i+1]) | Slot(t[TagBytes*i+2])<<8
}

// Check returns ErrMalformed if t has an incomplete tag or a tag of an unknown kind.
func (t Tags) Check() error {
	if len(t)%TagBytes != 0 {
		return ErrMalformed
	}
	for i := range t.Len() {
		if int(t[TagBytes*i]) >= Kinds {
			return ErrMalformed
		}
	}
	return nil
}

// MaxRows is the largest number of changed rows whose tags one entry lists. A larger entry touches all tags.
const MaxRows = 10_000

// Touched collects the slots that the changes of one entry touch. Its zero value is empty.
type Touched struct {
	slots []Slot
	rows  int
	all   bool
	known bool   // table and begin are set
	table string // of the last row
	begin uint32 // the checksum of that table
	key   uint32 // the checksum of the row's table and key so far
	buf   []byte
}

// Reset empties t.
func (t *Touched) Reset() {
	if cap(t.buf) > 64<<10 { // of a row with a large key
		t.buf = nil
	}
	*t = Touched{slots: t.slots[:0], buf: t.buf[:0]}
}

// Changed counts a changed row. The caller then calls Row for the row before its change and for the row after it, where
// they exist.
func (t *Touched) Changed() {
	t.rows++
	t.all = t.all || t.rows > MaxRows
}

// Row adds a row. The caller then calls Key for each column of the row's key, in order.
func (t *Touched) Row(table string) {
	if t.all {
		return
	}
	if !t.known || t.table != table {
		t.slots = append(t.slots, Table(table))
		t.buf = named(t.buf[:0], 'k', table)
		t.known, t.table, t.begin = true, table, checksum(t.buf)
	}
	t.key = t.begin
}

// Key adds the next column of the row's key. It touches the prefix of the key that ends with this column.
func (t *Touched) Key(v *dbaas.Value) {
	if !t.all {
		t.buf = appendValue(t.buf[:0], v)
		t.key = crc32.Update(t.key, polynomial, t.buf)
		t.slots = append(t.slots, fold(t.key))
	}
}

// Emptied adds a table whose rows are all deleted.
func (t *Touched) Emptied(table string) { t.slots = append(t.slots, Table(table), Whole(table)) }

// Append appends the slots in ascending order, two bytes each. It appends nothing if all tags are touched.
func (t *Touched) Append(b []byte) []byte {
	if t.all {
		return b
	}
	if len(t.slots) == 0 {
		t.slots = append(t.slots, Table("")) // a change without rows touches no read: no table has this name
	}
	slices.Sort(t.slots)
	t.slots = slices.Compact(t.slots)
	for _, s := range t.slots {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	return b
}

// RecordTouched is the record of dbaas.ChangeRows that holds touched slots: this byte, the number of bytes that follow,
// and what Append wrote. It is a separate change, the last of its entry.
const RecordTouched = 'K'

// OfEntry calls touch for each slot that an entry touches. It returns false if the entry may touch all tags: it changes
// the schema, changes too many rows, or comes from a version that recorded no tags.
func OfEntry(e *dbaas.Entry, touch func(Slot)) bool {
	if e.ChangesOmitted {
		return false
	}
	if len(e.Changes) == 0 {
		return true
	}
	for i := range e.Changes {
		if kind := e.Changes[i].Kind; kind != dbaas.ChangeRows && kind != dbaas.ChangeFeed {
			return false
		}
	}
	data := e.Changes[len(e.Changes)-1].Data
	if len(data) == 0 || data[0] != RecordTouched {
		return false
	}
	size, n := binary.Uvarint(data[1:])
	if n <= 0 || size == 0 || size%2 != 0 || len(data)-1-n != int(min(size, 1<<30)) {
		return false
	}
	for data = data[1+n:]; len(data) > 0; data = data[2:] {
		touch(Slot(binary.LittleEndian.Uint16(data)))
	}
	return true
}
