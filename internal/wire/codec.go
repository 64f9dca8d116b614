package wire

import (
	"cmp"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
)

// appendTime writes milliseconds since 1970; the zero time is 0.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return packed.AppendInt(b, 0)
	}
	return packed.AppendInt(b, t.UnixMilli())
}

// appendLeft writes the milliseconds from now to t. 0 encodes the zero time, so a t equal to now is written as one
// millisecond ago.
func appendLeft(b []byte, t, now time.Time) []byte {
	if t.IsZero() {
		return packed.AppendInt(b, 0)
	}
	left := max(-maxLeft, min(t.Sub(now).Milliseconds(), maxLeft))
	return packed.AppendInt(b, cmp.Or(left, -1))
}

func appendTexts(b []byte, texts []string) []byte {
	b = packed.AppendUint(b, uint64(len(texts)))
	for _, s := range texts {
		b = packed.AppendBytes(b, s)
	}
	return b
}

func appendValues(b []byte, values []dbaas.Value) []byte {
	b = packed.AppendUint(b, uint64(len(values)))
	for _, v := range values {
		b = packed.AppendValue(b, v)
	}
	return b
}

// decoder reads a frame. It returns only zero values after the first error, so that callers check end once.
type decoder struct {
	packed.Reader

	err error // why reading has failed; nil: the frame is malformed
}

func newDecoder(b []byte) *decoder { return &decoder{Reader: packed.Reader{Rest: b}} }

func (d *decoder) fail(err error) {
	if !d.Bad {
		d.err = err
	}
	d.Fail()
}

// failure returns the first error.
func (d *decoder) failure() error {
	if !d.Bad {
		return nil
	}
	return cmp.Or(d.err, ErrMalformed)
}

// end returns the first error; leftover bytes are an error too.
func (d *decoder) end() error {
	if len(d.Rest) != 0 {
		d.Fail()
	}
	return d.failure()
}

func (d *decoder) bool() bool {
	v := d.Byte()
	if v > 1 {
		d.Fail()
	}
	return v == 1
}

func (d *decoder) time() time.Time {
	ms := d.Int()
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// maxLeft bounds a remaining time, so that adding it to a time cannot overflow.
const maxLeft = 1 << 40 // ms, some 35 years

// left reads what appendLeft wrote, as a time on the reader's clock. The clocks of the two hosts need not agree.
func (d *decoder) left(now time.Time) time.Time {
	ms := d.Int()
	switch {
	case ms == 0:
		return time.Time{}
	case ms < -maxLeft || ms > maxLeft:
		d.Fail()
		return time.Time{}
	}
	return now.Add(time.Duration(ms) * time.Millisecond)
}

// count reads the length of a list whose items take at least one byte each. So a forged length cannot cause an
// allocation above the frame's own size.
func (d *decoder) count() int {
	n := d.Uint()
	if n > uint64(len(d.Rest)) {
		d.Fail()
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
		if d.Bad {
			return out
		}
		out = append(out, v)
	}
	return out
}

func (d *decoder) texts() []string { return list(d, (*decoder).Text) }

func (d *decoder) values() []dbaas.Value { return list(d, (*decoder).Value) }
