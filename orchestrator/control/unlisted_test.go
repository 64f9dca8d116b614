package control_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/orchestrator/control"
)

// An orchestrator that starts while the launcher is away counts the registered workers, and knows the wanted number of
// slaves, so that reads and writes go on. It kills and starts no worker when the launcher is back.
func TestLoop_StartedWhileLauncherAway_WorkersServeOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		defer s.end()
		_, stop := s.orchestrate(3)
		s.reconcile()
		stop()
		pids, assigned := s.pids(), s.assigned.Load()
		s.launcher.noLists.Store(true)
		l, stop := s.orchestrate(2)
		defer stop()
		s.reconcile()
		wantServing(t, l, 3, true)
		if got := l.Desired(); got != 3 {
			t.Errorf("got %d slaves wanted, want 3", got)
		}
		s.launcher.noLists.Store(false)
		s.reconcile()
		wantServing(t, l, 3, true)
		if got := s.pids(); !slices.Equal(got, pids) || s.assigned.Load() != assigned {
			t.Errorf("launcher is back: got workers %v and %d new roles, want %v and none", got, s.assigned.Load()-assigned, pids)
		}
	})
}

// A loop whose launcher goes away follows the registrations: a worker that ends counts no longer.
func TestLoop_LauncherAway_CountFollowsTheRegistrations(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		all := s.running()
		s.launcher.noLists.Store(true)
		s.worker(all[1].ID).client.Partition()
		s.reconcile()
		wantServing(s.t, l, 1, true)
		s.worker(all[0].ID).client.Partition()
		s.worker(all[2].ID).client.Partition()
		s.reconcile()
		wantServing(s.t, l, 0, false)
		if _, since := l.Slaves(); since.IsZero() {
			s.t.Error("got no time since which no slave has served")
		}
		s.launcher.noLists.Store(false)
	})
}

// A coordinator that stops answering in the middle of a pass, while the launcher is away, makes the next pass too late to renew the master.
func TestLoop_LauncherAway_CoordinatorStopsWithinPass_LeadershipRenewedInIt(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		s.launcher.noLists.Store(true)
		s.reconcile()
		before := s.assigned.Load()
		s.coord.losesCount.Store(true)
		for s.coord.losesCount.Load() {
			pass(10 * time.Millisecond)
		}
		if got := s.assigned.Load() - before; got != 1 {
			s.t.Errorf("got %d renewals in the pass, want 1", got)
		}
		s.launcher.noLists.Store(false)
	})
}

// A coordinator that loses its data while the launcher is away does not make the workers count as lost.
func TestLoop_LauncherAway_CoordinatorDataLost_LastWorkersCount(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		late := s.worker(s.running()[0].ID)
		s.launcher.noLists.Store(true)
		late.client.Partition()
		s.coord.Wipe()
		pass(1500 * time.Millisecond)
		wantServing(s.t, l, 2, true)
		late.client.Heal()
		s.reconcile()
		wantServing(s.t, l, 2, true)
		s.launcher.noLists.Store(false)
		s.reconcile()
		wantServing(s.t, l, 2, true)
	})
}

// A loop that could never read the wanted number of slaves does not take the default for it.
func TestLoop_CountNeverRead_NoneIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		defer s.end()
		s.coord.Stop()
		l, stop := s.orchestrate(2)
		defer stop()
		s.reconcile()
		if got := l.Desired(); got != 0 {
			t.Errorf("coordinator away: got %d slaves wanted, want 0", got)
		}
		s.wantSlaves(l, 2)
		s.coord.Start()
		s.reconcile()
		if got := l.Desired(); got != 2 {
			t.Errorf("coordinator is back: got %d slaves wanted, want 2", got)
		}
	})
}

// wantServing checks how many slaves serve, and whether a master does.
func wantServing(t *testing.T, l *control.Loop, slaves int, master bool) {
	t.Helper()
	n, _ := l.Slaves()
	if present, _ := l.Master(); n != slaves || present != master {
		t.Errorf("got %d slaves, a master: %t; want %d, %t", n, present, slaves, master)
	}
}
