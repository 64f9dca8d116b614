// Package launchtest is the conformance suite of the launchers: what every
// implementation of launch.Launcher must do, with one test for each promise. It
// also has Lossy, the faults of an engine's answers, for tests of what uses a launcher.
package launchtest

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/conformance"
	"rideshare/orchestrator/launch"
)

// Features says how the tests of an implementation run.
type Features struct {
	// Bubble runs each test in a synctest bubble. It needs an implementation
	// without processes and sockets.
	Bubble bool
	// Patience bounds the wait for what must happen, and a worker's graceful end; zero means 30 s.
	Patience time.Duration
}

// World is a launcher for one test, without workers at first. Its workers run until they are asked to end.
type World interface {
	launch.Launcher
	// Exit makes a running worker end by itself with that exit code.
	Exit(t testing.TB, id dbaas.WorkerID, code int)
	// Stubborn makes a running worker ignore the request to finish.
	Stubborn(t testing.TB, id dbaas.WorkerID)
}

// NewWorld makes a World and removes its workers after the test.
type NewWorld func(t testing.TB) World

// Run runs the suite.
func Run(t *testing.T, f Features, newWorld NewWorld) {
	t.Helper()
	f.Patience = cmp.Or(f.Patience, 30*time.Second)
	tests := []struct {
		name string
		run  func(s *suite)
	}{
		{"StartedRuns", testStart},
		{"StartIsIdempotent", testStartTwice},
		{"StartAtTheSameTimeIsOne", testStartTogether},
		{"StartWithLostAnswerIsFound", testLostAnswer},
		{"StartWithLostRequestIsSafe", testLostRequest},
		{"StartOfTheDeadStartsNothing", testStartDead},
		{"KilledIsDead", testKill},
		{"UnknownIsNoWorker", testUnknown},
		{"StopIsGraceful", testStop},
		{"StopEndsInKill", testStopStubborn},
		{"ExitCodeIsKept", testExit},
		{"RemoveForgetsTheDead", testRemove},
		{"RunningIsNotRemoved", testRemoveRunning},
		{"ListIsOrdered", testList},
		{"EventsWake", testEvents},
	}
	for _, one := range tests {
		conformance.Run(t, one.name, f.Bubble, func(t *testing.T) {
			t.Helper()
			one.run(&suite{Suite: &conformance.Suite{T: t, Patience: f.Patience}, world: newWorld(t)})
		})
	}
}

// suite is what one test works with.
type suite struct {
	*conformance.Suite
	world World
}

func (s *suite) start(startID string) launch.Instance {
	s.Helper()
	i, err := s.world.Start(s.Context(), startID)
	if err != nil {
		s.Fatalf("start %s: got %v, want a worker", startID, err)
	}
	return i
}

func (s *suite) kill(id dbaas.WorkerID) {
	s.Helper()
	if err := s.world.Kill(s.Context(), id); err != nil {
		s.Fatalf("kill %s: got %v, want nil", id, err)
	}
}

func (s *suite) remove(id dbaas.WorkerID) {
	s.Helper()
	if err := s.world.Remove(s.Context(), id); err != nil {
		s.Fatalf("remove %s: got %v, want nil", id, err)
	}
}

func (s *suite) list() []launch.Instance {
	s.Helper()
	list, err := s.world.List(s.Context())
	if err != nil {
		s.Fatalf("list: got %v, want nil", err)
	}
	return list
}

// find returns the worker as List returns it.
func (s *suite) find(id dbaas.WorkerID) launch.Instance {
	s.Helper()
	for _, i := range s.list() {
		if i.ID == id {
			return i
		}
	}
	s.Fatalf("worker %s is not listed", id)
	return launch.Instance{}
}

// wantDead checks that List returns the worker as dead, with that exit code.
func (s *suite) wantDead(id dbaas.WorkerID, code int) {
	s.Helper()
	if err := dead(s.find(id), code); err != nil {
		s.Fatal(err)
	}
}

func dead(i launch.Instance, code int) error {
	if i.Running || i.PID != 0 || i.ExitCode != code {
		return fmt.Errorf("worker %s: running %v, pid %d, exit code %d; want it dead with code %d", i.ID, i.Running, i.PID, i.ExitCode, code)
	}
	return nil
}
