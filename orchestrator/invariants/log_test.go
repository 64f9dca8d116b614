package invariants_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/invariants"
)

// For any page length and any trimmed part: a log is dense if and only if no entry between the trimmed position and the
// head is missing.
func TestLog_Dense_IfAndOnlyIfNothingIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		log     []dbaas.Entry
		trimmed dbaas.Seq
		head    dbaas.Head
		dense   string // "" for dense, else what must be said
		epochs  string
	}{
		"Empty":           {},
		"Whole":           {log: entries(1, 1, 1, 2, 4), head: dbaas.Head{Seq: 4, Epoch: 4}},
		"Trimmed":         {log: entries(8, 1, 1, 2), trimmed: 7, head: dbaas.Head{Seq: 10, Epoch: 2}},
		"AllTrimmed":      {trimmed: 5, head: dbaas.Head{Seq: 5, Epoch: 1}},
		"NewerEpoch":      {log: entries(1, 1), head: dbaas.Head{Seq: 1, Epoch: 9}},
		"NewSinceTheHead": {log: entries(1, 1, 1, 2), head: dbaas.Head{Seq: 2, Epoch: 1}},
		"FirstMissing":    {log: entries(2, 1, 1), head: dbaas.Head{Seq: 3, Epoch: 1}, dense: "entry 1 is missing"},
		"MiddleMissing": {
			log: slices.Concat(entries(1, 1, 1), entries(5, 1, 1)), head: dbaas.Head{Seq: 6, Epoch: 1}, dense: "entries 3 to 4 are missing",
		},
		"LastMissing":  {log: entries(1, 1), head: dbaas.Head{Seq: 3, Epoch: 1}, dense: "entries 2 to 3 are missing"},
		"AllMissing":   {head: dbaas.Head{Seq: 3, Epoch: 1}, dense: "entries 1 to 3 are missing"},
		"AfterTrimmed": {log: entries(9, 1), trimmed: 7, head: dbaas.Head{Seq: 9, Epoch: 1}, dense: "entry 8 is missing"},
		"EpochFalls":   {log: entries(1, 1, 3, 2, 3), head: dbaas.Head{Seq: 4, Epoch: 3}, epochs: "entry 3 has epoch 2, after epoch 3"},
		"EpochUnknown": {log: entries(1, 1, 4), head: dbaas.Head{Seq: 2, Epoch: 3}, epochs: "never given out"},
	} {
		t.Run(name, func(t *testing.T) {
			for pageLen := 1; pageLen < 5; pageLen++ {
				s := &system{log: tc.log, trimmed: tc.trimmed, head: tc.head, pageLen: pageLen}
				wantLog(t, invariants.Log(t.Context(), s), tc.dense, tc.epochs)
			}
		})
	}
}

// wantLog checks the two invariants of the log against the expected messages; "" means that the invariant holds.
func wantLog(t *testing.T, got []invariants.Invariant, dense, epochs string) {
	t.Helper()
	want := map[string]string{invariants.LogDense: dense, invariants.LogIntact: "", invariants.EpochsOrdered: epochs}
	if strings.Contains(dense, "cannot be reached") {
		want[invariants.LogIntact] = dense
	}
	for _, i := range got {
		words := want[i.Name]
		if i.OK != (words == "") || !strings.Contains(i.Detail, words) {
			t.Errorf("got %+v, want %q", i, words)
		}
		delete(want, i.Name)
	}
	if len(want) > 0 {
		t.Errorf("not reported: %v", want)
	}
}

// A damaged entry is named, wherever it is, and is no hole.
func TestLog_DamagedEntry_IsNamed(t *testing.T) {
	for damaged := dbaas.Seq(3); damaged <= 6; damaged++ {
		for pageLen := 1; pageLen < 5; pageLen++ {
			s := &system{log: entries(3, 1, 1, 2, 2), trimmed: 2, head: dbaas.Head{Seq: 6, Epoch: 2}, pageLen: pageLen, damaged: damaged}
			for _, i := range invariants.Log(t.Context(), s) {
				if intact := i.Name != invariants.LogIntact; i.OK != intact || !intact && !strings.Contains(i.Detail, fmt.Sprintf("entry %d is damaged: bytes", damaged)) {
					t.Errorf("entry %d damaged, pages of %d: got %+v", damaged, pageLen, i)
				}
			}
		}
	}
}

// Trimming during the walk is not a hole, and a hole that reads as trimmed is still a hole.
func TestLog_TrimmedMeanwhile_IsNoHole(t *testing.T) {
	log := entries(1, 1, 1, 1, 1, 1, 1, 1, 1)
	s := &system{log: log, head: dbaas.Head{Seq: 8, Epoch: 1}, pageLen: 2}
	s.onLog = func(after dbaas.Seq) {
		if after == 4 {
			s.log, s.trimmed, s.onLog = log[6:], 6, nil
		}
	}
	wantLog(t, invariants.Log(t.Context(), s), "", "")

	s = &system{log: log, head: dbaas.Head{Seq: 8, Epoch: 1}, pageLen: 2}
	s.onLog = func(after dbaas.Seq) {
		if s.trimmed = 0; after > 0 && after < 6 { // only from the middle
			s.trimmed = 6
		}
	}
	wantLog(t, invariants.Log(t.Context(), s), "entries 3 to 6 are missing", "")
}

// The check asks for each page once, and for the start of a trimmed log once more, however long the log is.
func TestLog_Trimmed_IsNotSearched(t *testing.T) {
	for trimmed, want := range map[dbaas.Seq]int{0: 1, 1: 2, 1 << 40: 2} {
		asked := 0
		s := &system{log: entries(trimmed+1, 1, 1, 1), trimmed: trimmed, head: dbaas.Head{Seq: trimmed + 3, Epoch: 1}, pageLen: 3}
		s.onLog = func(dbaas.Seq) { asked++ }
		got := invariants.Log(t.Context(), s)
		wantLog(t, got, "", "")
		if seen := fmt.Sprintf("entries %d to %d", trimmed+1, trimmed+3); got[0].Detail != seen || asked != want {
			t.Errorf("got %q after %d pages, want %q after %d", got[0].Detail, asked, seen, want)
		}
	}
}

// An entry that the log says it keeps, and does not return, is missing.
func TestLog_RefusedAfterItsFirst_IsMissing(t *testing.T) {
	s := &system{log: entries(1, 1, 1, 1), head: dbaas.Head{Seq: 3, Epoch: 1}, pageLen: 1}
	s.onLog = func(after dbaas.Seq) {
		if after == 2 { // persdb has gone back.
			s.head.Seq = 1
		}
	}
	wantLog(t, invariants.Log(t.Context(), s), "entry 3 is missing", "")
}

// A log that cannot be read is not called dense, and the cause stays inside.
func TestLog_NotRead_DoesNotHold(t *testing.T) {
	s := &system{logErr: dbaas.WrapError(dbaas.CodeUnavailable, "persdb cannot be reached", errors.New("secret"))}
	got := invariants.Log(t.Context(), s)
	wantLog(t, got, "persdb cannot be reached", "persdb cannot be reached")
	if strings.Contains(got[0].Detail, "secret") {
		t.Errorf("got %q, want no cause in it", got[0].Detail)
	}
}
