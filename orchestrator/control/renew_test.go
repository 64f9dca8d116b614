package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	"rideshare/orchestrator/control"
)

// Whenever the coordinator freezes, the master is renewed before its session is suspended, two thirds of its length later, also if
// sessions are short.
func TestLoop_CoordinatorFreezes_RenewedBeforeTheSessionIsSuspended(t *testing.T) {
	for _, session := range []time.Duration{2 * time.Second, 4 * time.Second, 6 * time.Second, time.Minute} {
		t.Run(session.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRig(t)
				_, stop := s.orchestrateWith(control.Config{Coordinator: s.coord, Slaves: 1, Session: session})
				defer s.end()
				defer stop()
				for range 20 { // phases of a pass
					s.reconcile()
					pass(70 * time.Millisecond)
					before, froze := s.assigned.Load(), time.Now()
					s.coord.frozen.Store(true)
					for s.assigned.Load() == before && time.Since(froze) < session {
						pass(10 * time.Millisecond)
					}
					s.coord.frozen.Store(false)
					if took := time.Since(froze); took >= session*2/3 {
						t.Errorf("renewed %v after the freeze, want less than %v", took, session*2/3)
					}
				}
			})
		})
	}
}
