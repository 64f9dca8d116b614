package control_test

import (
	"fmt"
	"testing"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/orchestrator/control"

	"github.com/google/go-cmp/cmp"
)

func persdbLost(w control.Worker, since time.Time) control.Worker {
	w.PersdbLost, w.PersdbSince = true, since
	return w
}

// A master that has long lost persdb while a slave that could succeed it has long had it is fenced and then killed. Otherwise it is
// left alone. A worker without persdb gets the role only if no other is fit.
func TestPlan_PersdbLost(t *testing.T) {
	long, short := ago(5*time.Second), ago(5*time.Second-1)
	leaving, yielding, back := persdbLost(master(1), long), master(1), slave(2)
	leaving.Leaving, yielding.YieldTo, back.PersdbSince = true, "w2", short
	for name, tt := range map[string]struct {
		workers []control.Worker
		since   time.Time // of the orchestrator's session at the coordinator
		want    []string
	}{
		"Master_FencedBeforeTheKill":         {workers: []control.Worker{persdbLost(master(1), long), slave(2)}, want: []string{"fence w1", "kill w1"}},
		"MasterNotForLong_LeftAlone":         {workers: []control.Worker{persdbLost(master(1), short), slave(2)}},
		"SlaveHasItNotForLong_LeftAlone":     {workers: []control.Worker{persdbLost(master(1), long), back}},
		"AllWorkers_LeftAlone":               {workers: []control.Worker{persdbLost(master(1), long), persdbLost(slave(2), long)}},
		"SlaveDoesNotFollow_LeftAlone":       {workers: []control.Worker{persdbLost(master(1), long), rebuilding(slave(2))}},
		"SlaveWithoutTheBus_LeftAlone":       {workers: []control.Worker{persdbLost(master(1), long), busLost(slave(2), short)}},
		"CoordinatorIsBackOnlyNow_LeftAlone": {workers: []control.Worker{persdbLost(master(1), long), slave(2)}, since: short},
		"Slave_LeftAlone":                    {workers: []control.Worker{master(1), persdbLost(slave(2), long)}},
		"MasterLeaves_HandsOver":             {workers: []control.Worker{leaving, slave(2)}, want: []string{"demote w1", "promote w2", "start "}},
		"HandOver_NotToWhoHasLostIt":         {workers: []control.Worker{yielding, persdbLost(slave(2), short)}},
		"Election_WhoHasItBeatsPID":          {workers: []control.Worker{dead(master(1)), persdbLost(slave(2), short), slave(3)}, want: []string{"remove w1", "promote w3"}},
		"Election_NobodyHasIt_TheFitOne":     {workers: []control.Worker{dead(master(1)), bare(slave(2)), persdbLost(slave(3), short)}, want: []string{"remove w1", "promote w3"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := control.Plan(control.Observed{
				Now: planNow, Workers: tt.workers, CoordinatorUp: true, CoordinatorSince: tt.since, BusSince: ago(time.Hour),
			}, control.Desired{Slaves: 1}, planLimits)
			if diff := cmp.Diff(tt.want, kinds(got)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// A master that alone has lost persdb is replaced in two new epochs: of the claim before its death, and of the election.
func TestLoop_MasterLosesPersdb_Replaced(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		p := s.first()
		s.worker(s.running()[0].ID).losePersdb(s.t)
		pass(4 * time.Second)
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d slave 0", p+2))
		s.reconcile()
		s.want(fmt.Sprintf("%d master 3", p+1), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// While persdb does not answer the orchestrator either, no role changes and no worker ends, however often it is asked. A master whose
// mark goes meanwhile stays master.
func TestLoop_MasterLosesPersdb_ClaimFails_LeftAlone(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		before, assigned := s.roles(), s.assigned.Load()
		master := s.worker(s.running()[0].ID)
		s.store.setAway(true)
		master.losePersdb(s.t)
		s.reconcile()
		s.reconcile()
		if s.store.refused < 2 {
			s.t.Errorf("got %d claims, want them repeated", s.store.refused)
		}
		master.announce(s.t, func(m *coord.Member) { m.PersdbLost = false })
		s.reconcile()
		s.store.setAway(false)
		s.reconcile()
		s.want(before...)
		if got := s.assigned.Load(); got != assigned {
			s.t.Errorf("got %d assignments, want none", got-assigned)
		}
	})
}

// While all workers have lost persdb, no epoch is claimed. When it is back, the workers notice that at different times, and the
// master keeps its role.
func TestLoop_AllLosePersdb_MasterKeepsItsRole(t *testing.T) {
	bubble(t, func(s *rig, _ *control.Loop) {
		before := s.roles()
		workers := s.running()
		for _, in := range workers {
			s.worker(in.ID).losePersdb(s.t)
			pass(2 * time.Second)
		}
		s.reconcile()
		for i := range workers {
			s.worker(workers[len(workers)-1-i].ID).announce(s.t, func(m *coord.Member) { m.PersdbLost = false })
			pass(2 * time.Second)
		}
		s.reconcile()
		s.want(before...)
		if s.store.last != 1 {
			s.t.Errorf("got epoch %d, want no claim after the first", s.store.last)
		}
	})
}

// A slave that has lost persdb gets no role handed over.
func TestLoop_HandOver_NotToWhoHasLostPersdb(t *testing.T) {
	bubble(t, func(s *rig, l *control.Loop) {
		p := s.first()
		s.worker(s.running()[1].ID).losePersdb(s.t)
		s.reconcile()
		if _, err := l.HandOver(s.t.Context(), p+1, dbaas.Seen{}); dbaas.CodeOf(err) != dbaas.CodeConflict {
			s.t.Errorf("to %d: got %v, want %s", p+1, err, dbaas.CodeConflict)
		}
		if got, err := l.HandOver(s.t.Context(), 0, dbaas.Seen{}); err != nil || got.NewPID != p+2 {
			s.t.Errorf("got %+v, %v, want %d as the new master", got, err, p+2)
		}
	})
}
