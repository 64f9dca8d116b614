package control_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/orchestrator/control"
)

// The role goes to the slave with the lowest pid, or to the slave with the given pid; the old master stays as a slave.
func TestLoop_HandOver_MovesTheRoleInPlace(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		p := s.first()
		got, err := l.HandOver(s.t.Context(), 0, dbaas.Seen{})
		if want := (control.HandedOver{OldPID: p, OldEpoch: 1, NewPID: p + 1, NewEpoch: 2}); err != nil || got != want {
			s.t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		s.reconcile()
		s.want(fmt.Sprintf("%d slave 0", p), fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2))
		if got, err = l.HandOver(s.t.Context(), p+2, dbaas.Seen{}); err != nil || got.NewPID != p+2 || got.NewEpoch != 3 {
			s.t.Errorf("to %d: got %+v, %v", p+2, got, err)
		}
		s.reconcile()
		s.want(fmt.Sprintf("%d slave 0", p), fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d master 3", p+2))
	})
}

// A worker that cannot become master is refused, with its reason, and nothing changes.
func TestLoop_HandOver_Refused(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		p := s.first()
		before := s.roles()
		refused := func(pid int, want dbaas.Code) {
			s.t.Helper()
			if _, err := l.HandOver(s.t.Context(), pid, dbaas.Seen{}); dbaas.CodeOf(err) != want {
				s.t.Errorf("to %d: got %v, want %s", pid, err, want)
			}
		}
		refused(p, dbaas.CodeConflict)
		refused(4711, dbaas.CodeInvalid)
		s.want(before...)
		s.coord.Stop()
		refused(0, dbaas.CodeUnavailable)
		s.coord.Start()
		s.reconcile()
		s.launcher.noLists.Store(true)
		refused(0, dbaas.CodeUnavailable)
		s.launcher.noLists.Store(false)
		s.reconcile()
		s.want(before...)
	})
}

// A slave that fetches a new replica is refused, and without a pid another slave takes the role over, also in an election.
func TestLoop_RebuildingSlave_DoesNotFollow(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		p := s.first()
		s.worker(s.running()[1].ID).announce(s.t, func(m *coord.Member) { m.Rebuilding = true })
		s.reconcile()
		if n, _ := l.Slaves(); n != 2 {
			s.t.Errorf("got %d slaves that serve, want 2", n)
		}
		if _, err := l.HandOver(s.t.Context(), p+1, dbaas.Seen{}); dbaas.CodeOf(err) != dbaas.CodeConflict {
			s.t.Errorf("to %d: got %v, want %s", p+1, err, dbaas.CodeConflict)
		}
		if got, err := l.HandOver(s.t.Context(), 0, dbaas.Seen{}); err != nil || got.NewPID != p+2 {
			s.t.Errorf("got %+v, %v, want %d as the new master", got, err, p+2)
		}
		s.reconcile()
		if err := s.launcher.Kill(s.t.Context(), s.running()[0].ID); err != nil {
			s.t.Fatal(err)
		}
		s.reconcile()
		if err := s.launcher.Kill(s.t.Context(), s.running()[1].ID); err != nil {
			s.t.Fatal(err)
		}
		s.reconcile()
		s.want(fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d master 3", p+3), fmt.Sprintf("%d slave 0", p+4))
	})
}

// A standby orchestrator is asked: the leading one moves the role, and both know afterwards.
func TestLoop_HandOverAskedOfStandby_Done(t *testing.T) {
	withStandby(t, 2, func(s *rig, leader, standby *control.Loop, _ func()) {
		p := s.first()
		got, err := standby.HandOver(s.t.Context(), 0, dbaas.Seen{})
		if want := (control.HandedOver{OldPID: p, OldEpoch: 1, NewPID: p + 1, NewEpoch: 2}); err != nil || got != want {
			s.t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		s.reconcile()
		for name, l := range map[string]*control.Loop{"leader": leader, "standby": standby} {
			status, err := l.Status(s.t.Context())
			if err != nil || status.Leader != (name == "leader") || len(status.Members) != 3 || status.DesiredSlaves != 2 {
				s.t.Fatalf("%s: got %+v, %v", name, status, err)
			}
			for i, m := range status.Members {
				if want := (i == 1); (m.Role == dbaas.RoleMaster) != want || !m.Ready {
					s.t.Errorf("%s: got %+v, want a ready one, and the second as master", name, m)
				}
			}
		}
	})
}

// When a master announces its end, a slave takes over before it has gone, and a new worker is started immediately.
// A leaving slave is replaced, too.
func TestLoop_Leaving_ReplacedBeforeItEnds(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		p := s.first()
		s.worker(s.running()[0].ID).leave(s.t)
		s.reconcile()
		if got := s.roles(); len(got) != 4 || got[1] != fmt.Sprintf("%d master 2", p+1) {
			s.t.Fatalf("a master is leaving: got %v, want a new one and a new slave beside it", got)
		}
		s.worker(s.running()[2].ID).leave(s.t)
		s.reconcile()
		for i := range 2 {
			if err := s.launcher.Stop(s.t.Context(), s.running()[i].ID, time.Second); err != nil {
				s.t.Fatal(err)
			}
			s.reconcile()
		}
		s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+3), fmt.Sprintf("%d slave 0", p+4))
	})
}

// A master that does not answer does not delay its hand-over for long: the new epoch fences it.
func TestLoop_HandOverFromHungMaster_Done(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		p, old := s.first(), s.running()[0].ID
		s.worker(old).leave(s.t)
		s.hang(old, true)
		s.reconcile()
		if got := s.roles(); len(got) < 2 || got[len(got)-3] != fmt.Sprintf("%d master 2", p+1) {
			s.t.Errorf("got %v, want %d as master of epoch 2", got, p+1)
		}
	})
}

// A master that takes the slave's role after the loop has given up waiting for its answer is seen to be none any more.
func TestLoop_DemotedWithoutAnAnswer_AnotherIsElected(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		p := s.first()
		s.worker(s.running()[0].ID).announce(s.t, func(m *coord.Member) { m.Role, m.Epoch = dbaas.RoleSlave, 0 })
		s.reconcile()
		s.want(fmt.Sprintf("%d master 2", p), fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d slave 0", p+2))
	})
}

// A new worker that accepts no role is killed in time, and until then does not delay an election.
func TestLoop_HungNewcomer_HoldsUpNothing(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		p := s.first()
		s.mu.Lock()
		for n := range 20 {
			s.hangs[dbaas.WorkerID(fmt.Sprintf("w-%04d", 4+n))] = true
		}
		s.mu.Unlock()
		if err := l.SetSlaves(s.t.Context(), 3); err != nil {
			s.t.Fatal(err)
		}
		pass(2 * time.Second)
		if err := s.launcher.Kill(s.t.Context(), s.running()[0].ID); err != nil {
			s.t.Fatal(err)
		}
		pass(100 * time.Millisecond)
		if got, want := s.roles(), fmt.Sprintf("%d master 2", p+1); !slices.Contains(got, want) {
			s.t.Errorf("got %v, want %s immediately", got, want)
		}
		newcomers := len(s.running())
		pass(2 * time.Minute)
		if got := s.running(); len(got) > newcomers || got[len(got)-1].PID < p+5 {
			s.t.Errorf("got %v, want those that do not answer replaced by others", got)
		}
	})
}
