package control_test

import (
	"errors"
	"testing"

	"rideshare/internal/coord"
	"rideshare/orchestrator/control"
)

// A value that the coordinator has lost with all its data is there again as this orchestrator has last seen it. A value that was
// never set stays missing.
func TestLoop_CoordinatorDataLost_ValuesAreWrittenAgain(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		if err := l.SetValue(t.Context(), "limits", []byte("a"), 0); err != nil {
			t.Fatal(err)
		}
		_, version, err := l.Value(t.Context(), "limits")
		if err == nil {
			err = l.SetValue(t.Context(), "limits", []byte("b"), version)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.coord.Wipe()
		s.reconcile()
		got, version, err := l.Value(t.Context(), "limits")
		if err != nil || string(got) != "b" {
			t.Errorf("got %q, %v, want b", got, err)
		}
		if err = l.SetValue(t.Context(), "limits", []byte("c"), version); err != nil {
			t.Errorf("a change after that: got %v", err)
		}
		if got, _, err = l.Value(t.Context(), "never"); !errors.Is(err, coord.ErrNone) {
			t.Errorf("a value that was never set: got %q, %v, want ErrNone", got, err)
		}
	})
}
