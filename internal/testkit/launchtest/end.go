package launchtest

import (
	"time"

	"rideshare/orchestrator/launch"
)

// A killed worker is dead when Kill returns, and killing it again is no error.
func testKill(s *suite) {
	i, other := s.start("s1"), s.start("s2")
	s.kill(i.ID)
	s.wantDead(i.ID, 137)
	s.kill(i.ID)
	if err := s.world.Stop(s.Context(), i.ID, s.Patience); err != nil {
		s.Errorf("stop of a dead worker: got %v, want nil", err)
	}
	s.wantDead(i.ID, 137)
	if !s.find(other.ID).Running {
		s.Error("another worker died too")
	}
}

// A worker that never existed, or was removed, cannot be killed or stopped.
func testUnknown(s *suite) {
	i := s.start("s1")
	s.WantError("kill", s.world.Kill(s.Context(), "never-seen"), launch.ErrNoWorker)
	s.WantError("stop", s.world.Stop(s.Context(), "never-seen", time.Second), launch.ErrNoWorker)
	s.kill(i.ID)
	s.remove(i.ID)
	s.WantError("kill after removal", s.world.Kill(s.Context(), i.ID), launch.ErrNoWorker)
	s.WantError("stop after removal", s.world.Stop(s.Context(), i.ID, time.Second), launch.ErrNoWorker)
}

// A worker that finishes within its grace has ended well.
func testStop(s *suite) {
	i := s.start("s1")
	if err := s.world.Stop(s.Context(), i.ID, s.Patience); err != nil {
		s.Fatalf("stop: got %v, want nil", err)
	}
	s.wantDead(i.ID, 0)
}

// A worker that does not finish within its grace is killed.
func testStopStubborn(s *suite) {
	i := s.start("s1")
	s.world.Stubborn(s.T, i.ID)
	if err := s.world.Stop(s.Context(), i.ID, time.Second); err != nil {
		s.Fatalf("stop: got %v, want nil", err)
	}
	s.wantDead(i.ID, 137)
}

// A worker that ends by itself is listed with its exit code.
func testExit(s *suite) {
	for _, code := range []int{0, 3} {
		i := s.start("exits with " + string(rune('0'+code)))
		s.world.Exit(s.T, i.ID, code)
		s.Eventually(func() error { return dead(s.find(i.ID), code) })
		s.kill(i.ID)
		s.wantDead(i.ID, code)
	}
}

// A removed worker is forgotten; removing it again is no error.
func testRemove(s *suite) {
	i := s.start("s1")
	s.kill(i.ID)
	s.remove(i.ID)
	if list := s.list(); len(list) != 0 {
		s.Errorf("after removal: got %+v listed, want none", list)
	}
	s.remove(i.ID)
	s.remove("never-seen")
}

// A running worker cannot be removed, and runs on.
func testRemoveRunning(s *suite) {
	i := s.start("s1")
	if err := s.world.Remove(s.Context(), i.ID); err == nil {
		s.Error("remove a running worker: got nil, want an error")
	}
	if !s.find(i.ID).Running {
		s.Error("the refused removal ended the worker")
	}
}

// A start and each kind of death wake the reader of events.
func testEvents(s *suite) {
	events := s.world.Events()
	wake := func(what string, do func()) {
		s.Helper()
		s.settle(events)
		do()
		select {
		case <-events:
		case <-time.After(s.Patience):
			s.Fatalf("no event for %s", what)
		}
	}
	var a, b, c launch.Instance
	wake("a start", func() { a = s.start("a") })
	b, c = s.start("b"), s.start("c")
	wake("a kill", func() { s.kill(a.ID) })
	wake("a stop", func() {
		if err := s.world.Stop(s.Context(), b.ID, s.Patience); err != nil {
			s.Errorf("stop: got %v, want nil", err)
		}
	})
	wake("an exit", func() { s.world.Exit(s.T, c.ID, 1) })
}

// settle takes tokens until none arrives any more, so that the next token belongs to the next action.
func (s *suite) settle(events <-chan struct{}) {
	for {
		select {
		case <-events:
		case <-time.After(quiet):
			return
		}
	}
}

// quiet is how long no event may arrive before a test assumes that no more events follow.
const quiet = 2 * time.Second
