package scale_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jonboulle/clockwork"

	"rideshare/internal/coord"
	"rideshare/internal/testenv"
	"rideshare/orchestrator/scale"
)

const period = 2 * time.Minute

// cluster fakes the control loop and the coordinator behind it. Calls fail as fault says.
type cluster struct {
	mu     sync.Mutex
	slaves []int // as they were set
	value  []byte
	// version is the value's.
	version coord.Version
	// fault, if set, is asked before each call: its error is the call's. After lost the call is
	// done and its answer lost.
	fault func(call string) (lost bool, err error)
}

func (c *cluster) meet(ctx context.Context, call string, do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault != nil {
		if lost, err := c.fault(call); err != nil {
			if lost {
				_ = do()
			}
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return do()
}

func (c *cluster) SetSlaves(ctx context.Context, n int) error {
	return c.meet(ctx, "slaves", func() error {
		c.slaves = append(c.slaves, n)
		return nil
	})
}

func (c *cluster) Value(ctx context.Context, _ string) (data []byte, version coord.Version, err error) {
	err = c.meet(ctx, "read", func() error {
		if c.version == 0 {
			return coord.ErrNone
		}
		data, version = slices.Clone(c.value), c.version
		return nil
	})
	return data, version, err
}

func (c *cluster) SetValue(ctx context.Context, _ string, value []byte, old coord.Version) error {
	return c.meet(ctx, "write", func() error {
		if old != c.version {
			return coord.ErrVersion
		}
		c.value, c.version = slices.Clone(value), old+1
		return nil
	})
}

func (c *cluster) failAs(fault func(call string) (lost bool, err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

func (c *cluster) set() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.slaves)
}

func configOf(c *cluster, name string) scale.Config {
	return scale.Config{Log: slog.New(slog.DiscardHandler), Cluster: c, Name: name, Policy: reads, Period: period}
}

func start(t *testing.T, cfg scale.Config) *scale.Scaler {
	t.Helper()
	s, err := scale.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeScaler(t *testing.T, s *scale.Scaler) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func read(s *scale.Scaler, n int) {
	for range n {
		s.Requested()
		s.Read()
	}
}

// scene is a test's bubble with one scaler on an empty coordinator.
type scene struct {
	*testing.T
	scaler  *scale.Scaler
	cluster *cluster
}

func play(t *testing.T, test func(x *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		s := start(t, configOf(c, "a"))
		defer closeScaler(t, s)
		test(&scene{T: t, scaler: s, cluster: c})
	})
}

func (x *scene) want(decisions []outcome, set []int) {
	x.Helper()
	want(x.T, x.scaler, x.cluster, decisions, set)
}

// pass lets time go by and everything under way come to rest.
func pass(d time.Duration) {
	time.Sleep(d) // the bubble's time
	synctest.Wait()
}

type outcome struct {
	Count, Wanted int
	Done          bool
}

func outcomes(t *testing.T, s *scale.Scaler) []outcome {
	t.Helper()
	var out []outcome
	for _, d := range s.Decisions(t.Context()) {
		out = append(out, outcome{d.Count, d.Wanted, d.Done})
		if d.Why == "" {
			t.Errorf("decision without a reason: %+v", d)
		}
	}
	return out
}

func want(t *testing.T, s *scale.Scaler, c *cluster, decisions []outcome, set []int) {
	t.Helper()
	if diff := cmp.Diff(decisions, outcomes(t, s)); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(set, c.set()); diff != "" {
		t.Errorf("slave counts written (-want +got):\n%s", diff)
	}
}

// The boundaries through the timer, a window each, with the clock that gocron is given.
func TestScaler_Boundaries_EachWindowByItself(t *testing.T) {
	clock, c := clockwork.NewFakeClock(), &cluster{}
	cfg := configOf(c, "a")
	cfg.Clock = clock
	s := start(t, cfg)
	defer closeScaler(t, s)
	counts := []int{0, 1, 20, 21, 40, 41, 1000, 0}
	s.Requested()
	for i, n := range counts {
		read(s, n)
		if err := clock.BlockUntilContext(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		clock.Advance(period)
		testenv.Eventually(t, 10*time.Second, func() error {
			if got := s.Decisions(t.Context()); len(got) != i+1 || !got[i].Done {
				return fmt.Errorf("got %+v, want %d decisions that are done", got, i+1)
			}
			return nil
		})
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

// A burst just after a tick, while that tick's decision is still being made and
// written, counts in the next window, whole.
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

// A coordinator that fails for a time delays a decision and does not lose it,
// whichever call fails, and whether or not the call was done; it is made once.
func TestScaler_CoordinatorFails_DecisionIsCarriedOutLater(t *testing.T) {
	for _, call := range []string{"read", "write", "slaves"} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/done=%t", call, lost), func(t *testing.T) {
				play(t, func(x *scene) {
					read(x.scaler, 21)
					x.cluster.failAs(func(got string) (bool, error) {
						if got == call {
							return lost, errAway
						}
						return false, nil
					})
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

// A coordinator that is away for whole windows: the newest decision is carried out, the
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

// Decisions outlive the orchestrator and are the same from another one, and one that was
// made and not carried out before the death is carried out after it.
func TestScaler_Restart_DecisionsStayAndAreFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		s := start(t, configOf(c, "a"))
		read(s, 21)
		pass(period)
		read(s, 41)
		c.failAs(func(call string) (bool, error) {
			if call == "slaves" {
				return false, errAway
			}
			return false, nil
		})
		pass(period)
		closeScaler(t, s)
		c.failAs(nil)

		again, other := start(t, configOf(c, "a")), start(t, configOf(c, "b"))
		defer closeScaler(t, again)
		defer closeScaler(t, other)
		pass(time.Second)
		for _, s := range []*scale.Scaler{again, other} {
			if diff := cmp.Diff([]outcome{{21, 2, true}, {41, 3, true}}, outcomes(t, s)); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
		}
		if set := c.set(); set[0] != 2 || set[len(set)-1] != 3 {
			t.Errorf("slave counts written: got %v, want 2, then 3", set)
		}
	})
}

// An old decision that was never carried out is not carried out by a later orchestrator.
func TestScaler_RestartAfterLong_OldDecisionIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		s := start(t, configOf(c, "a"))
		read(s, 41)
		c.failAs(func(call string) (bool, error) {
			if call == "slaves" {
				return false, errAway
			}
			return false, nil
		})
		pass(period)
		closeScaler(t, s)
		c.failAs(nil)
		pass(period)
		later := start(t, configOf(c, "a"))
		defer closeScaler(t, later)
		pass(time.Minute)
		want(t, later, c, []outcome{{41, 3, false}}, nil)
	})
}

// Of two orchestrators one decides, for the reads of both, and when it dies the other does.
func TestScaler_TwoOrchestrators_OneDecisionForTheReadsOfBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		a, b := start(t, configOf(c, "a")), start(t, configOf(c, "b"))
		defer closeScaler(t, b)
		a.Requested()
		pass(30 * time.Second)
		b.Requested()
		read(b, 30)
		read(a, 30)
		pass(90 * time.Second) // a ticks
		pass(30 * time.Second) // b ticks, in a's window
		read(a, 11)
		pass(90 * time.Second)
		want(t, a, c, []outcome{{30, 2, true}, {41, 3, true}}, []int{2, 3})
		closeScaler(t, a)
		pass(30 * time.Second)
		read(b, 21)
		pass(period)
		want(t, b, c, []outcome{{30, 2, true}, {41, 3, true}, {21, 2, true}}, []int{2, 3, 2})
	})
}

// What each decision was made of, and what the other policies would have done, is kept.
func TestScaler_Decision_HasSampleAndOtherPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		cfg := configOf(c, "a")
		cfg.Others = []scale.Policy{scale.NewLatency(limits)}
		cfg.Observe = func(context.Context) scale.Sample { return sampleOf(2, 0.9, 3, 1) }
		var told []scale.Decision
		cfg.Decided = func(d scale.Decision) { told = append(told, d) }
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
		if diff := cmp.Diff(got, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// The ledger is bounded: the oldest decisions go.
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
		if !json.Valid(x.cluster.value) || len(x.cluster.value) > coord.MaxValueBytes/2 {
			x.Errorf("the ledger has %d bytes", len(x.cluster.value))
		}
	})
}

// A decision whose first try was lost half way keeps the reads that others handed over.
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
