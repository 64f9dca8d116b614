package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/coord"
	coordinproc "rideshare/internal/coord/inproc"
	"rideshare/internal/dbaas"
	"rideshare/orchestrator/control"
)

// The first worker becomes master, alone, so that it has the lowest pid of all.
func TestLoop_FirstStart_MasterHasLowestPID(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		p := s.first()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d slave 0", p+2))
	})
}

// After the master is killed, the slave with the lowest pid becomes master in a new epoch, and
// a new slave is started in its place.
func TestLoop_MasterKilled_LowestPIDFollows(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		p := s.first()
		if err := s.launcher.Kill(s.t.Context(), s.running()[0].ID); err != nil {
			s.t.Fatal(err)
		}
		s.reconcile()
		s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// A master that has lost the bus is replaced by a slave, but only once the orchestrator itself has the bus.
func TestLoop_MasterLosesTheBus_Replaced(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
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

// A killed slave is replaced, and no other worker's role changes.
func TestLoop_SlaveKilled_Replaced(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		p := s.first()
		if err := s.launcher.Kill(s.t.Context(), s.running()[1].ID); err != nil {
			s.t.Fatal(err)
		}
		s.reconcile()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// A dead worker that the engine cannot remove is replaced. The attempts to remove it become rare, and go on.
func TestLoop_RemovalFails_RetriedEverLater(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		s.launcher.noRemovals.Store(true)
		if err := s.launcher.Kill(s.t.Context(), s.running()[1].ID); err != nil {
			s.t.Fatal(err)
		}
		pass(10 * time.Minute)
		if got := s.launcher.removalsFailed.Load(); got < 10 || got > 20 || len(s.running()) != 3 {
			s.t.Errorf("got %d attempts in 10 minutes and %d workers, want about one a minute and 3", got, len(s.running()))
		}
		s.launcher.noRemovals.Store(false)
		pass(time.Minute)
		if all, err := s.launcher.List(s.t.Context()); err != nil || len(all) != 3 {
			s.t.Errorf("got %d workers listed and error %v, want 3", len(all), err)
		}
	})
}

// If fewer slaves are wanted, those with the highest pids finish and leave; they are neither killed nor
// treated as crashed. If more slaves are wanted, they are started.
func TestLoop_SetSlaves_FollowsBothWays(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		p, last := s.first(), s.running()[2].ID
		if err := l.SetSlaves(s.t.Context(), 1); err != nil {
			s.t.Fatal(err)
		}
		s.reconcile()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1))
		if end := fmt.Sprintf("change=died worker=%s pid=%d role=slave epoch=0 code=0", last, p+2); !strings.Contains(s.lines.String(), end) {
			s.t.Errorf("no %q in the log: the slave was not let finish", end)
		}
		if err := l.SetSlaves(s.t.Context(), 3); err != nil {
			s.t.Fatal(err)
		}
		s.reconcile()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d slave 0", p+3), fmt.Sprintf("%d slave 0", p+4))
	})
}

// A new orchestrator adopts the running workers: no start and no new epoch. The wanted
// number of slaves is the stored one, not the orchestrator's default.
func TestLoop_OrchestratorRestarted_Adopts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		_, stop := s.orchestrate(2)
		defer s.end()
		s.reconcile()
		before := s.roles()
		stop()
		_, stop = s.orchestrate(5)
		defer stop()
		s.reconcile()
		s.want(before...)
	})
}

// A new orchestrator that cannot read the wanted number of slaves at first keeps those that run.
func TestLoop_OrchestratorRestarted_CountUnread_KeepsTheSlaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		_, stop := s.orchestrate(5)
		defer s.end()
		s.reconcile()
		before := s.roles()
		stop()
		s.coord.losesCount.Store(true)
		_, stop = s.orchestrate(1)
		defer stop()
		s.reconcile()
		if s.coord.losesCount.Load() {
			t.Error("the count was not read")
		}
		s.want(before...)
	})
}

// While one orchestrator leads, another one stands by; it takes over when the first is gone.
func TestLoop_SecondOrchestrator_StandsBy(t *testing.T) {
	withStandby(t, 1, func(s *rig, _, _ *control.Loop, stop func()) {
		p := s.first()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1))
		stop()
		if err := s.launcher.Kill(s.t.Context(), s.running()[0].ID); err != nil {
			s.t.Fatal(err)
		}
		s.reconcile()
		s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2))
	})
}

// A coordinator that is away for long costs no worker and no epoch.
func TestLoop_CoordinatorAway_NothingChanges(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		before := s.roles()
		s.coord.Stop()
		s.reconcile()
		s.coord.Start()
		s.reconcile()
		s.want(before...)
	})
}

// Workers that die immediately are started again, but not faster than the limit. The begin and the end of the limit's
// effect are each logged once.
func TestLoop_CrashLoop_StartsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		s.diesAt.Store(true)
		l, stop := s.orchestrate(2)
		defer s.end()
		defer stop()
		pass(30 * time.Second)
		if now, ever := l.StartsHeldBack(); now != 1 || ever < 3 {
			t.Errorf("in the crash loop: got %d starts held back now and %d ever, want 1 and some", now, ever)
		}
		s.diesAt.Store(false)
		pass(90 * time.Second)
		running := s.running()
		if len(running) != 3 {
			t.Fatalf("got %d running workers after the crash loop, want 3", len(running))
		}
		if last := running[2].PID - 1000; last > 30 {
			t.Errorf("got %d starts in two minutes, want at most 30", last)
		}
		if now, _ := l.StartsHeldBack(); now != 0 {
			t.Errorf("after the crash loop: got %d starts held back, want none", now)
		}
		for _, line := range []string{"starts held back", "starts go on"} {
			if got := strings.Count(s.lines.String(), line); got != 1 {
				t.Errorf("%q: got %d lines, want one", line, got)
			}
		}
	})
}

// A worker killed when the start limit is reached is replaced as soon as one more start is allowed, not a minute later.
func TestLoop_StartsHeldBack_NextOneIsSoon(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		for range 2 * startsPerMinute {
			if err := s.launcher.Kill(s.t.Context(), s.running()[2].ID); err != nil {
				s.t.Fatal(err)
			}
			killed := time.Now()
			for len(s.running()) < 3 {
				pass(10 * time.Millisecond)
			}
			if took := time.Since(killed); took > time.Minute/startsPerMinute+100*time.Millisecond {
				s.t.Fatalf("replaced after %v, want as soon as one more start is allowed", took)
			}
			pass(100 * time.Millisecond)
		}
		if _, ever := l.StartsHeldBack(); ever == 0 {
			s.t.Error("no start was held back: the test proves nothing")
		}
	})
}

// While the coordinator is away, the master's role is renewed again and again. While the coordinator
// answers, no worker is assigned anything.
func TestLoop_CoordinatorAway_LeadershipRenewed(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		s.coord.Stop()
		before := s.assigned.Load()
		s.reconcile()
		if got := s.assigned.Load() - before; got < 2 {
			s.t.Errorf("away for 10 s: got %d renewals, want some", got)
		}
		s.coord.Start()
		s.reconcile()
		before = s.assigned.Load()
		s.reconcile()
		if got := s.assigned.Load() - before; got != 0 {
			s.t.Errorf("coordinator is back: got %d renewals, want none", got)
		}
	})
}

// If the launcher is away too, the role of the master that was last seen is renewed.
func TestLoop_CoordinatorAndLauncherAway_LeadershipRenewed(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		roles, before := s.roles(), s.assigned.Load()
		s.launcher.noLists.Store(true)
		s.reconcile()
		if got := s.assigned.Load() - before; got != 0 {
			s.t.Errorf("only the launcher is away: got %d renewals, want none", got)
		}
		s.coord.Stop()
		s.reconcile()
		if got := s.assigned.Load() - before; got < 2 {
			s.t.Errorf("both away for 10 s: got %d renewals, want some", got)
		}
		s.coord.Start()
		s.launcher.noLists.Store(false)
		s.reconcile()
		s.want(roles...)
	})
}

// A coordinator that freezes after it has listed the members makes the rest of that pass slow. The role is renewed
// within the same pass.
func TestLoop_CoordinatorFreezesWithinPass_LeadershipRenewedInIt(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		before := s.assigned.Load()
		s.coord.freezesAtLead.Store(true)
		for s.coord.freezesAtLead.Load() {
			pass(10 * time.Millisecond)
		}
		pass(2*time.Second + 10*time.Millisecond) // two calls of the pass time out
		if got := s.assigned.Load() - before; got != 1 {
			s.t.Errorf("got %d renewals by the end of the pass, want 1", got)
		}
		s.coord.frozen.Store(false)
		s.reconcile()
	})
}

// A registered slave without a replica serves no read. It counts as serving again once it has a replica.
func TestLoop_SlaveWithoutReplica_DoesNotServe(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		s.first()
		slaves := s.running()[1:]
		for _, away := range []bool{true, false} {
			for _, in := range slaves {
				s.worker(in.ID).announce(s.t, func(m *coord.Member) { m.NoReplica = away })
			}
			s.reconcile()
			want := map[bool]int{true: 0, false: len(slaves)}[away]
			n, _ := l.Slaves()
			members, err := l.Members(s.t.Context())
			ready := 0
			for _, m := range members {
				if m.Role == dbaas.RoleSlave && m.Ready {
					ready++
				}
			}
			if n != want || ready != want || err != nil {
				s.t.Errorf("replicas away: %v: got %d slaves that serve and %d that are ready, %v; want %d", away, n, ready, err, want)
			}
		}
	})
}

// When the coordinator has lost all registrations, running workers that have not registered again yet count as serving.
func TestLoop_RegistrationsLost_WorkersServeOn(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		workers := s.running()
		s.coord.Pause()
		s.reconcile()
		for _, in := range workers {
			s.worker(in.ID).client.Partition()
		}
		s.coord.Resume()
		pass(coordinproc.DefaultSessionTimeout / 2)
		members, err := l.Members(s.t.Context())
		if ready := slices.ContainsFunc(members, func(m control.Member) bool { return m.Ready }); err != nil || ready {
			s.t.Fatalf("got %+v, %v, want no ready member", members, err)
		}
		n, _ := l.Slaves()
		if master, _ := l.Master(); n != 2 || !master {
			s.t.Errorf("got %d slaves, a master: %t; want 2 and a master", n, master)
		}
		for _, in := range workers {
			s.worker(in.ID).client.Heal()
		}
		s.reconcile()
	})
}
