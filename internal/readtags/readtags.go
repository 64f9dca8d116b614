// Package readtags says which reads a change can alter. A read carries tags, and a commit touches tags: an answer can
// only have changed if the commit touched a tag of the read. persdb writes the touched tags into each entry (Touched),
// a slave finds the tags of a read (Tags), and the orchestrator compares them without knowing the schema.
//
// A tag is one of 65536 slots. Tags that share a slot make an answer seem changed when it is not, never the reverse.
// The slot of a tag is part of the log's format and must not change.
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

func named(kind byte, table string) uint32 {
	sum := crc32.Update(0, polynomial, []byte{kind})
	return crc32.Update(sum, polynomial, []byte(table))
}

// Table returns the slot of a table.
func Table(name string) Slot { return fold(named('t', name)) }

// Whole returns the slot that is touched when a table is emptied.
func Whole(name string) Slot { return fold(named('w', name)) }

// Key returns the slot of the rows of a table whose first key columns have these stored values. Values that SQLite takes
// for equal have the same slot.
func Key(table string, values ...dbaas.Value) Slot {
	sum := named('k', table)
	for i := range values {
		sum = addValue(sum, &values[i])
	}
	return fold(sum)
}

// addValue adds a value to a checksum. A float that is a whole number counts as an integer, since they are equal.
func addValue(sum uint32, v *dbaas.Value) uint32 {
	var b [9]byte
	kind, number := v.Kind, uint64(v.Int)
	if kind == dbaas.KindFloat {
		if f := v.Float; f == math.Trunc(f) && f >= -(1<<63) && f < 1<<63 {
			kind, number = dbaas.KindInteger, uint64(int64(f))
		} else {
			number = math.Float64bits(f)
		}
	}
	b[0] = byte(kind)
	switch kind {
	case dbaas.KindInteger, dbaas.KindFloat:
		binary.LittleEndian.PutUint64(b[1:], number)
	case dbaas.KindText:
		binary.LittleEndian.PutUint64(b[1:], uint64(len(v.Text)))
		return crc32.Update(crc32.Update(sum, polynomial, b[:]), polynomial, []byte(v.Text))
	case dbaas.KindBlob:
		binary.LittleEndian.PutUint64(b[1:], uint64(len(v.Blob)))
		return crc32.Update(crc32.Update(sum, polynomial, b[:]), polynomial, v.Blob)
	case dbaas.KindNull:
	}
	return crc32.Update(sum, polynomial, b[:])
}

// Tags are the tags of a read, encoded for the wire: a byte for the kind and two for the slot of each. Empty Tags mean
// that the read cannot be cached.
type Tags []byte

// TagBytes is the size of one encoded tag.
const TagBytes = 3

// ErrMalformed is returned for bytes that are not what this package encodes.
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

// Check returns ErrMalformed if t has parts of tags or tags of an unknown kind.
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

// MaxRows is how many changed rows of one entry are listed. A larger entry touches all tags.
const MaxRows = 10_000

// Touched collects the slots that the changes of one entry touch. Its zero value is empty.
type Touched struct {
	slots []Slot
	rows  int
	all   bool
	key   uint32 // the checksum of the row's table and key so far
}

// Reset empties t.
func (t *Touched) Reset() { *t = Touched{slots: t.slots[:0]} }

// Changed counts a changed row. Row follows for the row before its change, and for the row after it.
func (t *Touched) Changed() {
	t.rows++
	t.all = t.all || t.rows > MaxRows
}

// Row adds a row. Calls of Key follow, for each column of its key in order.
func (t *Touched) Row(table string) {
	if !t.all {
		t.slots = append(t.slots, Table(table))
		t.key = named('k', table)
	}
}

// Key adds the next column of the row's key, and so one more prefix of the key.
func (t *Touched) Key(v *dbaas.Value) {
	if !t.all {
		t.key = addValue(t.key, v)
		t.slots = append(t.slots, fold(t.key))
	}
}

// Emptied adds a table all of whose rows are deleted.
func (t *Touched) Emptied(table string) { t.slots = append(t.slots, Table(table), Whole(table)) }

// Append appends the slots in ascending order, two bytes each. Nothing is appended if all tags are touched.
func (t *Touched) Append(b []byte) []byte {
	if t.all {
		return b
	}
	if len(t.slots) == 0 {
		t.slots = append(t.slots, Table("")) // a change without rows touches the tags of no read
	}
	slices.Sort(t.slots)
	t.slots = slices.Compact(t.slots)
	for _, s := range t.slots {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	return b
}

// RecordTouched is the record of dbaas.ChangeRows that holds touched slots: this byte, the number of bytes that follow,
// and what Append wrote. It is a change of its own, the last of its entry.
const RecordTouched = 'K'

// OfEntry calls touch for each slot that an entry touches. It returns false if the entry may touch all tags: it changes
// the schema, changes too many rows, or comes from a version that recorded no tags.
func OfEntry(e *dbaas.Entry, touch func(Slot)) bool {
	if e.Away {
		return false
	}
	if len(e.Changes) == 0 {
		return true
	}
	for i := range e.Changes {
		if e.Changes[i].Kind != dbaas.ChangeRows {
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
