package replication

import (
	"encoding/binary"
	"errors"
	"math"

	"rideshare/internal/dbaas"
)

// The records of a dbaas.ChangeRows, in order. A number is a varint. A text or blob is preceded by its length. A row's
// identity is its row id, or the values of its key in a table WITHOUT ROWID.
const (
	recordTable    = 'T' // name, number of columns, 1 for WITHOUT ROWID: the table of the following records
	recordInsert   = 'I' // identity of a row id only, a value for each column
	recordUpdate   = 'U' // identity, the new row id, then (place+1, old value, new value) for each changed column, 0
	recordDelete   = 'D' // identity
	recordEmpty    = 'E' // name of a table all of whose rows are deleted
	recordSequence = 'Q' // number of rows, then row id, name and seq of each: all of sqlite_sequence
	// readtags.RecordTouched, 'K': tags of reads, which replicas skip
)

// The kinds of values.
const (
	valueNull    = 0
	valueInteger = 1
	valueFloat   = 2
	valueText    = 3
	valueBlob    = 4
	valueOmitted = 5 // an old value that is too long to be compared
)

var errRecord = errors.New("malformed record of rows")

func appendUint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

func appendInt(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

func appendFloatBits(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

func appendBytes[T string | []byte](b []byte, v T) []byte {
	return append(appendUint(b, uint64(len(v))), v...)
}

func (t *table) appendHeader(b []byte) []byte {
	b = appendBytes(append(b, recordTable), t.name)
	b = appendUint(b, uint64(len(t.columns)))
	if t.withoutRowid {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendRecorded appends a value in its recorded form.
func appendRecorded(b []byte, v dbaas.Value) []byte {
	switch v.Kind {
	case dbaas.KindInteger:
		return appendInt(append(b, valueInteger), v.Int)
	case dbaas.KindFloat:
		return appendFloatBits(append(b, valueFloat), v.Float)
	case dbaas.KindText:
		return appendBytes(append(b, valueText), v.Text)
	case dbaas.KindBlob:
		return appendBytes(append(b, valueBlob), v.Blob)
	case dbaas.KindNull:
	}
	return append(b, valueNull)
}

// records reads a dbaas.ChangeRows. An invalid length sets bad, and nothing is read after that.
type records struct {
	b   []byte
	bad bool
}

func (r *records) fail() {
	r.bad, r.b = true, nil
}

func (r *records) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *records) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *records) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *records) bytes() []byte {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *records) text() string { return string(r.bytes()) }

// value reads a value. known is false for an old value that was omitted. Blobs share the record's memory.
func (r *records) value() (v dbaas.Value, known bool) {
	switch kind := r.byte(); kind {
	case valueNull:
	case valueInteger:
		v = dbaas.Integer(r.int())
	case valueFloat:
		if len(r.b) < 8 {
			r.fail()
			break
		}
		v = dbaas.Float(math.Float64frombits(binary.LittleEndian.Uint64(r.b)))
		r.b = r.b[8:]
	case valueText:
		v = dbaas.Text(r.text())
	case valueBlob:
		v = dbaas.Blob(r.bytes())
	case valueOmitted:
		return v, false
	default:
		r.fail()
	}
	return v, true
}
