package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/orchestrator/control"
)

// noticed is how soon a hung worker is replaced: control.DefaultHungAfter, a tick until the next answer is missed, and a
// tick for rounding.
const noticed = control.DefaultHungAfter * 8 / 6

// session is how long the coordinator of these tests keeps a silent session.
const session = 2 * time.Second

// A master that hangs is replaced by a slave within a second, though its session lives: stopped, or stuck.
func TestLoop_MasterHangs_ReplacedBeforeItsSessionEnds(t *testing.T) {
	for name, hang := range map[string]func(w *stubWorker){
		"Stopped": func(w *stubWorker) { w.stopped.Store(true) },
		"Stuck":   func(w *stubWorker) { w.stuck.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s *rig, _ *control.Loop) {
				p := s.first()
				hang(s.worker(s.running()[0].ID))
				pass(noticed)
				if got, want := s.roles(), fmt.Sprintf("%d master 2", p+1); !slices.Contains(got, want) {
					s.t.Fatalf("after %v: got %v, want %s", noticed, got, want)
				}
				s.reconcile()
				s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
				if line := fmt.Sprintf(`msg="worker hangs" worker=w-0001 pid=%d role=master reason="hung: `, p); !strings.Contains(s.lines.String(), line) {
					s.t.Errorf("no line %q in the log", line)
				}
			})
		})
	}
}

// A slave that hangs is replaced within a second, and the master stays.
func TestLoop_SlaveHangs_Replaced(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		p := s.first()
		s.worker(s.running()[1].ID).stopped.Store(true)
		pass(noticed)
		if got := s.pids(); slices.Contains(got, p+1) {
			s.t.Errorf("after %v: %d still runs, with %v", noticed, p+1, got)
		}
		s.reconcile()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// No worker is replaced for a silence that has another cause: the orchestrator hears nobody, or was stopped itself; most
// workers are silent; the silence is too short; the master answers writes; ZooKeeper is away.
func TestLoop_SilenceOfAnotherCause_NobodyReplaced(t *testing.T) {
	for name, silence := range map[string]func(s *rig){
		"OrchestratorDeaf": func(s *rig) {
			s.deaf.Store(true)
			pass(4 * time.Second)
			s.deaf.Store(false)
		},
		"OrchestratorStopped": func(s *rig) { // while a worker did not answer, for a tick less than it may
			s.worker(s.running()[0].ID).stopped.Store(true)
			pass(control.DefaultHungAfter * 13 / 12)
			s.ahead.Add(int64(time.Minute))
			s.worker(s.running()[0].ID).stopped.Store(false)
		},
		"MostStopped": func(s *rig) {
			for _, in := range s.running()[:2] {
				s.worker(in.ID).stopped.Store(true)
			}
			pass(4 * time.Second)
			for _, in := range s.running()[:2] {
				s.worker(in.ID).stopped.Store(false)
			}
		},
		"Short": func(s *rig) {
			for range 20 {
				s.worker(s.running()[0].ID).stopped.Store(true)
				pass(control.DefaultHungAfter * 4 / 6)
				s.worker(s.running()[0].ID).stopped.Store(false)
				pass(control.DefaultHungAfter * 2 / 6)
			}
		},
		"WritesAnswered": func(s *rig) {
			s.worker(s.running()[0].ID).stuck.Store(true)
			for range 40 {
				s.writes.Add(1)
				pass(control.DefaultHungAfter / 6)
			}
			s.worker(s.running()[0].ID).stuck.Store(false)
		},
		"CoordinatorAway": func(s *rig) {
			s.coord.Pause()
			pass(time.Second)
			s.worker(s.running()[0].ID).stopped.Store(true)
			pass(4 * time.Second)
			s.worker(s.running()[0].ID).stopped.Store(false)
			pass(time.Second)
			s.coord.Resume()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s *rig, _ *control.Loop) {
				before := s.roles()
				silence(s)
				pass(time.Minute)
				s.want(before...)
			})
		})
	}
}

// If the engine cannot kill a master that hangs, the election waits for one session's length. A master that goes on
// before that stays master, and a later suspicion waits as long again.
func TestLoop_HungMasterCannotBeKilled_ElectionWaitsASession(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		p, before := s.first(), s.roles()
		old := s.worker(s.running()[0].ID)
		s.launcher.noKills.Store(true)
		for range 2 {
			old.stuck.Store(true)
			pass(noticed + session/4)
			old.stuck.Store(false)
			pass(2 * session)
			s.want(before...)
		}
		old.stuck.Store(true)
		pass(2 * session)
		if got, want := s.roles(), fmt.Sprintf("%d master 2", p+1); !slices.Contains(got, want) {
			s.t.Errorf("got %v, want %s", got, want)
		}
		s.launcher.noKills.Store(false)
		s.reconcile()
		s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// Only the leader asks the workers: standbys cost them nothing.
func TestLoop_Pulses_LeaderAsks(t *testing.T) {
	withStandby(t, 1, func(s *rig, _, _ *control.Loop, _ func()) {
		before := s.pulses.Load()
		pass(control.DefaultHungAfter)
		if got := s.pulses.Load() - before; got != 12 {
			s.t.Errorf("got %d questions in %v, want 12: 6 for each of 2 workers", got, control.DefaultHungAfter)
		}
	})
}

// A master alone that answers, and is stuck, is replaced, though its session lives and nobody else answers.
func TestLoop_MasterAloneStuck_Replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		_, stop := s.orchestrate(0)
		defer s.end()
		defer stop()
		s.reconcile()
		p, before := s.first(), s.roles()
		s.worker(s.running()[0].ID).stuck.Store(true)
		pass(2 * control.DefaultHungAfter)
		s.want(before...)
		s.reconcile()
		s.want(fmt.Sprintf("%d master 2", p+1))
	})
}

// The leader and the master hang together, as on a machine that stands still. The standby leads once the leader's session
// has ended. Then it needs six ticks of its own, and replaces the master: the kill comes before the election.
func TestLoop_LeaderAndMasterHang_StandbyActsAtTheEndOfTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		machine := s.coord.Dial() // of the leader
		_, stop := s.orchestrateOn(machine, 2)
		defer s.end()
		defer stop()
		s.reconcile()
		standby, stopStandby := s.orchestrate(2)
		defer stopStandby()
		s.reconcile()
		p := s.first()
		machine.Partition()
		s.worker(s.running()[0].ID).stopped.Store(true)
		pass(session - time.Second/10)
		if standby.Leads() {
			t.Error("the standby leads before the leader's session has ended")
		}
		pass(2 * noticed)
		if got, want := s.roles(), fmt.Sprintf("%d master 2", p+1); !standby.Leads() || !slices.Contains(got, want) {
			t.Errorf("got %v, standby leads: %t; want %s, true", got, standby.Leads(), want)
		}
		s.reconcile()
		s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// An orchestrator with a master alone does not take it for hung if it is silent: nobody else answers.
func TestLoop_MasterAlone_NotSuspected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		_, stop := s.orchestrate(0)
		defer s.end()
		defer stop()
		s.reconcile()
		before := s.roles()
		s.worker(s.running()[0].ID).stopped.Store(true)
		pass(5 * time.Second)
		s.want(before...)
	})
}
