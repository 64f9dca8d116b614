package packed_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
)

// Values come back as they were, and each shorter encoding, or one with an unknown kind, is bad.
func TestReader_Value(t *testing.T) {
	t.Parallel()
	for _, want := range []dbaas.Value{
		dbaas.Null(), dbaas.Integer(math.MinInt64), dbaas.Float(math.Inf(-1)), dbaas.Text("a\x00b"), dbaas.Blob([]byte{0, 255}),
	} {
		b := packed.AppendValue(nil, want)
		r := packed.Reader{Rest: b}
		if got := r.Value(); r.Bad || len(r.Rest) > 0 || !cmp.Equal(got, want) {
			t.Errorf("got %v, bad %t, %d bytes left, want %v", got, r.Bad, len(r.Rest), want)
		}
		for n := range b {
			r = packed.Reader{Rest: b[:n]}
			if got := r.Value(); !r.Bad {
				t.Errorf("the first %d bytes of %v are %v, want them bad", n, want, got)
			}
		}
	}
	if r := (packed.Reader{Rest: []byte{9}}); !cmp.Equal(r.Value(), dbaas.Null()) || !r.Bad {
		t.Error("a value of an unknown kind is not bad")
	}
}

// A length beyond the end is bad, and nothing is read after it.
func TestReader_LongLength_IsBad(t *testing.T) {
	t.Parallel()
	r := packed.Reader{Rest: append(packed.AppendUint(nil, math.MaxUint64), "text"...)}
	if got := r.Text(); got != "" || !r.Bad || r.Byte() != 0 {
		t.Errorf("got %q, bad %t", got, r.Bad)
	}
}
