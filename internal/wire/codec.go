package wire

import (
	"encoding/binary"
	"math"
	"time"

	"rideshare/internal/dbaas"
)

func appendUint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

func appendInt(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

func appendText(b []byte, s string) []byte {
	return append(appendUint(b, uint64(len(s))), s...)
}

func appendBlob(b, v []byte) []byte {
	return append(appendUint(b, uint64(len(v))), v...)
}

// appendTime writes milliseconds since 1970; the zero time is 0.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return appendInt(b, 0)
	}
	return appendInt(b, t.UnixMilli())
}

// appendLeft writes the milliseconds from now to t. 0 encodes the zero time, so a t equal to now is written as one
// millisecond ago.
func appendLeft(b []byte, t, now time.Time) []byte {
	if t.IsZero() {
		return appendInt(b, 0)
	}
	left := max(-maxLeft, min(t.Sub(now).Milliseconds(), maxLeft))
	if left == 0 {
		left = -1
	}
	return appendInt(b, left)
}

func appendTexts(b []byte, texts []string) []byte {
	b = appendUint(b, uint64(len(texts)))
	for _, s := range texts {
		b = appendText(b, s)
	}
	return b
}

func appendValue(b []byte, v dbaas.Value) []byte {
	b = append(b, byte(v.Kind))
	switch v.Kind {
	case dbaas.KindNull:
	case dbaas.KindInteger:
		b = appendInt(b, v.Int)
	case dbaas.KindFloat:
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Float))
	case dbaas.KindText:
		b = appendText(b, v.Text)
	case dbaas.KindBlob:
		b = appendBlob(b, v.Blob)
	}
	return b
}

func appendValues(b []byte, values []dbaas.Value) []byte {
	b = appendUint(b, uint64(len(values)))
	for _, v := range values {
		b = appendValue(b, v)
	}
	return b
}

// decoder reads fields from b. After the first error every read returns a zero value, so that callers check err once
// at the end.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

// end returns the first error; leftover bytes are an error too.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) != 0 {
		d.fail(ErrMalformed)
	}
	return d.err
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail(ErrMalformed)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail(ErrMalformed)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail(ErrMalformed)
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) bool() bool {
	v := d.byte()
	if v > 1 {
		d.fail(ErrMalformed)
	}
	return v == 1
}

// take returns the next n bytes without copying.
func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail(ErrMalformed)
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) text() string { return string(d.take(d.uint())) }

// blob returns a part of the frame itself: it must not be changed, and is valid as long as the frame is.
func (d *decoder) blob() []byte { return d.take(d.uint()) }

func (d *decoder) time() time.Time {
	ms := d.int()
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// maxLeft bounds a remaining time, so that adding it to a time cannot overflow.
const maxLeft = 1 << 40 // ms, some 35 years

// left reads what appendLeft wrote, as a time on the reader's clock. The clocks of the two hosts need not agree.
func (d *decoder) left(now time.Time) time.Time {
	ms := d.int()
	switch {
	case ms == 0:
		return time.Time{}
	case ms < -maxLeft || ms > maxLeft:
		d.fail(ErrMalformed)
		return time.Time{}
	}
	return now.Add(time.Duration(ms) * time.Millisecond)
}

// count reads the length of a list whose items take at least one byte each. So a forged length cannot cause an
// allocation above the frame's own size.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail(ErrMalformed)
		return 0
	}
	return int(n)
}

// list reads a list with its count. The list grows as items are decoded, so that a count alone costs nothing. An
// empty list is nil.
func list[T any](d *decoder, item func(*decoder) T) []T {
	n := d.count()
	if n == 0 {
		return nil
	}
	out := make([]T, 0, min(n, 64))
	for range n {
		v := item(d)
		if d.err != nil {
			return out
		}
		out = append(out, v)
	}
	return out
}

func (d *decoder) texts() []string { return list(d, (*decoder).text) }

func (d *decoder) value() dbaas.Value {
	kind := dbaas.ValueKind(d.byte())
	switch kind {
	case dbaas.KindNull:
		return dbaas.Value{}
	case dbaas.KindInteger:
		return dbaas.Integer(d.int())
	case dbaas.KindFloat:
		raw := d.take(8)
		if raw == nil {
			return dbaas.Value{}
		}
		return dbaas.Float(math.Float64frombits(binary.LittleEndian.Uint64(raw)))
	case dbaas.KindText:
		return dbaas.Text(d.text())
	case dbaas.KindBlob:
		return dbaas.Blob(d.blob())
	default:
		d.fail(ErrMalformed)
		return dbaas.Value{}
	}
}

func (d *decoder) values() []dbaas.Value { return list(d, (*decoder).value) }
