package control

import (
	"maps"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
)

// shown returns a worker after ticks, one for each letter: a for an answer, s for an answer in which the commit has done
// no further step, b for an answered write, and a point for nothing.
func shown(ticks string) *vital {
	v, steps := &vital{}, uint64(0)
	for _, tick := range ticks {
		switch tick {
		case 'a':
			steps++
			v.pulse = &workerapi.Pulse{Working: map[string]uint64{"committing": steps}}
		case 's':
			v.pulse = &workerapi.Pulse{Working: map[string]uint64{"committing": steps}}
		}
		v.tick(tick == 'b')
	}
	return v
}

// A worker counts as hung after six ticks without a sign of life, if another worker was attentive in the same time.
func TestHungOf(t *testing.T) {
	type vitals map[dbaas.WorkerID]string
	type hangs map[dbaas.WorkerID]hang
	silent, stuck := hang{reason: reasonSilent}, hang{reason: reasonStuck + "committing"}
	certain := hang{stuck.reason, true}
	long := "a" + strings.Repeat("s", certainTicks)
	for name, c := range map[string]struct {
		ticks vitals
		want  hangs
	}{
		"AllWell":           {vitals{"m": "aaaaaaa", "s": "aaaaaaa"}, nil},
		"Silent":            {vitals{"m": "a......", "s": "aaaaaaa"}, hangs{"m": silent}},
		"NotYet":            {vitals{"m": "aa.....", "s": "aaaaaaa"}, nil},
		"Again":             {vitals{"m": ".....a.", "s": "aaaaaaa"}, nil},
		"JustKnown":         {vitals{"m": ".....", "s": "aaaaaaa"}, nil},
		"Stuck":             {vitals{"m": "assssss", "s": "aaaaaaa"}, hangs{"m": stuck}},
		"StuckNotYet":       {vitals{"m": "asssss", "s": "aaaaaaa"}, nil},
		"StuckThenSilent":   {vitals{"m": "asss...", "s": "aaaaaaa"}, nil},
		"StuckButAnswering": {vitals{"m": "asssssb", "s": "aaaaaaa"}, nil},
		"SilentButWriting":  {vitals{"m": "a..b...", "s": "aaaaaaa"}, nil},
		"NobodyAnswers":     {vitals{"m": "a......", "s": "a......"}, nil},
		"OthersBackFirst":   {vitals{"m": "a......", "s": "a.....a"}, nil},
		"OthersHardlyThere": {vitals{"m": "a......", "s": "aaa.a.a"}, nil},
		"OthersMostlyThere": {vitals{"m": "a......", "s": "aaa.aaa"}, hangs{"m": silent}},
		"HalfOfThem": {
			vitals{"m": "a......", "s": "a......", "t": "aaaaaaa", "u": "aaaaaaa"},
			hangs{"m": silent, "s": silent},
		},
		"MostOfThem":     {vitals{"m": "a......", "s": "a......", "t": "aaaaaaa"}, nil},
		"Alone":          {vitals{"m": "a......"}, nil},
		"AloneStuck":     {vitals{"m": long[1:]}, nil},
		"AloneStuckLong": {vitals{"m": long}, hangs{"m": certain}},
		"AllStuckLong":   {vitals{"m": long, "s": long, "t": long}, hangs{"m": certain, "s": certain, "t": certain}},
		"LongThenSilent": {vitals{"m": long + ".."}, nil},
		"LongBesideMost": {vitals{"m": long, "s": "a......", "t": "aaaaaaa"}, hangs{"m": certain}},
	} {
		all := map[dbaas.WorkerID]*vital{}
		for id, ticks := range c.ticks {
			all[id] = shown(ticks)
		}
		if got := hungOf(all); !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// A hang that was found before the orchestrator itself stood still is no reason to kill a worker after that.
func TestLoop_HungAs_Lapses(t *testing.T) {
	l, found := New(Config{}), time.Now()
	l.hung, l.hungAt = map[dbaas.WorkerID]hang{"m": {reason: reasonSilent}}, found
	if got := l.hungAs("m", found.Add(DefaultHungAfter/2-1)); got.reason != reasonSilent {
		t.Errorf("three ticks later: got %v, want %q", got, reasonSilent)
	}
	if got := l.hungAs("m", found.Add(DefaultHungAfter/2)); got.reason != "" {
		t.Errorf("after that: got %v, want none", got)
	}
}
