// Package packed encodes numbers, texts, blobs and values in few bytes: a number as a varint, a text or blob after its
// length, a value after its kind.
package packed

import (
	"encoding/binary"
	"math"

	"rideshare/internal/dbaas"
)

// AppendUint appends a number.
func AppendUint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// AppendInt appends a number that may be negative.
func AppendInt(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

// AppendBytes appends a text or blob.
func AppendBytes[T string | []byte](b []byte, v T) []byte {
	return append(AppendUint(b, uint64(len(v))), v...)
}

// AppendValue appends a value.
func AppendValue(b []byte, v dbaas.Value) []byte {
	b = append(b, byte(v.Kind))
	switch v.Kind {
	case dbaas.KindInteger:
		return AppendInt(b, v.Int)
	case dbaas.KindFloat:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Float))
	case dbaas.KindText:
		return AppendBytes(b, v.Text)
	case dbaas.KindBlob:
		return AppendBytes(b, v.Blob)
	case dbaas.KindNull:
	}
	return b
}

// Reader reads what the functions above have appended. It never trusts a length. After an invalid encoding Bad is true, and the
// Reader returns only zero values, so that callers check Bad once at the end.
type Reader struct {
	Rest []byte
	Bad  bool
}

// Fail marks the encoding as invalid.
func (r *Reader) Fail() { r.Bad, r.Rest = true, nil }

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if len(r.Rest) == 0 {
		r.Fail()
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
		r.Fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Int reads a number that may be negative.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Take reads n bytes. They are part of what is read, and not copied.
func (r *Reader) Take(n uint64) []byte {
	if n > uint64(len(r.Rest)) {
		r.Fail()
		return nil
	}
	v := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return v
}

// Bytes reads a blob, as Take does.
func (r *Reader) Bytes() []byte { return r.Take(r.Uint()) }

// Text reads a text, which is a copy.
func (r *Reader) Text() string { return string(r.Bytes()) }

// Value reads a value. A blob is read as by Take.
func (r *Reader) Value() dbaas.Value {
	switch dbaas.ValueKind(r.Byte()) {
	case dbaas.KindNull:
	case dbaas.KindInteger:
		return dbaas.Integer(r.Int())
	case dbaas.KindFloat:
		if raw := r.Take(8); raw != nil {
			return dbaas.Float(math.Float64frombits(binary.LittleEndian.Uint64(raw)))
		}
	case dbaas.KindText:
		return dbaas.Text(r.Text())
	case dbaas.KindBlob:
		return dbaas.Blob(r.Bytes())
	default:
		r.Fail()
	}
	return dbaas.Value{}
}
