package control_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/orchestrator/control"
)

// The first worker becomes master, alone, so that it has the lowest pid of all.
func TestLoop_FirstStart_MasterHasLowestPID(t *testing.T) {
	bubble(t, func(s *stand, _ *control.Loop) {
		p := s.first()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d slave 0", p+2))
	})
}

// A killed master is followed by the slave with the lowest pid, in a new epoch, in place;
// a new slave takes its seat.
func TestLoop_MasterKilled_LowestPIDFollows(t *testing.T) {
	bubble(t, func(s *stand, _ *control.Loop) {
		p := s.first()
		if err := s.launcher.Kill(s.t.Context(), s.running()[0].ID); err != nil {
			s.t.Fatal(err)
		}
		s.settle()
		s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// A master that says that it has lost the bus is followed by a slave, but only once the orchestrator itself has it.
func TestLoop_MasterLosesTheBus_Replaced(t *testing.T) {
	bubble(t, func(s *stand, _ *control.Loop) {
		p := s.first()
		s.busLost.Store(true)
		s.worker(s.running()[0].ID).loseBus(s.t)
		pass(time.Minute)
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d slave 0", p+2))
		s.busLost.Store(false)
		pass(20 * time.Second)
		s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// A killed slave is replaced, and nobody's role changes.
func TestLoop_SlaveKilled_Replaced(t *testing.T) {
	bubble(t, func(s *stand, _ *control.Loop) {
		p := s.first()
		if err := s.launcher.Kill(s.t.Context(), s.running()[1].ID); err != nil {
			s.t.Fatal(err)
		}
		s.settle()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// Fewer slaves wanted: the highest pids leave and are not taken for crashed;
// more wanted: they come.
func TestLoop_SetSlaves_FollowsBothWays(t *testing.T) {
	bubble(t, func(s *stand, l *control.Loop) {
		p := s.first()
		if err := l.SetSlaves(s.t.Context(), 1); err != nil {
			s.t.Fatal(err)
		}
		s.settle()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1))
		if err := l.SetSlaves(s.t.Context(), 3); err != nil {
			s.t.Fatal(err)
		}
		s.settle()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d slave 0", p+3), fmt.Sprintf("%d slave 0", p+4))
	})
}

// A new orchestrator adopts what runs: no start, no new epoch, and the wanted
// number is the remembered one, not its own default.
func TestLoop_OrchestratorRestarted_Adopts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		_, stop := s.orchestrate(2)
		defer s.end()
		s.settle()
		before := s.roles()
		stop()
		_, stop = s.orchestrate(5)
		defer stop()
		s.settle()
		s.want(before...)
	})
}

// While one orchestrator leads, another one stands by; it takes over when the first is gone.
func TestLoop_SecondOrchestrator_StandsBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		_, stop := s.orchestrate(1)
		defer s.end()
		s.settle()
		_, stopSecond := s.orchestrate(1)
		defer stopSecond()
		s.settle()
		p := s.first()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1))
		stop()
		if err := s.launcher.Kill(t.Context(), s.running()[0].ID); err != nil {
			t.Fatal(err)
		}
		s.settle()
		s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2))
	})
}

// A coordinator that is away for long costs no worker and no epoch.
func TestLoop_CoordinatorAway_NothingChanges(t *testing.T) {
	bubble(t, func(s *stand, _ *control.Loop) {
		before := s.roles()
		s.coord.Stop()
		s.settle()
		s.coord.Start()
		s.settle()
		s.want(before...)
	})
}

// Workers that die at once are started again, but not faster than the limit.
func TestLoop_CrashLoop_StartsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		s.diesAt.Store(true)
		_, stop := s.orchestrate(2)
		defer s.end()
		defer stop()
		pass(30 * time.Second)
		s.diesAt.Store(false)
		pass(90 * time.Second)
		running := s.running()
		if len(running) != 3 {
			t.Fatalf("got %d running workers after the crash loop, want 3", len(running))
		}
		if last := running[2].PID - 1000; last > 30 {
			t.Errorf("got %d starts in two minutes, want at most 30", last)
		}
	})
}

// While the coordinator is away the master is told, again and again, that nobody else
// is chosen; while it answers nobody is told anything.
func TestLoop_CoordinatorAway_MastershipRenewed(t *testing.T) {
	bubble(t, func(s *stand, _ *control.Loop) {
		s.coord.Stop()
		before := s.assigned.Load()
		s.settle()
		if got := s.assigned.Load() - before; got < 2 {
			s.t.Errorf("away for 10 s: got %d renewals, want some", got)
		}
		s.coord.Start()
		s.settle()
		before = s.assigned.Load()
		s.settle()
		if got := s.assigned.Load() - before; got != 0 {
			s.t.Errorf("coordinator is back: got %d renewals, want none", got)
		}
	})
}
