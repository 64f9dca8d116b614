package control_test

import (
	"testing"
	"time"

	"rideshare/orchestrator/control"
)

// A worker that is dead is gone once the engine was asked after it had lived; one that runs, or of whose end nothing can
// be known yet, is not.
func TestLoop_Gone_DeadOnly(t *testing.T) {
	bubble(t, func(s *stand, l *control.Loop) {
		slave, lived := s.running()[1].ID, time.Now()
		pass(5 * time.Second)
		if l.Gone(slave, lived) {
			t.Error("a running slave is gone")
		}
		if err := s.launcher.Kill(s.t.Context(), slave); err != nil {
			t.Fatal(err)
		}
		s.settle()
		if !l.Gone(slave, lived) {
			t.Error("a killed slave is not gone")
		}
		if l.Gone(slave, time.Now()) {
			t.Error("a worker that lives since the last look is gone")
		}
	})
}
