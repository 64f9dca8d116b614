package control_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/control"
)

// A standby that has seen fail-overs and hand-overs of another orchestrator takes over without touching any worker:
// it has followed the roles that the other orchestrator assigned.
func TestLoop_StandbyTakesOver_ChangesNothing(t *testing.T) {
	withStandby(t, 2, func(s *rig, leader, standby *control.Loop, stop func()) {
		if err := s.launcher.Kill(s.t.Context(), s.running()[0].ID); err != nil {
			s.t.Fatal(err)
		}
		s.reconcile()
		if _, err := leader.HandOver(s.t.Context(), 0, dbaas.Seen{}); err != nil {
			s.t.Fatal(err)
		}
		s.reconcile()
		before, assigned := s.roles(), s.assigned.Load()
		stop()
		pass(time.Minute)
		s.want(before...)
		if got := s.assigned.Load() - assigned; got != 0 {
			s.t.Errorf("got %d roles given after the take-over, want none", got)
		}
		if status, err := standby.Status(s.t.Context()); err != nil || !status.Leader {
			s.t.Errorf("got %+v, %v, want the standby leading", status, err)
		}
	})
}

// When an orchestrator leaves, a standby takes over immediately, not at the end of a session or a period.
func TestLoop_LeaderLeaves_FollowedImmediately(t *testing.T) {
	withStandby(t, 1, func(s *rig, _, standby *control.Loop, stop func()) {
		pass(300 * time.Millisecond) // in the middle of a period
		stop()
		pass(time.Millisecond)
		if status, err := standby.Status(s.t.Context()); err != nil || !status.Leader {
			s.t.Errorf("got %+v, %v, want the standby leading", status, err)
		}
	})
}

// Any orchestrator can crash workers by their role.
func TestLoop_CrashAskedOfStandby_TheRightOne(t *testing.T) {
	withStandby(t, 2, func(s *rig, _, standby *control.Loop, _ func()) {
		p := s.first()
		for round := range 2 {
			pid, ok, err := standby.CrashMaster(s.t.Context(), dbaas.Seen{})
			if err != nil || !ok || pid != p+round {
				s.t.Errorf("round %d: got %d, %t, %v, want %d", round, pid, ok, err, p+round)
			}
			s.reconcile()
		}
		if pid, ok, err := standby.CrashSlave(s.t.Context(), dbaas.Seen{}); err != nil || !ok || pid != p+4 {
			s.t.Errorf("slave: got %d, %t, %v, want %d", pid, ok, err, p+4)
		}
		s.reconcile()
		s.want(fmt.Sprintf("%d master 3", p+2), fmt.Sprintf("%d slave 0", p+3), fmt.Sprintf("%d slave 0", p+5))
	})
}

// A crash or hand-over for a state that has passed is refused, and changes nothing.
func TestLoop_CrashOfWhatIsNoLongerSeen_Refused(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		p := s.first()
		members, err := l.Members(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		master, slave := members[0].Worker, members[len(members)-1].Worker
		before := s.roles()
		for _, seen := range []dbaas.Seen{{Worker: slave}, {Epoch: 2}, {Worker: master, Epoch: 2}, {Worker: slave, Epoch: 1}, {Worker: "w"}} {
			if _, _, err := l.CrashMaster(s.t.Context(), seen); dbaas.CodeOf(err) != dbaas.CodeConflict {
				s.t.Errorf("master, seen %+v: got %v, want a conflict", seen, err)
			}
		}
		for _, seen := range []dbaas.Seen{{Worker: master}, {Worker: slave, Epoch: 2}} {
			if _, _, err := l.CrashSlave(s.t.Context(), seen); dbaas.CodeOf(err) != dbaas.CodeConflict {
				s.t.Errorf("slave, seen %+v: got %v, want a conflict", seen, err)
			}
		}
		if _, err := l.HandOver(s.t.Context(), 0, dbaas.Seen{Epoch: 2}); dbaas.CodeOf(err) != dbaas.CodeConflict {
			s.t.Errorf("hand-over: got %v, want a conflict", err)
		}
		s.reconcile()
		s.want(before...)
		if pid, ok, err := l.CrashMaster(s.t.Context(), dbaas.Seen{Worker: master, Epoch: 1}); err != nil || !ok || pid != p {
			s.t.Errorf("got %d, %t, %v, want %d", pid, ok, err, p)
		}
	})
}

// If the engine cannot kill a silent master, the election waits for one session length, not for ever. The kill is
// retried once a second. When the old master is back, it is killed.
func TestLoop_KillFails_ElectionGoesOn(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		p, old := s.first(), s.running()[0].ID
		s.launcher.noKills.Store(true)
		s.worker(old).client.Partition()
		pass(30 * time.Second)
		if got, want := s.roles(), fmt.Sprintf("%d master 2", p+1); len(got) == 0 || got[0] != want {
			s.t.Fatalf("got %v, want %s first", got, want)
		}
		if tried := s.launcher.killsFailed.Load(); tried < 10 || tried > 30 {
			s.t.Errorf("kills tried in 30 s: got %d, want about one a second", tried)
		}
		s.launcher.noKills.Store(false)
		s.reconcile()
		s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// A promoted worker that stops answering before it is registered as master is replaced like any other
// silent master: after its session, not after the time that catching up may take.
func TestLoop_PromotedWorkerLost_NextFollows(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		p := s.first()
		successor := s.worker(s.running()[1].ID)
		successor.silent.Store(true)
		if err := s.launcher.Kill(s.t.Context(), s.running()[0].ID); err != nil {
			s.t.Fatal(err)
		}
		pass(time.Second)
		successor.client.Partition()
		pass(15 * time.Second)
		if got, want := s.roles(), fmt.Sprintf("%d master 3", p+2); len(got) == 0 || got[0] != want {
			s.t.Errorf("got %v, want %s first", got, want)
		}
	})
}

// After the coordinator has lost all its data, the loop restores the number of slaves from its memory or from the
// running workers.
func TestLoop_SlaveCountLost_WrittenAgain(t *testing.T) {
	for name, restarted := range map[string]bool{"SameOrchestrator": false, "AnotherOne": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRig(t)
				l, stop := s.orchestrate(2)
				defer s.end()
				defer func() { stop() }()
				s.reconcile()
				if err := l.SetSlaves(t.Context(), 3); err != nil {
					t.Fatal(err)
				}
				s.reconcile()
				before, roles := s.pids(), s.roles()
				if restarted {
					stop()
				}
				s.coord.Wipe()
				synctest.Wait() // the workers register again
				if restarted {
					l, stop = s.orchestrate(1)
				}
				pass(time.Minute)
				s.wantSlaves(l, 3)
				if got := s.pids(); !slices.Equal(got, before) {
					t.Errorf("got %v, want the workers of before, %v", got, before)
				}
				s.want(roles...)
			})
		})
	}
}

// A new orchestrator at a coordinator without data also counts the slave that has not registered again yet. That slave is
// assigned the slave's role, and not stopped as one slave too many.
func TestLoop_SlaveCountLost_UnregisteredSlaveCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		_, stop := s.orchestrate(3)
		defer s.end()
		s.reconcile()
		before := s.pids()
		stop()
		late := s.worker(s.running()[2].ID)
		late.client.Partition()
		s.coord.Wipe()
		synctest.Wait()
		l, stop := s.orchestrate(1)
		defer func() { stop() }()
		pass(time.Second)
		late.client.Heal()
		s.reconcile()
		s.wantSlaves(l, 3)
		if got := s.pids(); !slices.Equal(got, before) {
			t.Errorf("got %v, want the workers of before, %v", got, before)
		}
	})
}

// After the coordinator has lost all its data, the old master stays master even if it registers later than the others,
// also with a new orchestrator that does not know the master. Until then no worker is killed or elected.
func TestLoop_CoordinatorDataLost_LateMasterIsWaitedFor(t *testing.T) {
	for name, restarted := range map[string]bool{"SameOrchestrator": false, "AnotherOne": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRig(t)
				l, stop := s.orchestrate(2)
				defer s.end()
				defer func() { stop() }()
				s.reconcile()
				successor := s.running()[2]
				if _, err := l.HandOver(t.Context(), successor.PID, dbaas.Seen{}); err != nil { // so that the lowest pid is another one's
					t.Fatal(err)
				}
				s.reconcile()
				before := s.roles()
				if restarted {
					stop()
				}
				late := s.worker(successor.ID)
				late.client.Partition()
				s.coord.Wipe()
				synctest.Wait() // the others register again
				if restarted {
					_, stop = s.orchestrate(2)
				}
				pass(1500 * time.Millisecond)
				late.client.Heal()
				pass(time.Minute)
				s.want(before...)
			})
		})
	}
}

// An orchestrator that starts while the coordinator is away does not know the roles. It counts one of the workers as the
// master and the others as slaves, since they may serve. Without any worker nothing serves.
func TestLoop_StartedWhileCoordinatorAway_WorkersServeOn(t *testing.T) {
	for name, tt := range map[string]struct {
		before bool // workers run
		slaves int
	}{"Workers": {before: true, slaves: 2}, "FirstStart": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRig(t)
				defer s.end()
				if tt.before {
					_, stop := s.orchestrate(2)
					s.reconcile()
					stop()
				}
				pids := s.pids()
				s.coord.Stop()
				l, stop := s.orchestrate(2)
				defer stop()
				pass(5 * time.Second)
				n, _ := l.Slaves()
				if master, _ := l.Master(); n != tt.slaves || master != tt.before {
					t.Errorf("got %d slaves, a master: %t; want %d, %t", n, master, tt.slaves, tt.before)
				}
				s.coord.Start()
				s.reconcile()
				n, _ = l.Slaves()
				if master, _ := l.Master(); n != 2 || !master || tt.before && !slices.Equal(s.pids(), pids) {
					t.Errorf("coordinator is back: got %d slaves, a master: %t, pids %v of %v; want 2 and a master", n, master, s.pids(), pids)
				}
			})
		})
	}
}

// wantSlaves checks the wanted number of slaves.
func (s *rig) wantSlaves(l *control.Loop, want int) {
	s.t.Helper()
	if status, err := l.Status(s.t.Context()); err != nil || status.DesiredSlaves != want {
		s.t.Errorf("got %+v, %v, want %d slaves wanted", status, err, want)
	}
}
