package control_test

import (
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/control"
)

// awaitMaster lets time pass until a serving master has an epoch above epoch, and returns how long that took.
func (s *hostsRig) awaitMaster(l *control.Loop, epoch dbaas.Epoch) time.Duration {
	s.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; pass(100 * time.Millisecond) {
		members, err := l.Members(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		for _, m := range members {
			if m.Role == dbaas.RoleMaster && m.Epoch > epoch && m.Ready {
				return time.Since(began)
			}
		}
	}
	s.t.Fatal("no new master in a minute")
	return 0
}

// The master of a lost host is replaced without a kill, before its session ends. To the dispatcher its workers are gone. When
// the host comes back, with or without its sessions, the old master is ended, and there is no other election.
func TestLoop_MastersHostLost_ReplacedBeforeItsSessionEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		away time.Duration
		die  bool
	}{
		"PausedShortly": {away: 6 * time.Second},
		"PausedForLong": {away: time.Minute},
		"Killed":        {away: time.Minute, die: true},
	} {
		t.Run(name, func(t *testing.T) {
			onHosts(t, func(s *hostsRig, l *control.Loop) {
				lost := s.pause
				if tt.die {
					lost = s.kill
				}
				old := s.workers["w-a-0001"].spec.ID
				began := time.Now()
				lost("a")
				if took := s.awaitMaster(l, 1); took > 3500*time.Millisecond {
					s.t.Errorf("the new master serves after %v, want at most 3.5s", took)
				}
				if present, _ := l.Master(); !present || !l.Gone(old, began) {
					s.t.Errorf("got master %t, gone %t, want both", present, l.Gone(old, began))
				}
				pass(tt.away)
				wantLayout(s.t, l, "b master 2", "b slave 0", "c slave 0")
				if status, err := l.Status(s.t.Context()); err != nil || status.Hosts[0].State != "lost" {
					s.t.Errorf("got %+v, %v, want a lost", status.Hosts, err)
				}
				s.resume("a")
				pass(time.Minute)
				wantLayout(s.t, l, "b master 2", "b slave 0", "c slave 0")
				s.onHost("a", func(w *stubWorker) { s.t.Errorf("%s runs", w.spec.ID) })
				if got := s.machine("b").kills.Load() + s.machine("c").kills.Load(); got > 0 {
					s.t.Errorf("got %d kills on the other hosts, want none", got)
				}
			})
		})
	}
}

// The dead master of a lost host takes no time from the renewal of its successor.
func TestLoop_CoordinatorAwayAfterMastersHostLost_SuccessorRenewed(t *testing.T) {
	for name, listed := range map[string]bool{"Listed": true, "Unlisted": false} {
		t.Run(name, func(t *testing.T) {
			onHosts(t, func(s *hostsRig, l *control.Loop) {
				s.pause("a")
				s.awaitMaster(l, 1)
				pass(2 * hostSession)
				before := s.assigned.Load()
				s.coord.Stop()
				for _, m := range s.machines[1:] {
					if !listed {
						m.launcher.Store(refuses)
					}
				}
				s.reconcile()
				if got := s.assigned.Load() - before; got < 2 {
					s.t.Errorf("away for 10 s: got %d renewals, want some", got)
				}
			})
		})
	}
}

// A host counts as lost only if its workers are silent too, if another host's launcher answers, and if the coordinator
// answers. Otherwise no master is elected before the session of the old one ends. That does not depend on HungAfter.
func TestLoop_HostNotLost(t *testing.T) {
	launcherAlone := func(s *hostsRig) { s.machine("a").launcher.Store(paused) }
	for name, tt := range map[string]struct {
		fault     func(s *hostsRig)
		hungAfter time.Duration
	}{
		"LauncherAlone":             {fault: launcherAlone},
		"LauncherAlone_HungAfter1m": {fault: launcherAlone, hungAfter: time.Minute},
		"WorkersAlone":              {fault: func(s *hostsRig) { s.machine("b").worker.Store(paused) }}, // slaves are no matter of this test
		"AllHosts": {fault: func(s *hostsRig) { // the orchestrator is cut off
			for _, m := range s.machines {
				m.launcher.Store(paused)
				m.worker.Store(paused)
			}
		}},
		"CoordinatorAwayToo": {fault: func(s *hostsRig) {
			s.coord.frozen.Store(true)
			s.machine("a").launcher.Store(paused)
			s.machine("a").worker.Store(paused)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onHostsWith(t, control.Config{HungAfter: tt.hungAfter}, func(s *hostsRig, l *control.Loop) {
				tt.fault(s)
				pass(time.Minute)
				if present, _ := l.Master(); !present {
					s.t.Error("to the dispatcher there is no master")
				}
				if s.store.last != 1 {
					s.t.Errorf("got epoch %d, want no election", s.store.last)
				}
				for _, m := range s.machines {
					m.launcher.Store(present)
					m.worker.Store(present)
				}
				s.coord.frozen.Store(false)
				s.reconcile()
			})
		})
	}
}

// When every host is lost one after the other and comes back, there is always one master, and in the end the wanted number
// of slaves.
func TestLoop_HostsLostInTurn_ComeBack(t *testing.T) {
	onHosts(t, func(s *hostsRig, l *control.Loop) {
		for range 2 {
			for _, name := range []string{"a", "b", "c"} {
				s.pause(name)
				pass(20 * time.Second)
				s.resume(name)
				pass(20 * time.Second)
				members, err := l.Members(s.t.Context())
				if err != nil || len(members) != 3 {
					s.t.Fatalf("after %s: got %+v, %v, want a master and two slaves", name, members, err)
				}
			}
		}
		on := map[string]bool{}
		for _, m := range layout(s.t, l) {
			on[m[:1]] = true
		}
		if len(on) < 2 {
			s.t.Errorf("got %q, want at least two hosts", layout(s.t, l))
		}
	})
}
