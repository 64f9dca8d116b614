package scale_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jonboulle/clockwork"

	"rideshare/internal/coord"
	"rideshare/orchestrator/scale"
)

// The boundaries, tested with the timer, one window each, on the clock that gocron is given.
func TestScaler_Boundaries_EachWindowByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, c := clockwork.NewFakeClock(), &cluster{}
		cfg := configOf(c, "a")
		cfg.Clock = clock
		s := start(t, cfg)
		defer closeScaler(t, s)
		s.Requested()
		synctest.Wait() // until gocron waits for the tick
		for _, n := range []int{0, 1, 20, 21, 40, 41, 1000, 0} {
			read(s, n)
			clock.Advance(period)
			synctest.Wait() // until the decision is done, and gocron waits for the next tick
		}
		want(t, s, c, []outcome{
			{0, 1, true},
			{1, 1, true},
			{20, 1, true},
			{21, 2, true},
			{40, 2, true},
			{41, 3, true},
			{1000, 8, true},
			{0, 1, true},
		}, []int{1, 1, 1, 2, 2, 3, 8, 1})
	})
}

// The window begins with the first request to the database, however long the system idled.
func TestScaler_FirstRequestStartsTheTimer(t *testing.T) {
	play(t, func(x *scene) {
		pass(time.Hour)
		x.want(nil, nil)
		x.scaler.Requested()
		pass(period - time.Millisecond)
		x.want(nil, nil)
		pass(time.Millisecond)
		x.want([]outcome{{0, 1, true}}, []int{1})
	})
}

// A burst of reads just after a tick, while that tick's decision is still being made and
// written, counts completely in the next window.
func TestScaler_BurstAfterTheTick_OneWindow(t *testing.T) {
	play(t, func(x *scene) {
		read(x.scaler, 41)
		x.cluster.failAs(func(call string) (bool, error) {
			if call == "slaves" && len(x.cluster.slaves) == 0 {
				read(x.scaler, 100)
			}
			return false, nil
		})
		pass(period)
		pass(period)
		x.want([]outcome{{41, 3, true}, {100, 5, true}}, []int{3, 5})
	})
}

var errAway = errors.New("away")

// A coordinator that fails for a while delays a decision but does not lose it, whichever
// call fails and whether or not that call was done. The decision is made only once.
func TestScaler_CoordinatorFails_DecisionIsCarriedOutLater(t *testing.T) {
	for _, call := range []string{"read", "write", "slaves"} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/done=%t", call, lost), func(t *testing.T) {
				play(t, func(x *scene) {
					read(x.scaler, 21)
					x.cluster.failCall(call, lost)
					pass(period)
					pass(time.Minute)
					x.cluster.failAs(nil)
					pass(10 * time.Second)
					got := outcomes(x.T, x.scaler)
					if diff := cmp.Diff([]outcome{{21, 2, true}}, got); diff != "" {
						x.Errorf("decisions (-want +got):\n%s", diff)
					}
					if set := x.cluster.set(); len(set) == 0 || set[len(set)-1] != 2 {
						x.Errorf("slave counts written: got %v, want 2 last", set)
					}
				})
			})
		}
	}
}

// If the coordinator is away for several windows, the newest decision is carried out, and the
// others are kept as overtaken.
func TestScaler_CoordinatorAwayForWindows_NewestCounts(t *testing.T) {
	play(t, func(x *scene) {
		x.cluster.failAs(func(string) (bool, error) { return false, errAway })
		read(x.scaler, 100)
		pass(period)
		read(x.scaler, 50)
		pass(period)
		read(x.scaler, 30)
		pass(period)
		x.want([]outcome{{100, 5, false}, {50, 3, false}}, nil)
		x.cluster.failAs(nil)
		pass(10 * time.Second)
		x.want([]outcome{{100, 5, false}, {50, 3, false}, {30, 2, true}}, []int{2})
	})
}

// Each decision is kept with its sample and with the proposals of the other policies.
func TestScaler_Decision_HasSampleAndOtherPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{wanted: 2}
		cfg := configOf(c, "a")
		cfg.Observe = func(context.Context) scale.Sample { return sampleOf(2, 0.9, 3, 1) }
		var reported []scale.Decision
		cfg.Decided = func(d scale.Decision) { reported = append(reported, d) }
		s := start(t, cfg)
		defer closeScaler(t, s)
		read(s, 5)
		pass(period)
		got := s.Decisions(t.Context())
		if len(got) != 1 || got[0].Sample.Busy != 0.9 || got[0].Sample.Reads != 5 || got[0].By != "a" || got[0].Policy != "reads" {
			t.Fatalf("got %+v, want one decision with its sample", got)
		}
		if w := got[0].Would; len(w) != 1 || w[0].Policy != "latency" || w[0].Wanted != 3 {
			t.Errorf("what others would have done: got %+v, want latency with 3 slaves", w)
		}
		if diff := cmp.Diff(got, reported); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
	})
}

// The ledger is bounded: the oldest decisions are dropped.
func TestScaler_ManyWindows_LedgerIsBounded(t *testing.T) {
	play(t, func(x *scene) {
		x.scaler.Requested()
		for i := range 250 {
			read(x.scaler, i)
			pass(period)
		}
		got := outcomes(x.T, x.scaler)
		if len(got) != 240 || got[0].Count != 10 || got[239].Count != 249 {
			x.Errorf("got %d decisions from %+v, want the last 240", len(got), got[0])
		}
		if !json.Valid(x.cluster.values["scaling"].data) || len(x.cluster.values["scaling"].data) > coord.MaxValueBytes/2 {
			x.Errorf("the ledger has %d bytes", len(x.cluster.values["scaling"].data))
		}
	})
}

// A decision whose first attempt was lost half way keeps the reads that other orchestrators handed over.
func TestScaler_TryLostAfterWriting_KeepsHandedOverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		a, b := start(t, configOf(c, "a")), start(t, configOf(c, "b"))
		defer closeScaler(t, a)
		defer closeScaler(t, b)
		a.Requested()
		pass(time.Minute / 2)
		read(b, 30)
		pass(period)
		read(a, 11)
		lost := false
		c.failAs(func(call string) (bool, error) {
			if call != "write" || lost {
				return false, nil
			}
			lost = true
			return true, errAway
		})
		pass(91 * time.Second)
		want(t, a, c, []outcome{{0, 1, true}, {41, 3, true}}, []int{1, 3})
	})
}
