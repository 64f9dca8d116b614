package control_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinproc "rideshare/internal/coord/inproc"

	"rideshare/orchestrator/control"
)

// reach says which orchestrators get no answer from which, by base URL.
type reach struct {
	mu  sync.Mutex
	cut map[[2]string]bool // from, to
}

func (r *reach) set(from, to string, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut[[2]string{from, to}] = cut
}

// from returns the probe of one orchestrator.
func (r *reach) from(from string) func(context.Context, string) error {
	return func(ctx context.Context, to string) error {
		r.mu.Lock()
		cut := r.cut[[2]string{from, to}]
		r.mu.Unlock()
		if cut {
			<-ctx.Done()
			return errors.New("no answer")
		}
		return nil
	}
}

// peer is an orchestrator with its own way to the coordinator.
type peer struct {
	*control.Loop
	coord *coordinproc.Client
	url   string
}

// withPeers runs a test in fake time with two orchestrators, of which the first one leads.
func withPeers(t *testing.T, advertise bool, story func(s *hostsRig, r *reach, leader, standby peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, r := newHostsRig(t, "a", "b", "c"), &reach{cut: map[[2]string]bool{}}
		defer s.end()
		var peers []peer
		for _, url := range []string{"http://one", "http://two"} {
			p := peer{coord: s.coord.Dial(), url: url}
			cfg := control.Config{Name: "o", Slaves: 2, Coordinator: p.coord, LeaderAnswers: r.from(url)}
			if advertise {
				cfg.Advertise = url
			}
			var stop func()
			p.Loop, stop = s.run(cfg)
			defer stop()
			s.reconcile()
			peers = append(peers, p)
		}
		if !peers[0].Leads() || peers[1].Leads() {
			t.Fatal("the first one does not lead")
		}
		story(s, r, peers[0], peers[1])
	})
}

// awaitLead lets time pass until p leads, and returns how long that took.
func awaitLead(p peer, limit time.Duration) time.Duration {
	began := time.Now()
	for !p.Leads() && time.Since(began) < limit {
		pass(50 * time.Millisecond)
	}
	return time.Since(began)
}

// A standby takes over from a leader that is silent, long before the leader's session ends, and changes nothing else. The
// old leader notices when it continues.
func TestLoop_LeaderSilent_StandbyLeads(t *testing.T) {
	for name, cut := range map[string]bool{"LeaderCutOff": true, "OnlyTheWayIsCut": false} {
		t.Run(name, func(t *testing.T) {
			withPeers(t, true, func(s *hostsRig, r *reach, leader, standby peer) {
				before, assigned := layout(s.t, standby.Loop), s.assigned.Load()
				r.set(standby.url, leader.url, true)
				if cut { // without the coordinator it goes on, and renews the master's permission
					leader.coord.Partition()
				}
				if took := awaitLead(standby, hostSession); took < 1500*time.Millisecond || took > 3500*time.Millisecond {
					s.t.Errorf("leads after %v, want 2s to 3.5s", took)
				}
				if cut {
					leader.coord.Heal()
				}
				pass(1100 * time.Millisecond)
				if leader.Leads() {
					s.t.Error("the old leader still leads, want that it notices in its next pass")
				}
				pass(time.Minute)
				if !standby.Leads() || leader.Leads() {
					s.t.Errorf("got %t and %t, want that the new leader stays", standby.Leads(), leader.Leads())
				}
				if got := layout(s.t, standby.Loop); !slices.Equal(got, before) || s.store.last != 1 || !cut && s.assigned.Load() != assigned {
					s.t.Errorf("got %q and %d assignments, want no change of %q", got, s.assigned.Load()-assigned, before)
				}
			})
		})
	}
}

// A standby leaves a silent leader alone if it may itself be cut off from the coordinator, or does not know where to ask.
func TestLoop_LeaderSilent_StandbyUnproven(t *testing.T) {
	t.Run("CoordinatorAway", func(t *testing.T) {
		withPeers(t, true, func(s *hostsRig, r *reach, leader, standby peer) {
			standby.coord.Partition()
			r.set(standby.url, leader.url, true)
			pass(hostSession)
			if standby.Leads() {
				s.t.Error("leads, without the coordinator")
			}
			standby.coord.Heal()
			for standby.CoordinatorReady(s.t.Context()) != nil {
				pass(50 * time.Millisecond)
			}
			if took := awaitLead(standby, time.Minute); took < 2*time.Second { // it asks from the beginning
				s.t.Errorf("took over %v after the coordinator was back, want at least 2s", took)
			}
		})
	})
	t.Run("NoURL", func(t *testing.T) {
		withPeers(t, false, func(s *hostsRig, r *reach, leader, standby peer) {
			r.set(standby.url, "o", true)
			pass(time.Minute)
			if standby.Leads() || !leader.Leads() {
				s.t.Error("took over from a leader that did not say where it is")
			}
		})
	})
}

// Two orchestrators that never reach each other do not take the lead from each other for ever.
func TestLoop_LeadersCutFromEachOther_TakeOverLessAndLess(t *testing.T) {
	withPeers(t, true, func(s *hostsRig, r *reach, leader, standby peer) {
		r.set(standby.url, leader.url, true)
		r.set(leader.url, standby.url, true)
		changes, was := 0, true
		for range 3000 { // ten minutes
			pass(200 * time.Millisecond)
			if is := leader.Leads(); is != was {
				changes, was = changes+1, is
			}
		}
		if changes == 0 || changes > 16 {
			s.t.Errorf("got %d changes of the lead in ten minutes, want some, at most 16", changes)
		}
		if s.store.last != 1 {
			s.t.Errorf("got epoch %d, want no election", s.store.last)
		}
	})
}

// The leader and the master are lost with one host. Their successors do not wait for each other.
func TestLoop_LeaderAndMasterLost_Together(t *testing.T) {
	withPeers(t, true, func(s *hostsRig, r *reach, leader, standby peer) {
		s.pause("a")
		leader.coord.Partition()
		r.set(standby.url, leader.url, true)
		if took := s.awaitMaster(standby.Loop, 1); took > 5*time.Second {
			s.t.Errorf("the new master serves after %v, want at most 5s", took)
		}
	})
}

// A leader that was killed and restarted does not wait for the session of its earlier process.
func TestLoop_LeaderRestarted_TakesOverFromItsEarlierProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newHostsRig(t, "a", "b"), &reach{cut: map[[2]string]bool{}}
		defer s.end()
		earlier, err := s.coord.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = earlier.Close() }() // it lives for the whole test
		if leads, err := earlier.Lead(t.Context(), "http://one"); !leads || err != nil {
			t.Fatalf("got %t, %v", leads, err)
		}
		l, stop := s.run(control.Config{Name: "o", Slaves: 1, Advertise: "http://one", LeaderAnswers: r.from("http://one")})
		defer stop()
		if took := awaitLead(peer{Loop: l}, hostSession); took > 3500*time.Millisecond {
			t.Errorf("leads after %v, want at most 3.5s", took)
		}
		s.reconcile()
	})
}
