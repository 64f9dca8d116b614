// Package coordtest is the conformance suite of the coordinator: what every
// implementation of coord.Coordinator must do, with one test for each promise.
package coordtest

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/testkit/conformance"
	"rideshare/internal/wait"
)

// Features says how the tests of an implementation run.
type Features struct {
	// Bubble runs each test in a synctest bubble: instantly, and with a proof
	// that no goroutine is left. It needs an implementation without sockets.
	Bubble bool
	// Patience limits the wait for what must happen. It must be several session timeouts; zero means 60 s.
	Patience time.Duration
	// LateRequests reports that a frozen coordinator, when it resumes, may handle a request that was waiting before
	// it ends the sessions that have expired.
	LateRequests bool
}

// World is an empty coordinator for one test, with the faults that tests need.
type World interface {
	coord.Coordinator
	// Abandon ends a session's process abruptly.
	Abandon(t testing.TB, s coord.Session)
	// Cut keeps a session's client from reaching the coordinator until Heal.
	Cut(t testing.TB, s coord.Session)
	Heal(t testing.TB, s coord.Session)
	// Stop kills the coordinator's process; Start starts it again with its data.
	Stop(t testing.TB)
	Start(t testing.TB)
	// Pause freezes the coordinator's process until Resume.
	Pause(t testing.TB)
	Resume(t testing.TB)
}

// NewWorld makes a World and cleans up after the test.
type NewWorld func(t testing.TB) World

// Run runs the suite.
func Run(t *testing.T, f Features, newWorld NewWorld) {
	t.Helper()
	f.Patience = cmp.Or(f.Patience, time.Minute)
	tests := []struct {
		name string
		run  func(s *suite)
	}{
		{"RegistrationsAppearAndChange", testRegister},
		{"MembersAreOrdered", testOrdered},
		{"HostsMayShareAPID", testHosts},
		{"CloseEndsAtOnce", testClose},
		{"AbandonedNameIsTakenThenFree", testAbandoned},
		{"UnregisterOnlyOwn", testUnregisterOwn},
		{"ExpelOnlyThatWorker", testExpel},
		{"SlaveCountIsCompareAndSet", testSlaveCount},
		{"ValuesAreCompareAndSet", testValues},
		{"LeadIsExclusive", testLead},
		{"LeadPassesOnAfterDeath", testLeadAfterDeath},
		{"TakeOverEndsOneTerm", testTakeOver},
		{"WatchWakes", testWatch},
		{"DoubtComesBeforeLoss", testDoubt},
		{"ShortCutChangesNothing", testShortCut},
		{"SessionsSurviveRestart", testRestart},
		{"SessionsInDoubtAfterLongPause", testPause},
		{"OpenWaits", testOpenWaits},
	}
	for _, one := range tests {
		conformance.Run(t, one.name, f.Bubble, func(t *testing.T) {
			t.Helper()
			one.run(&suite{Suite: &conformance.Suite{T: t, Patience: f.Patience}, features: f, world: newWorld(t)})
		})
	}
}

// suite is the state of one test.
type suite struct {
	*conformance.Suite
	features Features
	world    World
}

// open returns a session of a new client.
func (s *suite) open() coord.Session {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), s.Patience)
	defer cancel()
	session, err := s.world.Open(ctx)
	if err != nil {
		s.Fatalf("open: got %v, want a session", err)
	}
	s.Cleanup(func() { _ = session.Close() })
	return session
}

func (s *suite) register(session coord.Session, m coord.Member) {
	s.Helper()
	if err := session.Register(s.Context(), m); err != nil {
		s.Fatalf("register %v: got %v, want nil", m, err)
	}
}

// wantMembers waits until session sees exactly these registrations.
func (s *suite) wantMembers(session coord.Session, want ...coord.Member) {
	s.Helper()
	s.Eventually(func() error {
		got, err := session.Members(s.Context())
		if err != nil {
			return err
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("got members %v, want %v", got, want)
		}
		return nil
	})
}

// inDoubt reports whether the session is suspended.
func inDoubt(session coord.Session) bool { return wait.Closed(session.Suspended()) }
