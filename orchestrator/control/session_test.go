package control_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/wait"
)

// slowCoordinator takes longer to open a session than a pass waits.
type slowCoordinator struct {
	coord.Coordinator
	open atomic.Int64 // sessions that were not closed
}

func (c *slowCoordinator) Open(ctx context.Context) (coord.Session, error) {
	if !wait.For(ctx, 2500*time.Millisecond) {
		return nil, coord.ErrUnavailable
	}
	s, err := c.Coordinator.Open(ctx)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedSession{Session: s, closed: func() { c.open.Add(-1) }}, nil
}

// countedSession calls closed when it is closed.
type countedSession struct {
	coord.Session
	closed func()
}

func (s *countedSession) Close() error {
	s.closed()
	return s.Session.Close()
}

// A coordinator that needs longer for a session than a pass waits gives the loop a session all the same, also after the
// first session was lost.
func TestLoop_SessionTakesLong_OpenedAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		c := &slowCoordinator{Coordinator: s.coord}
		l, stop := s.orchestrateOn(c, 2)
		defer s.end()
		defer stop()
		pass(time.Minute)
		if got := len(s.running()); got != 3 {
			t.Fatalf("got %d workers, want 3", got)
		}
		s.coord.Pause()
		s.reconcile()
		if err := l.CoordinatorReady(t.Context()); !errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("coordinator paused: got %v, want %v", err, coord.ErrUnavailable)
		}
		s.coord.Resume()
		s.reconcile()
		if err := l.CoordinatorReady(t.Context()); err != nil {
			t.Errorf("coordinator is back: got %v, want a session", err)
		}
		if got := c.open.Load(); got != 1 {
			t.Errorf("got %d open sessions, want 1", got)
		}
	})
}

// An orchestrator that ends leaves no session open, whether it ends before its session is opened, before a pass takes the
// session, or later.
func TestLoop_EndsWhileSessionIsOpened_NoneStaysOpen(t *testing.T) {
	for name, after := range map[string]time.Duration{"Waiting": time.Second, "Opening": 2200 * time.Millisecond, "Untaken": 2700 * time.Millisecond, "Taken": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRig(t)
				c := &slowCoordinator{Coordinator: s.coord}
				_, stop := s.orchestrateOn(c, 2)
				defer s.end()
				pass(after)
				if got, want := c.open.Load() == 1, after > 2500*time.Millisecond; got != want {
					t.Errorf("a session is open after %v: got %t, want %t", after, got, want)
				}
				stop()
				if got := c.open.Load(); got != 0 {
					t.Errorf("got %d open sessions, want none", got)
				}
			})
		})
	}
}
