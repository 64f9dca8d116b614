package readcache

import (
	"encoding/binary"
	"errors"
	"math"

	"rideshare/internal/dbaas"
)

// keyOf returns what distinguishes the answer to r from other answers: the statement, its typed values, and the format.
// Lengths and counts come first, so that two different reads never have the same key.
func keyOf(r *dbaas.Read) string {
	st := &r.Statements[0]
	b := make([]byte, 0, 32+len(st.SQL)+24*(len(st.Args)+len(st.Named)))
	b = append(b, byte(r.Format), flag(r.BlobArray), flag(r.QualifyColumns))
	b = appendText(b, st.SQL)
	b = binary.AppendUvarint(b, uint64(len(st.Args)))
	for i := range st.Args {
		b = appendValue(b, &st.Args[i])
	}
	for i := range st.Named {
		b = appendValue(appendText(b, st.Named[i].Name), &st.Named[i].Value)
	}
	return string(b)
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

func appendText[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func appendValue(b []byte, v *dbaas.Value) []byte {
	b = append(b, byte(v.Kind))
	switch v.Kind {
	case dbaas.KindInteger:
		return binary.AppendVarint(b, v.Int)
	case dbaas.KindFloat:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Float))
	case dbaas.KindText:
		return appendText(b, v.Text)
	case dbaas.KindBlob:
		return appendText(b, v.Blob)
	case dbaas.KindNull:
	}
	return b
}

var errKey = errors.New("malformed key of the read cache")

// readOf returns the read that keyOf was called with, as far as its answer depends on it.
func readOf(key string) (r dbaas.Read, err error) {
	k := &keyReader{b: []byte(key)}
	r.Format, r.BlobArray, r.QualifyColumns = dbaas.Format(k.byte()), k.byte() == 1, k.byte() == 1
	st := dbaas.Statement{SQL: string(k.bytes())}
	for n := k.uint(); n > 0 && !k.bad; n-- {
		st.Args = append(st.Args, k.value())
	}
	for len(k.b) > 0 && !k.bad {
		name := string(k.bytes())
		st.Named = append(st.Named, dbaas.NamedValue{Name: name, Value: k.value()})
	}
	if r.Statements = []dbaas.Statement{st}; k.bad {
		return r, errKey
	}
	return r, nil
}

// keyReader reads the parts of a key. bad is set if a part is missing.
type keyReader struct {
	b   []byte
	bad bool
}

func (k *keyReader) take(n int) []byte {
	if n < 0 || n > len(k.b) {
		k.bad, k.b = true, nil
		return nil
	}
	v := k.b[:n]
	k.b = k.b[n:]
	return v
}

func (k *keyReader) byte() byte {
	if v := k.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (k *keyReader) uint() uint64 {
	v, n := binary.Uvarint(k.b)
	if k.take(n); n <= 0 {
		k.bad = true
	}
	return v
}

func (k *keyReader) bytes() []byte { return k.take(int(min(k.uint(), 1<<30))) }

func (k *keyReader) value() (v dbaas.Value) {
	switch v.Kind = dbaas.ValueKind(k.byte()); v.Kind {
	case dbaas.KindInteger:
		n := 0
		v.Int, n = binary.Varint(k.b)
		k.take(n)
	case dbaas.KindFloat:
		if b := k.take(8); b != nil {
			v.Float = math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
	case dbaas.KindText:
		v.Text = string(k.bytes())
	case dbaas.KindBlob:
		v.Blob = k.bytes()
	case dbaas.KindNull:
	}
	return v
}
