package ledger_test

import (
	"errors"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/bench/ledger"
	"rideshare/internal/instances"
)

// Each fate is compared with what is there, and each difference has a counter of its own.
func TestWrites_Compare_EachDifferenceIsCounted(t *testing.T) {
	var writes ledger.Writes[string]
	for name, fate := range map[string]ledger.Fate{
		"kept": ledger.Applied, "lost": ledger.Applied, "doubled": ledger.Applied, "refused": ledger.Refused, "unasked": ledger.Refused,
		"there": ledger.Unknown, "gone": ledger.Unknown, "twice": ledger.Unknown,
	} {
		writes.Note(name, ledger.Unknown)
		writes.Note(name, fate)
	}
	found := map[string]int{"kept": 1, "doubled": 2, "unasked": 1, "there": 1, "twice": 2, "strange": 1}
	var got ledger.Check
	writes.Compare(&got, "write", found)
	got.Finish()
	if diff := cmp.Diff(map[string]int{"strange": 1}, found); diff != "" {
		t.Errorf("what no client wrote (-want +got):\n%s", diff)
	}
	for name, count := range map[string]struct{ got, want int }{
		"missing": {got.Missing.Count, 1}, "doubled": {got.Doubled.Count, 2}, "unasked": {got.Unasked.Count, 1}, "wrong": {got.Wrong.Count, 0},
		"unknown there": {got.UnknownThere, 1}, "unknown missing": {got.UnknownMissing, 1}, "acknowledged": {got.Acknowledged["write"], 3},
	} {
		if count.got != count.want {
			t.Errorf("%s: got %d, want %d", name, count.got, count.want)
		}
	}
	if want := "write lost was acknowledged and is not there"; got.OK || len(got.Missing.First) != 1 || got.Missing.First[0] != want {
		t.Errorf("got ok %v, %q, want %q", got.OK, got.Missing.First, want)
	}
}

// Any one finding, and a check without an end, make the result wrong.
func TestCheck_Finish(t *testing.T) {
	one := ledger.Findings{Count: 1}
	for name, c := range map[string]ledger.Check{"Wrong": {Wrong: one}, "Missing": {Missing: one}, "Doubled": {Doubled: one}, "Unasked": {Unasked: one}, "Problem": {Problem: "no answer"}} {
		if c.Finish(); c.OK {
			t.Errorf("%s: got ok, want not", name)
		}
	}
	c := ledger.Check{UnknownThere: 1, UnknownMissing: 1}
	if c.Finish(); !c.OK {
		t.Error("writes without an answer: got not ok, want ok")
	}
}

// Only an answer that says so makes a write certainly done or certainly not done.
func TestFateOf(t *testing.T) {
	for _, test := range []struct {
		status int
		err    error
		want   ledger.Fate
	}{
		{201, nil, ledger.Applied},
		{200, nil, ledger.Unknown},
		{503, nil, ledger.Refused},
		{409, nil, ledger.Refused},
		{504, nil, ledger.Unknown},
		{500, nil, ledger.Unknown},
		{0, &net.OpError{Op: "dial"}, ledger.Refused},
		{0, &net.OpError{Op: "read"}, ledger.Unknown},
		{0, errors.New("lost"), ledger.Unknown},
		{0, &instances.Error{Err: errors.New("silent")}, ledger.Refused},
		{0, &instances.Error{Sent: true, Err: &net.OpError{Op: "dial"}}, ledger.Unknown},
	} {
		if got := ledger.FateOf(test.status, test.err, 201); got != test.want {
			t.Errorf("status %d, error %v: got %v, want %v", test.status, test.err, got, test.want)
		}
	}
}
