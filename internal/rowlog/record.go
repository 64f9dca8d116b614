// Package rowlog defines the form in which a commit's rows are recorded, and renders records for consumers of the
// change feed. It does not use the engine: internal/replication writes and applies the records, the orchestrator
// renders them.
package rowlog

import (
	"encoding/binary"
	"errors"
	"math"

	"rideshare/internal/dbaas"
)

// The records of a dbaas.ChangeRows, in order. A number is a varint. A text or blob is preceded by its length. A row's
// identity is its row id, or the values of its key in a table WITHOUT ROWID.
const (
	Table    = 'T' // name, number of columns, 1 for WITHOUT ROWID: the table of the following records
	Insert   = 'I' // the row id (none in a table WITHOUT ROWID), a value for each column
	Update   = 'U' // identity, the new row id (none in a table WITHOUT ROWID), then (place+1, old value, new value) for each changed column, 0
	Delete   = 'D' // identity
	Empty    = 'E' // name of a table whose rows are all deleted
	Sequence = 'Q' // number of rows, then row id, name and seq of each: all of sqlite_sequence
	// readtags.RecordTouched, 'K': tags of reads, which replicas skip
)

// The parts of a dbaas.ChangeFeed, in the order of the records of the dbaas.ChangeRows before it:
//   - For a Table: Known, or Described and a description. A description has the name of the row id ("" for WITHOUT
//     ROWID); 1 plus the place of the column that is the row id, or 0; the number of columns and their names; the number
//     of the primary key's columns and their places. A key that is the row id has no places.
//   - For a Delete, and for an Update that changes the key: the old values of all columns.
//   - For any other Update: the values of the key's columns, unless they are the identity; then the old values that the
//     record omits.
//   - For an Empty: Emptied, 1 for WITHOUT ROWID, a description, the number of rows; then for each row the row id (none
//     in a table WITHOUT ROWID) and the values of all columns.
const (
	Known     = 0
	Described = 1
	Emptied   = 6 // differs from Known, Described and every kind of value, so that the feed of an older version is detected
)

// The kinds of values.
const (
	valueNull    = 0
	valueInteger = 1
	valueFloat   = 2
	valueText    = 3
	valueBlob    = 4
	// ValueOmitted replaces an old value that is too long to be compared.
	ValueOmitted = 5
)

// ErrMalformed is returned for bytes that are not valid records.
var ErrMalformed = errors.New("malformed record of rows")

// AppendUint appends a number.
func AppendUint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// AppendInt appends a number that may be negative.
func AppendInt(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

// AppendBytes appends a text or blob with its length.
func AppendBytes[T string | []byte](b []byte, v T) []byte {
	return append(AppendUint(b, uint64(len(v))), v...)
}

// AppendValue appends a value with its kind.
func AppendValue(b []byte, v dbaas.Value) []byte {
	switch v.Kind {
	case dbaas.KindInteger:
		return AppendInt(append(b, valueInteger), v.Int)
	case dbaas.KindFloat:
		return binary.LittleEndian.AppendUint64(append(b, valueFloat), math.Float64bits(v.Float))
	case dbaas.KindText:
		return AppendBytes(append(b, valueText), v.Text)
	case dbaas.KindBlob:
		return AppendBytes(append(b, valueBlob), v.Blob)
	case dbaas.KindNull:
	}
	return append(b, valueNull)
}

// Reader reads what the functions above have appended. After an invalid encoding Bad is true, and the Reader reads
// nothing more.
type Reader struct {
	Rest []byte
	Bad  bool
}

func (r *Reader) fail() {
	r.Bad, r.Rest = true, nil
}

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if len(r.Rest) == 0 {
		r.fail()
		return 0
	}
	v := r.Rest[0]
	r.Rest = r.Rest[1:]
	return v
}

// Uint reads a number.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Int reads a number that may be negative.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Bytes reads a blob. It shares the Reader's memory.
func (r *Reader) Bytes() []byte {
	n := r.Uint()
	if n > uint64(len(r.Rest)) {
		r.fail()
		return nil
	}
	v := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return v
}

// Text reads a text.
func (r *Reader) Text() string { return string(r.Bytes()) }

// Value reads a value. known is false for an old value that was omitted. Blobs share the Reader's memory.
func (r *Reader) Value() (v dbaas.Value, known bool) {
	switch kind := r.Byte(); kind {
	case valueNull:
	case valueInteger:
		v = dbaas.Integer(r.Int())
	case valueFloat:
		if len(r.Rest) < 8 {
			r.fail()
			break
		}
		v = dbaas.Float(math.Float64frombits(binary.LittleEndian.Uint64(r.Rest)))
		r.Rest = r.Rest[8:]
	case valueText:
		v = dbaas.Text(r.Text())
	case valueBlob:
		v = dbaas.Blob(r.Bytes())
	case ValueOmitted:
		return v, false
	default:
		r.fail()
	}
	return v, true
}
