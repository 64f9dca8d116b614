package coordtest

import (
	"errors"

	"rideshare/internal/coord"
	"rideshare/internal/testkit/conformance"
)

// A short cut causes only errors while it lasts; a longer one after it counts from its own beginning. A process that stands still
// suspends also a session that is never cut off: then the test tries again with others.
func testShortCut(s *suite) {
	const tries = 3
	for try := 1; ; try++ {
		a, uncut := s.open(), s.open()
		s.shortCut(a, coord.Member{PID: try, Worker: "w1"})
		if !inDoubt(a) {
			s.wantMembers(uncut, coord.Member{PID: try, Worker: "w1"})
			s.world.Cut(s.T, a)
			conformance.Receive(s.Suite, "suspension after a long cut", a.Suspended())
			s.wantMembers(uncut)
			return
		}
		if !inDoubt(uncut) || try == tries {
			s.Fatal("Suspended after a short cut: closed, want open")
		}
		_ = errors.Join(a.Close(), uncut.Close())
	}
}

// shortCut registers m, and cuts the session off for a moment, which does not suspend it.
func (s *suite) shortCut(session coord.Session, m coord.Member) {
	s.Helper()
	s.register(session, m)
	s.world.Cut(s.T, session)
	_, err := session.Members(s.short())
	s.WantError("members while cut off", err, coord.ErrUnavailable)
	s.world.Heal(s.T, session)
	s.Eventually(func() error { return session.Register(s.Context(), m) })
	s.Pass(2 * session.Timeout())
}
