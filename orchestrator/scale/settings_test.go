package scale_test

import (
	"testing"
	"testing/synctest"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/orchestrator/scale"
)

// A change counts for every orchestrator at its next decision, and after a restart. The wanted number of slaves is within
// the new limits at once.
func TestApply_EveryOrchestratorFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		a := start(t, configOf(c, "a"))
		defer closeScaler(t, a)
		read(a, 100)
		pass(period)
		if got := c.set(); len(got) != 1 || got[0] != 5 {
			t.Fatalf("set %v, want 5", got)
		}
		now, would, err := a.Apply(t.Context(), scale.Change{Max: new(3)}, false)
		if err != nil || now.Version != 1 || now.Max != 3 || now.Min != 1 || now.ReadsPerSlave != 20 {
			t.Fatalf("got %+v, %v", now, err)
		}
		if len(would) != 1 || would[0].Was != 5 || would[0].Wanted != 3 || would[0].Count != 100 {
			t.Errorf("got %+v, want 3 instead of 5", would)
		}
		if got := c.set(); len(got) != 2 || got[1] != 3 {
			t.Errorf("set %v, want 3 at once", got)
		}
		b := start(t, configOf(c, "b"))
		defer closeScaler(t, b)
		pass(period / 4) // not in the window of a
		read(b, 200)
		pass(period)
		all := b.Decisions(t.Context())
		if last := all[len(all)-1]; last.Wanted > 3 {
			t.Errorf("got %+v, want at most 3 slaves", last)
		}
		if _, _, err = b.Apply(t.Context(), scale.Change{Policy: new("latency"), Version: new(coord.Version(1))}, false); err != nil {
			t.Fatal(err)
		}
		read(b, 1)
		pass(period)
		all = b.Decisions(t.Context())
		if last := all[len(all)-1]; last.Policy != "latency" || last.Would[0].Policy != "reads" {
			t.Errorf("got %+v, want policy latency", last)
		}
	})
}

// A dry run changes nothing. What is wrong, or based on settings that have passed, is refused and changes nothing.
func TestApply_DryOrRefused_ChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		s := start(t, configOf(c, "a"))
		defer closeScaler(t, s)
		if now, _, err := s.Apply(t.Context(), scale.Change{Max: new(2)}, true); err != nil || now.Max != 2 || now.Version != 0 {
			t.Errorf("got %+v, %v", now, err)
		}
		for _, change := range []scale.Change{
			{Policy: new("dice")},
			{Min: new(0)},
			{Min: new(9)},
			{Max: new(scale.MostSlaves + 1)},
			{ReadsPerSlave: new(0)},
		} {
			if _, _, err := s.Apply(t.Context(), change, false); dbaas.CodeOf(err) != dbaas.CodeInvalid {
				t.Errorf("%+v: got %v, want it refused", change, err)
			}
		}
		if _, _, err := s.Apply(t.Context(), scale.Change{Version: new(coord.Version(1))}, false); dbaas.CodeOf(err) != dbaas.CodeConflict {
			t.Errorf("another version: got %v, want a conflict", err)
		}
		if now, err := s.Current(t.Context()); err != nil || now.Settings != settings || now.Version != 0 || now.Period != period.Seconds() {
			t.Errorf("got %+v, %v, want nothing changed", now, err)
		}
		c.failCall("write", false)
		if _, _, err := s.Apply(t.Context(), scale.Change{Max: new(2)}, false); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("without the coordinator: got %v", err)
		}
		c.failCall("read", false)
		if _, err := s.Current(t.Context()); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("without the coordinator: got %v", err)
		}
	})
}
