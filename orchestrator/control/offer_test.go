package control_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/control"
)

// The states of a link.
const (
	linkWell    = iota
	linkRefuses // every call fails immediately
	linkSilent  // no call is answered
	linkNoRoom  // persdb answers, but cannot store an epoch
)

// link is an orchestrator's way to persdb.
type link struct {
	*epochs
	state atomic.Int32
}

var errCut = errors.New("persdb is not reached")

func (l *link) passes(ctx context.Context) error {
	switch l.state.Load() {
	case linkRefuses:
		return errCut
	case linkSilent:
		<-ctx.Done()
		return ctx.Err()
	default:
		return nil
	}
}

func (l *link) Head(ctx context.Context) (dbaas.Head, error) {
	if err := l.passes(ctx); err != nil {
		return dbaas.Head{}, err
	}
	return l.epochs.Head(ctx)
}

func (l *link) Claim(ctx context.Context) (dbaas.Epoch, error) {
	if err := l.passes(ctx); err != nil {
		return 0, err
	}
	if l.state.Load() == linkNoRoom {
		return 0, errors.New("the disk is full")
	}
	return l.epochs.Claim(ctx)
}

// linked is an orchestrator with its own way to persdb.
type linked struct {
	*control.Loop
	store *link
}

// withLinks runs a test in fake time with two orchestrators, of which the first one leads.
func withLinks(t *testing.T, story func(s *rig, leader, standby linked)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		defer s.end()
		var both []linked
		for range 2 {
			o := linked{store: &link{epochs: s.store}}
			var stop func()
			o.Loop, stop = s.orchestrateWith(control.Config{Coordinator: s.coord, Store: o.store, Slaves: 2})
			defer stop()
			s.reconcile()
			both = append(both, o)
		}
		story(s, both[0], both[1])
	})
}

// killMaster kills the worker with the lowest pid, which is the master.
func (s *rig) killMaster() {
	s.t.Helper()
	if err := s.launcher.Kill(s.t.Context(), s.running()[0].ID); err != nil {
		s.t.Fatal(err)
	}
}

// A leader that alone loses persdb cannot elect a master. It offers the lead, and a standby takes the lead over and elects.
func TestLoop_LeaderLosesPersdb_StandbyElects(t *testing.T) {
	for name, state := range map[string]int32{"Refused": linkRefuses, "Silent": linkSilent} {
		t.Run(name, func(t *testing.T) {
			withLinks(t, func(s *rig, leader, standby linked) {
				p := s.first()
				leader.store.state.Store(state)
				s.killMaster()
				pass(10 * time.Second)
				if !standby.Leads() {
					s.t.Error("the standby does not lead after 10 s")
				}
				s.reconcile()
				s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
				pass(time.Minute)
				if leader.Leads() || !standby.Leads() {
					s.t.Errorf("leads: got %t and the standby %t, want the standby", leader.Leads(), standby.Leads())
				}
			})
		})
	}
}

// The lead is offered at most once in ten seconds, whatever the two orchestrators reach.
func TestLoop_PersdbLostByEachLeader_LeadMovesRarely(t *testing.T) {
	withLinks(t, func(s *rig, leader, standby linked) {
		leader.store.state.Store(linkRefuses)
		s.killMaster()
		awaitLead(peer{Loop: standby.Loop}, time.Minute)
		standby.store.state.Store(linkRefuses)
		leader.store.state.Store(linkWell)
		s.killMaster()
		if took := awaitLead(peer{Loop: leader.Loop}, time.Minute); took < 9*time.Second || took > 15*time.Second {
			s.t.Errorf("the lead went back after %v, want some ten seconds", took)
		}
		s.reconcile()
		if got := s.roles(); len(got) != 3 || !strings.Contains(got[0], "master") {
			s.t.Errorf("got %v, want a master", got)
		}
	})
}

// The lead stays while persdb is lost for less than three seconds at a time.
func TestLoop_LeaderLosesPersdbBriefly_LeadStays(t *testing.T) {
	withLinks(t, func(s *rig, leader, standby linked) {
		for range 2 {
			leader.store.state.Store(linkRefuses)
			s.killMaster()
			pass(2 * time.Second)
			if standby.Leads() {
				s.t.Fatal("the lead has moved")
			}
			leader.store.state.Store(linkWell)
			s.reconcile()
		}
	})
}

// While nobody reaches persdb, or persdb itself cannot store an epoch, another leader would not help: the lead stays.
func TestLoop_PersdbAwayForAll_LeadStays(t *testing.T) {
	for name, state := range map[string]int32{"Refused": linkRefuses, "Silent": linkSilent, "NoRoom": linkNoRoom} {
		t.Run(name, func(t *testing.T) {
			withLinks(t, func(s *rig, leader, standby linked) {
				p := s.first()
				leader.store.state.Store(state)
				standby.store.state.Store(state)
				s.killMaster()
				for range 600 {
					pass(500 * time.Millisecond)
					if !leader.Leads() || standby.Leads() {
						s.t.Fatal("the lead has moved")
					}
				}
				leader.store.state.Store(linkWell)
				standby.store.state.Store(linkWell)
				s.reconcile()
				if got, want := s.roles(), fmt.Sprintf("%d master", p+1); len(got) != 3 || !strings.HasPrefix(got[0], want) {
					s.t.Errorf("persdb is back: got %v, want %s", got, want)
				}
			})
		})
	}
}

// A leader without a standby goes on as before.
func TestLoop_OnlyLeaderLosesPersdb_LeadsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		defer s.end()
		store := &link{epochs: s.store}
		l, stop := s.orchestrateWith(control.Config{Coordinator: s.coord, Store: store, Slaves: 2})
		defer stop()
		s.reconcile()
		p := s.first()
		store.state.Store(linkRefuses)
		s.killMaster()
		for range 600 {
			pass(100 * time.Millisecond)
			if !l.Leads() || l.CoordinatorReady(t.Context()) != nil {
				t.Fatal("it does not lead on")
			}
		}
		store.state.Store(linkWell)
		s.reconcile()
		s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// A hand-over that could not be completed is not begun: without persdb the master keeps its role.
func TestLoop_HandOverWithoutPersdb_MasterStays(t *testing.T) {
	withLinks(t, func(s *rig, leader, standby linked) {
		before, assigned := s.roles(), s.assigned.Load()
		leader.store.state.Store(linkRefuses)
		standby.store.state.Store(linkSilent)
		if _, err := leader.HandOver(s.t.Context(), 0, dbaas.Seen{}); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			s.t.Errorf("got %v, want %s", err, dbaas.CodeUnavailable)
		}
		s.want(before...)
		if got := s.assigned.Load() - assigned; got != 0 {
			s.t.Errorf("got %d roles given, want none", got)
		}
	})
}

// A hand-over that the leader cannot complete is completed by a standby that reaches persdb.
func TestLoop_HandOverLeaderWithoutPersdb_StandbyDoesIt(t *testing.T) {
	withLinks(t, func(s *rig, leader, standby linked) {
		p := s.first()
		leader.store.state.Store(linkRefuses)
		got, err := leader.HandOver(s.t.Context(), 0, dbaas.Seen{})
		if want := (control.HandedOver{OldPID: p, OldEpoch: 1, NewPID: p + 1, NewEpoch: 2}); err != nil || got != want {
			s.t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if !standby.Leads() {
			s.t.Error("the standby does not lead")
		}
	})
}
