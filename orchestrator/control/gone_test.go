package control_test

import (
	"testing"
	"time"

	"rideshare/orchestrator/control"
)

// A dead worker is gone once the engine has been asked after the time at which it was known to be alive. A worker that
// runs is not gone, nor is one whose death cannot be known yet.
func TestLoop_Gone_DeadOnly(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		slave, lived := s.running()[1].ID, time.Now()
		pass(5 * time.Second)
		if l.Gone(slave, lived) {
			t.Error("a running slave is gone")
		}
		if err := s.launcher.Kill(s.t.Context(), slave); err != nil {
			t.Fatal(err)
		}
		s.reconcile()
		if !l.Gone(slave, lived) {
			t.Error("a killed slave is not gone")
		}
		if l.Gone(slave, time.Now()) {
			t.Error("a worker that lives since the last look is gone")
		}
	})
}
