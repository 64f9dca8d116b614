package scale_test

import (
	"context"
	"log/slog"
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
		pass(period * 3 / 4)
		read(b, 21)
		pass(period) // a ticks and is paused; then b ticks
		decided := []outcome{{41, 3, false}, {21, 2, true}}
		want(t, b, c, decided, []int{2})
		close(p.resumed)
		pass(10 * time.Second)
		want(t, b, c, decided, []int{2})
	})
}
