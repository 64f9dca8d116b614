package scale_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rideshare/orchestrator/scale"
)

var (
	limits = scale.Limits{Min: 1, Max: 8}
	reads  = scale.Reads{PerSlave: 20, Limits: limits}
	// settings are those of reads.
	settings = scale.Settings{Policy: "reads", Min: 1, Max: 8, ReadsPerSlave: 20}
)

// The boundaries: one more slave only for the read after an exact multiple of PerSlave.
func TestReads_Propose_Boundaries(t *testing.T) {
	wide := scale.Reads{PerSlave: 20, Limits: scale.Limits{Min: 1, Max: 100}}
	for count, want := range map[int]int{0: 1, 1: 1, 20: 1, 21: 2, 40: 2, 41: 3, 160: 8, 161: 9, 1000: 50, 10_000: 100} {
		if got := wide.Propose(scale.Sample{Reads: count}, nil).Wanted; got != want {
			t.Errorf("%d reads: got %d slaves, want %d", count, got, want)
		}
		if got := reads.Propose(scale.Sample{Reads: count}, nil).Wanted; got != min(want, 8) {
			t.Errorf("%d reads, at most 8: got %d slaves, want %d", count, got, min(want, 8))
		}
	}
}

// More reads never need fewer slaves, and the bounds hold for any count.
func FuzzReads_Propose(f *testing.F) {
	f.Add(0)
	f.Add(math.MaxInt - 1)
	f.Fuzz(func(t *testing.T, count int) {
		if count < 0 || count == math.MaxInt {
			return
		}
		got, more := reads.Propose(scale.Sample{Reads: count}, nil).Wanted, reads.Propose(scale.Sample{Reads: count + 1}, nil).Wanted
		if got < reads.Min || got > reads.Max || more < got {
			t.Fatalf("%d reads: got %d, one more: %d", count, got, more)
		}
	})
}

// sampleOf returns the sample of a window in which the given number of slaves was wanted and served.
func sampleOf(slaves int, busy, inFlight float64, queueAge scale.Milliseconds) scale.Sample {
	return scale.Sample{Reads: 1000, Desired: slaves, Slaves: slaves, Busy: busy, InFlight: inFlight, QueueAge: queueAge}
}

// Each situation has one right number of slaves, and a reason that names its kind.
func TestLatency_Propose_Situations(t *testing.T) {
	idle, full := sampleOf(4, 0.1, 1, 0), sampleOf(4, 0.6, 40, 1)
	missing, lagging, starting := idle, idle, idle
	missing.Missing, lagging.Lag, starting.Desired = []string{"worker 7"}, 5000, 6
	tests := map[string]struct {
		now    scale.Sample
		before []scale.Sample
		want   int
		why    string
	}{
		"OnTarget_Holds":                  {now: full, want: 4, why: "hold"},
		"WithinTolerance_Holds":           {now: sampleOf(4, 0.65, 1, 0), want: 4, why: "hold"},
		"TooBusy_Out":                     {now: sampleOf(4, 0.9, 1, 0), want: 6, why: "out"},
		"ManyInFlight_Out":                {now: sampleOf(2, 0.1, 100, 0), want: 4, why: "out"},
		"LongQueue_OneMore":               {now: sampleOf(4, 0.3, 1, 20), want: 5, why: "out"},
		"Overload_AtMostDoubleOrFourMore": {now: sampleOf(2, 1, 1000, 900), want: 6, why: "out"},
		"OverTheLimit_Maximum":            {now: sampleOf(8, 1, 1000, 900), want: 8, why: "out"},
		"Idle_OneLeaves":                  {now: idle, before: []scale.Sample{idle, idle}, want: 3, why: "in"},
		"IdleSinceOneWindow_Holds":        {now: idle, before: []scale.Sample{full, idle}, want: 4, why: "hold"},
		"IdleSinceTwoWindows_OneLeaves":   {now: idle, before: []scale.Sample{full, idle, idle}, want: 3, why: "in"},
		"MetricsMissing_Holds":            {now: missing, before: []scale.Sample{idle, idle}, want: 4, why: "metrics are missing"},
		"MissingBefore_Holds":             {now: idle, before: []scale.Sample{idle, missing}, want: 4, why: "earlier"},
		"ReplicasLag_Holds":               {now: lagging, before: []scale.Sample{idle, idle}, want: 4, why: "lag"},
		"SlavesStarting_HoldsTheWanted":   {now: starting, before: []scale.Sample{idle, idle}, want: 6, why: "4 of 6"},
		"FewerWereTooFew_Holds":           {now: idle, before: []scale.Sample{sampleOf(3, 0.5, 1, 50), idle, idle}, want: 4, why: "too few"},
		"OneSlaveIdle_Stays":              {now: sampleOf(1, 0, 0, 0), before: []scale.Sample{idle, idle}, want: 1, why: "hold"},
	}
	policy := scale.NewLatency(limits)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := policy.Propose(tt.now, tt.before)
			if got.Wanted != tt.want || !strings.Contains(got.Why, tt.why) {
				t.Errorf("got %+v, want %d slaves because of %q", got, tt.want, tt.why)
			}
		})
	}
}

// plant is a model of n slaves under a load. The slaves share the busy time, and
// waiting time grows steeply as they fill up.
type plant struct {
	work     float64 // slaves' worth of busy time
	inFlight float64
	slowFrom float64 // the load of a slave from which reads wait too long
}

func (p plant) sample(n int) scale.Sample {
	each := p.work / float64(n)
	s := sampleOf(n, min(each, 1), p.inFlight, 1)
	if each > p.slowFrom {
		s.QueueAge = 100
	}
	return s
}

// Whatever the samples, the policy stays within its limits, and moves in by one at most.
func TestLatency_Propose_AnySample_WithinLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := scale.Limits{Min: rapid.IntRange(1, 5).Draw(t, "min")}
		l.Max = rapid.IntRange(l.Min, 20).Draw(t, "max")
		sample := rapid.Custom(func(t *rapid.T) scale.Sample {
			s := scale.Sample{
				Reads: rapid.IntRange(0, 1e6).Draw(t, "reads"), Desired: rapid.IntRange(0, 25).Draw(t, "desired"),
				Slaves: rapid.IntRange(0, 25).Draw(t, "slaves"), QueueAge: scale.Milliseconds(rapid.Float64Range(0, 1e4).Draw(t, "age")),
				InFlight: rapid.Float64Range(0, 1e300).Draw(t, "in flight"), Busy: rapid.Float64Range(0, 1e300).Draw(t, "busy"),
				Lag: rapid.Uint64Range(0, 3000).Draw(t, "lag"),
			}
			if rapid.IntRange(0, 9).Draw(t, "gap") == 0 {
				s.Missing = []string{"something"}
			}
			return s
		})
		now, before := sample.Draw(t, "now"), rapid.SliceOfN(sample, 0, 6).Draw(t, "before")
		got := scale.NewLatency(l).Propose(now, before)
		if got.Wanted < l.Min || got.Wanted > l.Max || got.Why == "" {
			t.Fatalf("got %+v, want between %d and %d", got, l.Min, l.Max)
		}
		if lowest := min(now.Slaves, now.Desired) - 1; got.Wanted < min(lowest, l.Max) {
			t.Fatalf("got %+v from %d slaves, want one less at most", got, now.Slaves)
		}
	})
}

// Under a constant load the number of slaves settles and does not change again. It is enough and, if busy time
// alone decides, no more than needed.
func TestLatency_Propose_ConstantLoad_SettlesForGood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plant{
			work:     rapid.Float64Range(0, 12).Draw(t, "work"),
			inFlight: rapid.Float64Range(0, 300).Draw(t, "in flight"),
			slowFrom: rapid.Float64Range(0.3, 1.5).Draw(t, "slow from"),
		}
		policy := scale.NewLatency(scale.Limits{Min: 1, Max: 20})
		n := rapid.IntRange(1, 20).Draw(t, "slaves at first")
		var before []scale.Sample
		var steps []int
		for range 200 {
			s := p.sample(n)
			n = policy.Propose(s, before).Wanted
			before, steps = append(before, s), append(steps, n)
		}
		for _, later := range steps[100:] {
			if later != n {
				t.Fatalf("never settles: %v", steps)
			}
		}
		if n < 20 && (p.sample(n).QueueAge > 5 || p.work/float64(n) > 0.67 || p.inFlight/float64(n) > 36) {
			t.Fatalf("settles at %d slaves, too few for %+v: %v", n, p, steps)
		}
		if turns := turnsOf(steps); turns > 2 {
			t.Fatalf("turns %d times: %v", turns, steps)
		}
	})
}

// turnsOf counts how often the direction changes.
func turnsOf(steps []int) int {
	turns, direction := 0, 0
	for i := 1; i < len(steps); i++ {
		if d := steps[i] - steps[i-1]; d != 0 {
			if direction != 0 && (d > 0) != (direction > 0) {
				turns++
			}
			direction = d
		}
	}
	return turns
}
