package coordtest

import (
	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/conformance"
)

// All sessions see a registration, with its latest content, until it is withdrawn.
func testRegister(s *suite) {
	a, b := s.open(), s.open()
	m := coord.Member{PID: 1001, Worker: "w1", Role: dbaas.RoleSlave, Epoch: 3, Applied: 7, Control: "http://w1"}
	s.register(a, m)
	s.wantMembers(b, m)
	m.Role, m.Epoch, m.Applied = dbaas.RoleMaster, 4, 9
	s.register(a, m)
	s.wantMembers(b, m)
	if err := a.Unregister(s.Context(), m); err != nil {
		s.Fatalf("unregister: got %v, want nil", err)
	}
	s.wantMembers(b)
	if err := a.Unregister(s.Context(), m); err != nil {
		s.Errorf("unregister again: got %v, want nil", err)
	}
}

// Members are listed by number, not by text, whoever registered them and when.
func testOrdered(s *suite) {
	a, b := s.open(), s.open()
	second, first, third := coord.Member{PID: 999, Worker: "x"}, coord.Member{PID: 20, Worker: "z"}, coord.Member{PID: 1000, Worker: "a"}
	s.register(a, third)
	s.register(b, second)
	s.register(a, first)
	s.wantMembers(b, first, second, third)
}

// Workers of two hosts may have the same pid: each has its own registration.
func testHosts(s *suite) {
	a, b := s.open(), s.open()
	onA, onB := coord.Member{PID: 7, Host: "a", Worker: "x"}, coord.Member{PID: 7, Host: "b", Worker: "w"}
	s.register(b, onB)
	s.register(a, onA)
	s.wantMembers(a, onA, onB)
	if err := a.Unregister(s.Context(), onA); err != nil {
		s.Errorf("unregister: got %v, want nil", err)
	}
	s.wantMembers(b, onB)
	if err := a.Evict(s.Context(), onB); err != nil {
		s.Errorf("evict: got %v, want nil", err)
	}
	s.wantMembers(b)
}

// Close ends the session and its registrations immediately; the session cannot be used any more.
func testClose(s *suite) {
	a, b := s.open(), s.open()
	m := coord.Member{PID: 1, Worker: "w1"}
	s.register(a, m)
	for range 2 {
		if err := a.Close(); err != nil {
			s.Fatalf("close: got %v, want nil", err)
		}
	}
	s.register(b, coord.Member{PID: 1, Worker: "w2"})
	s.WantError("register after Close", a.Register(s.Context(), m), coord.ErrSessionLost)
	_, err := a.Members(s.Context())
	s.WantError("members after Close", err, coord.ErrSessionLost)
	_, err = a.Lead(s.Context(), "me")
	s.WantError("lead after Close", err, coord.ErrSessionLost)
	if !inDoubt(a) {
		s.Error("Suspended after Close: open, want closed")
	}
}

// A dead process's registration keeps its name until its session ends, even against its successor; then the name is
// free.
func testAbandoned(s *suite) {
	dead, successor := s.open(), s.open()
	m := coord.Member{PID: 1, Worker: "old"}
	s.register(dead, m)
	s.world.Abandon(s.T, dead)
	next := coord.Member{PID: 1, Worker: "new"}
	s.WantError("register before the session ended", successor.Register(s.Context(), next), coord.ErrExists)
	s.wantMembers(successor, m)
	s.Eventually(func() error { return successor.Register(s.Context(), next) })
	s.wantMembers(successor, next)
}

// Unregister does not touch the registrations of other sessions.
func testUnregisterOwn(s *suite) {
	a, b := s.open(), s.open()
	m := coord.Member{PID: 1, Worker: "w1"}
	s.register(a, m)
	if err := b.Unregister(s.Context(), m); err != nil {
		s.Errorf("unregister of another's: got %v, want nil", err)
	}
	s.wantMembers(b, m)
}

// Evict removes the registration of a worker that is known to be dead, but not that of a living worker that now has
// its pid.
func testExpel(s *suite) {
	a, b := s.open(), s.open()
	m := coord.Member{PID: 1, Worker: "living"}
	s.register(a, m)
	if err := b.Evict(s.Context(), coord.Member{PID: 1, Worker: "dead"}); err != nil {
		s.Errorf("evict a worker that is not registered: got %v, want nil", err)
	}
	s.wantMembers(b, m)
	if err := b.Evict(s.Context(), m); err != nil {
		s.Errorf("evict: got %v, want nil", err)
	}
	s.wantMembers(b)
	// If the owner is alive after all, it may register again.
	s.register(a, m)
	s.wantMembers(b, m)
}

// A watcher is woken by each kind of change, including its own changes and another client's death, and by the end of
// its own session.
func testWatch(s *suite) {
	a, b := s.open(), s.open()
	leaving, leader := s.open(), s.open()
	if now, err := leader.Lead(s.Context(), "me"); err != nil || !now {
		s.Fatalf("lead: got %t, %v, want true", now, err)
	}
	changes := []struct {
		what string
		do   func() error
	}{
		{"a registration", func() error { return a.Register(s.Context(), coord.Member{PID: 1, Worker: "w1"}) }},
		{"an update", func() error { return a.Register(s.Context(), coord.Member{PID: 1, Worker: "w1", Applied: 5}) }},
		{"the end of a registration", func() error { return a.Unregister(s.Context(), coord.Member{PID: 1}) }},
		{"a slave count", func() error { return a.SetSlaveCount(s.Context(), 2, 0) }},
		{"an own registration", func() error { return b.Register(s.Context(), coord.Member{PID: 2, Worker: "w2"}) }},
		{"a doomed one", func() error { return leaving.Register(s.Context(), coord.Member{PID: 3, Worker: "w3"}) }},
		{"a death", func() error { s.world.Abandon(s.T, leaving); return nil }},
		{"the leader's end", leader.Close},
		{"the end of the own session", b.Close},
	}
	for _, change := range changes {
		drain(b.Watch())
		if err := change.do(); err != nil {
			s.Fatalf("%s: got %v, want nil", change.what, err)
		}
		conformance.Receive(s.Suite, "token for "+change.what, b.Watch())
	}
}

func drain(c <-chan struct{}) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}
