package scale_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/orchestrator/scale"
)

// Decisions survive the orchestrator, and another orchestrator returns the same ones. A decision that was made
// but not carried out before the orchestrator died is carried out by the next one.
func TestScaler_Restart_DecisionsStayAndAreFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		s := start(t, configOf(c, "a"))
		read(s, 21)
		pass(period)
		read(s, 41)
		c.failCall("slaves", false)
		pass(period)
		closeScaler(t, s)
		if set := c.set(); len(set) != 1 || set[0] != 2 {
			t.Errorf("slave counts written before the death: got %v, want 2", set)
		}
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
		c.failCall("slaves", false)
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

// A scaler that starts before the coordinator is reached warns of nothing: it has no decision to write. A decision that
// cannot be written is a warning.
func TestScaler_CoordinatorNotThereYet_WarnsOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		c.failAs(func(string) (bool, error) { return false, errAway })
		var log lines
		cfg := configOf(c, "a")
		cfg.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		s := start(t, cfg)
		read(s, 1)
		pass(period - time.Second)
		if got := log.String(); got != "" {
			t.Errorf("got warnings at the start:\n%s", got)
		}
		pass(2 * time.Second)
		closeScaler(t, s)
		if !strings.Contains(log.String(), "scaling decision not written") {
			t.Errorf("got log %q, want a warning that the decision is not written", log.String())
		}
	})
}

// Of two orchestrators one decides, for the reads of both. When it dies, the other decides.
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

// Of three orchestrators one decides, for the reads of all, whatever the distances between their ticks are.
func TestScaler_ThreeOrchestrators_OneDecisionForTheReadsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		starts := map[string]time.Duration{"a": 0, "b": 110 * time.Second, "c": 20 * time.Second}
		all := map[string]*scale.Scaler{}
		for name := range starts {
			all[name] = start(t, configOf(c, name))
			defer closeScaler(t, all[name])
		}
		for at := time.Duration(0); at < 6*period; at += 10 * time.Second {
			for name, s := range all {
				if at >= starts[name] {
					read(s, 1)
				}
			}
			pass(10 * time.Second)
		}
		got := all["a"].Decisions(t.Context())
		if len(got) != 6 {
			t.Fatalf("got %d decisions in 6 periods, want 6", len(got))
		}
		for _, d := range got[1:] {
			if d.By != "a" || d.Count != 36 {
				t.Errorf("got a decision of %s about %d reads, want a's about 36", d.By, d.Count)
			}
		}
	})
}

// The policy latency may keep the wanted number. As long as that number is not known, the decision waits.
func TestScaler_WantedNumberUnknown_LatencyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		cfg := configOf(c, "a")
		cfg.Settings.Policy = "latency"
		cfg.Observe = func(context.Context) scale.Sample { return scale.Sample{Slaves: 2, Missing: []string{"worker 7"}} }
		s := start(t, cfg)
		defer closeScaler(t, s)
		read(s, 5)
		pass(period + time.Minute)
		want(t, s, c, nil, nil)
		c.want(6)
		pass(10 * time.Second)
		want(t, s, c, []outcome{{5, 6, true}}, []int{6})
	})
}

// The policy reads decides without the wanted number. The decision says that the number was missing.
func TestScaler_WantedNumberUnknown_ReadsDecides(t *testing.T) {
	play(t, func(x *scene) {
		read(x.scaler, 21)
		pass(period)
		x.want([]outcome{{21, 2, true}}, []int{2})
		if got := x.scaler.Decisions(x.Context())[0].Sample.Missing; !slices.Contains(got, "wanted number") {
			x.Errorf("got %q missing, want the wanted number", got)
		}
	})
}

// pausing is the cluster as an orchestrator sees it that is paused before its first change of the number of slaves, which
// then fails.
type pausing struct {
	*cluster
	resumed chan struct{} // closed when the pause ends
	paused  bool
}

func (p *pausing) SetSlaves(ctx context.Context, n int) error {
	if p.paused {
		return p.cluster.SetSlaves(ctx, n)
	}
	p.paused = true
	<-p.resumed
	return errAway
}

// An orchestrator that was paused between writing its decision and carrying it out does not overwrite the newer decision
// of another one.
func TestScaler_PausedBeforeCarryingOut_NewerDecisionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		p := &pausing{cluster: c, resumed: make(chan struct{})}
		cfg := configOf(c, "a")
		cfg.Cluster = p
		a, b := start(t, cfg), start(t, configOf(c, "b"))
		defer closeScaler(t, a)
		defer closeScaler(t, b)
		read(a, 41)
		pass(period * 19 / 20)
		read(b, 21)
		pass(2 * period) // a ticks and is paused; b ticks within a's window, and after it
		decided := []outcome{{41, 3, false}, {21, 2, true}}
		want(t, b, c, decided, []int{2})
		close(p.resumed)
		pass(5 * time.Second)
		want(t, b, c, decided, []int{2})
	})
}
