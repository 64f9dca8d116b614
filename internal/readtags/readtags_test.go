package readtags_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"
)

// slots are the slots that logs on disk contain for these keys of the table users: of the value alone, and of the value
// and the text b.
var slots = []struct {
	value       dbaas.Value
	alone, with readtags.Slot
}{
	{dbaas.Null(), 8974, 37834},
	{dbaas.Integer(0), 376, 26134},
	{dbaas.Integer(-1), 15482, 9101},
	{dbaas.Integer(1 << 62), 23999, 38637},
	{dbaas.Float(1.5), 15315, 17091},
	{dbaas.Float(-1e300), 39813, 7028},
	{dbaas.Text(""), 13960, 65203},
	{dbaas.Text("ann"), 724, 50770},
	{dbaas.Text(strings.Repeat("x", 100)), 33556, 56504},
	{dbaas.Blob(nil), 16370, 41601},
	{dbaas.Blob([]byte("ann")), 47121, 43050},
}

// The slots are part of the log's format.
func TestSlots(t *testing.T) {
	if got := []readtags.Slot{readtags.Table(""), readtags.Table("users"), readtags.Whole("users")}; !slices.Equal(got, []readtags.Slot{29756, 57793, 7847}) {
		t.Errorf("tables: got %d", got)
	}
	b := dbaas.Text("b")
	var touched readtags.Touched
	for _, s := range slots {
		if alone, with := readtags.Key("users", s.value), readtags.Key("users", s.value, b); alone != s.alone || with != s.with {
			t.Errorf("%v: got %d and %d, want %d and %d", s.value, alone, with, s.alone, s.with)
		}
		touched.Reset()
		for range 2 { // the second row is of the same table
			touched.Changed()
			touched.Row("users")
			touched.Key(&s.value)
			touched.Key(&b)
		}
		want := []readtags.Slot{57793, s.alone, s.with}
		slices.Sort(want)
		var got []readtags.Slot
		for left := touched.Append(nil); len(left) > 0; left = left[2:] {
			got = append(got, readtags.Slot(binary.LittleEndian.Uint16(left)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: touched %d, want %d", s.value, got, want)
		}
	}
	if one, whole := readtags.Key("users", dbaas.Integer(1)), readtags.Key("users", dbaas.Float(1)); one != whole {
		t.Errorf("1 and 1.0: got %d and %d, want the same", one, whole)
	}
}

// Rows of several tables touch the slots of each. A table may have an empty name.
func TestTouched_Tables(t *testing.T) {
	var touched readtags.Touched
	id := dbaas.Integer(1)
	for round := range 2 { // the second round after a Reset
		touched.Reset()
		touched.Emptied("c")
		for _, table := range []string{"", "a", "a", "b", "a"} {
			touched.Changed()
			touched.Row(table)
			touched.Key(&id)
		}
		slots := []readtags.Slot{readtags.Table("c"), readtags.Whole("c")}
		for _, table := range []string{"", "a", "b"} {
			slots = append(slots, readtags.Table(table), readtags.Key(table, id))
		}
		var want []byte
		for _, s := range slices.Sorted(slices.Values(slots)) {
			want = binary.LittleEndian.AppendUint16(want, uint16(s))
		}
		if got := touched.Append(nil); !slices.Equal(got, want) {
			t.Errorf("round %d: got %x, want %x", round, got, want)
		}
	}
}

// A changed row costs no allocation.
func TestTouched_Allocations(t *testing.T) {
	var touched readtags.Touched
	id := dbaas.Text("0123456789")
	row := func() {
		touched.Reset()
		touched.Changed()
		touched.Row("users")
		touched.Key(&id)
	}
	row()
	if got := testing.AllocsPerRun(100, row); got > 2 { // of the table, once an entry
		t.Errorf("got %v allocations for an entry of one row, want at most 2", got)
	}
}
