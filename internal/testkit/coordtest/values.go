package coordtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/testkit/conformance"
)

// shortCall is how long a test waits for a call that cannot succeed.
const shortCall = 100 * time.Millisecond

// The slave count is written only over the version that was read: of many concurrent increments none is lost.
func testSlaveCount(s *suite) {
	a := s.open()
	_, version, err := a.SlaveCount(s.Context())
	s.WantError("slave count before it was set", err, coord.ErrNone)
	if version != 0 {
		s.Errorf("version of what does not exist: got %d, want 0", version)
	}
	if err = a.SetSlaveCount(s.Context(), 0, 0); err != nil {
		s.Fatalf("first set: got %v, want nil", err)
	}
	s.WantError("second first set", a.SetSlaveCount(s.Context(), 9, 0), coord.ErrVersion)

	const clients, each = 4, 5
	var all sync.WaitGroup
	for range clients {
		session := s.open()
		all.Go(func() {
			for range each {
				s.addOne(session)
			}
		})
	}
	all.Wait()
	n, version, err := a.SlaveCount(s.Context())
	if n != clients*each || err != nil {
		s.Errorf("after %d additions: got %d and error %v", clients*each, n, err)
	}
	s.WantError("set over an old version", a.SetSlaveCount(s.Context(), 1, version-1), coord.ErrVersion)
	s.WantError("set over a version to come", a.SetSlaveCount(s.Context(), 1, version+1), coord.ErrVersion)
}

// addOne adds one to the slave count. It retries while other sessions write first.
func (s *suite) addOne(session coord.Session) {
	for {
		n, version, err := session.SlaveCount(s.Context())
		if err == nil {
			err = session.SetSlaveCount(s.Context(), n+1, version)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, coord.ErrVersion) {
			s.Errorf("add one: %v", err)
			return
		}
	}
}

// A named value is ErrNone until it is set, then written only over the version that was read. It is stored whole, is
// visible to all sessions, and is separate from other names and from the slave count.
func testValues(s *suite) {
	a, b := s.open(), s.open()
	_, version, err := a.Value(s.Context(), "one")
	s.WantError("value before it was set", err, coord.ErrNone)
	if version != 0 {
		s.Errorf("version of what does not exist: got %d, want 0", version)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 8<<10)
	for i, data := range [][]byte{{}, []byte("first"), large} {
		if err = a.SetValue(s.Context(), "one", data, coord.Version(i)); err != nil {
			s.Fatalf("set number %d: got %v, want nil", i+1, err)
		}
		s.WantError("set over an old version", b.SetValue(s.Context(), "one", []byte("late"), coord.Version(i)), coord.ErrVersion)
		got, version, valueErr := b.Value(s.Context(), "one")
		if valueErr != nil || version != coord.Version(i+1) || !bytes.Equal(got, data) {
			s.Errorf("value number %d: got %d bytes, version %d and error %v, want %d bytes", i+1, len(got), version, valueErr, len(data))
		}
	}
	if err = a.SetValue(s.Context(), "one", make([]byte, coord.MaxValueBytes+1), 3); err == nil {
		s.Error("set over the size limit: got nil, want an error")
	}
	_, _, err = a.Value(s.Context(), "other")
	s.WantError("another name", err, coord.ErrNone)
	_, _, err = a.SlaveCount(s.Context())
	s.WantError("slave count", err, coord.ErrNone)
}

// Only one session leads. Another session can lead once the leading one has ended.
func testLead(s *suite) {
	a, b := s.open(), s.open()
	s.wantLead(a, true)
	s.wantLead(a, true)
	s.wantLead(b, false)
	if err := a.Close(); err != nil {
		s.Fatalf("close: got %v, want nil", err)
	}
	s.Eventually(func() error { return s.leads(b) })
}

// A dead leader keeps the leadership until its session ends; then another can lead.
func testLeadAfterDeath(s *suite) {
	a, b := s.open(), s.open()
	s.wantLead(a, true)
	s.world.Abandon(s.T, a)
	s.wantLead(b, false)
	s.Eventually(func() error { return s.leads(b) })
}

// TakeOver ends the term that it names, of a leader whose session lives on, and no other term. Everybody who watches looks
// again.
func testTakeOver(s *suite) {
	a, b, watcher := s.open(), s.open(), s.open()
	_, err := b.Leader(s.Context())
	s.WantError("leader when there is none", err, coord.ErrNone)
	s.wantLead(a, true)
	first := s.leader(b)
	if first.Name != "somebody" || s.leader(a) != first {
		s.Fatalf("got %+v, want somebody, for both", first)
	}
	drain(watcher.Watch())
	s.takeOver(b, first, true)
	conformance.Receive(s.Suite, "token for the end of the term", watcher.Watch())
	s.wantLead(a, false)
	s.wantLead(b, true)
	second := s.leader(a)
	if second.Name != "next" || second.Term == first.Term {
		s.Fatalf("got %+v after %+v, want next, in another term", second, first)
	}
	s.takeOver(a, first, false) // late
	s.wantLead(b, true)
	s.takeOver(a, second, true)
	s.takeOver(b, first, false)
	s.takeOver(b, second, false)
	s.wantLead(a, true)
	third := s.leader(a)
	s.takeOver(a, third, true) // its own term
	s.wantLead(a, true)
	s.wantLead(b, false)
	s.takeOver(b, third, false)
	if err := a.Close(); err != nil {
		s.Fatalf("close: got %v, want nil", err)
	}
	s.Eventually(func() error { return s.leads(b) })
}

func (s *suite) leader(session coord.Session) coord.Leader {
	s.Helper()
	l, err := session.Leader(s.Context())
	if err != nil {
		s.Fatalf("leader: got %v, want nil", err)
	}
	return l
}

func (s *suite) takeOver(session coord.Session, from coord.Leader, want bool) {
	s.Helper()
	if got, err := session.TakeOver(s.Context(), from, "next"); got != want || err != nil {
		s.Fatalf("take over from %+v: got %t, %v, want %t", from, got, err, want)
	}
}

func (s *suite) wantLead(session coord.Session, want bool) {
	s.Helper()
	got, err := session.Lead(s.Context(), "somebody")
	if got != want || err != nil {
		s.Fatalf("lead: got %v and error %v, want %v", got, err, want)
	}
}

func (s *suite) leads(session coord.Session) error {
	leads, err := session.Lead(s.Context(), "somebody")
	if err == nil && !leads {
		err = errors.New("does not lead")
	}
	return err
}

// A session that is cut off is suspended before any other session can see its registration gone, and finds itself lost
// when it is back.
func testDoubt(s *suite) {
	a, b := s.open(), s.open()
	s.register(a, coord.Member{PID: 1, Worker: "w1"})
	s.world.Cut(s.T, a)
	s.Eventually(func() error {
		members, err := b.Members(s.Context())
		gone := err == nil && len(members) == 0
		if gone && !inDoubt(a) {
			s.Fatal("the registration is gone and its owner is not suspended")
		}
		if !gone {
			return fmt.Errorf("registration of a party that is cut off: %v (error %w)", members, err)
		}
		return nil
	})
	s.world.Heal(s.T, a)
	s.lost(a)
}

// lost waits until the session knows that it is lost.
func (s *suite) lost(session coord.Session) {
	s.Helper()
	s.Eventually(func() error {
		if _, err := session.Members(s.Context()); !errors.Is(err, coord.ErrSessionLost) {
			return fmt.Errorf("got error %w, want %w", err, coord.ErrSessionLost)
		}
		return nil
	})
	if !inDoubt(session) {
		s.Error("a session is lost and it was never suspended")
	}
}

// abandon waits until the coordinator reports the fate of a session that must be suspended, and closes the
// session.
func (s *suite) abandon(session coord.Session) {
	s.Helper()
	s.Eventually(func() error {
		if _, err := session.Members(s.Context()); !errors.Is(err, coord.ErrSessionLost) {
			return err
		}
		return nil
	})
	if !inDoubt(session) {
		s.Error("a session was of no use for long, and it was never suspended")
	}
	if err := session.Close(); err != nil {
		s.Errorf("close: got %v, want nil", err)
	}
}

// short returns a context for a call that cannot succeed.
func (s *suite) short() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), shortCall)
	s.Cleanup(cancel)
	return ctx
}

// A coordinator that was dead for long still has every session when it restarts; they are suspended, because their
// owners could not know.
func testRestart(s *suite) {
	a, b := s.open(), s.open()
	m := coord.Member{PID: 1, Worker: "w1"}
	s.register(a, m)
	if err := a.SetSlaveCount(s.Context(), 3, 0); err != nil {
		s.Fatalf("set: got %v, want nil", err)
	}
	if err := a.SetValue(s.Context(), "one", []byte("kept"), 0); err != nil {
		s.Fatalf("set a value: got %v, want nil", err)
	}
	s.world.Stop(s.T)
	conformance.Receive(s.Suite, "suspension", a.Suspended())
	s.Pass(2 * a.Timeout())
	_, err := b.Members(s.short())
	s.WantError("members while the coordinator is dead", err, coord.ErrUnavailable)
	s.world.Start(s.T)
	s.wantMembers(b, m)
	if n, _, err := b.SlaveCount(s.Context()); n != 3 || err != nil {
		s.Errorf("slave count after the restart: got %d and error %v, want 3", n, err)
	}
	if v, _, err := b.Value(s.Context(), "one"); string(v) != "kept" || err != nil {
		s.Errorf("value after the restart: got %q and error %v, want kept", v, err)
	}
	// Its owner replaces the session: closing the old session, once that is connected again, frees the name immediately.
	s.wantMembers(a, m)
	if err := a.Close(); err != nil {
		s.Fatalf("close: got %v, want nil", err)
	}
	s.register(s.open(), m)
}

// A coordinator that was frozen for long ends every session when it resumes, but see Features.LateRequests. Owners are
// suspended in either case, and can open new sessions.
func testPause(s *suite) {
	a, b := s.open(), s.open()
	m := coord.Member{PID: 1, Worker: "w1"}
	s.register(a, m)
	s.world.Pause(s.T)
	s.Pass(2 * a.Timeout())
	if !inDoubt(a) {
		s.Error("Suspended during a long pause: open, want closed")
	}
	_, err := a.Members(s.short())
	s.WantError("members while the coordinator is frozen", err, coord.ErrUnavailable)
	s.world.Resume(s.T)
	ended := s.lost
	if s.features.LateRequests {
		ended = s.abandon
	}
	ended(a)
	ended(b)
	c := s.open()
	s.wantMembers(c)
	s.register(c, m)
}

// Open waits for the coordinator, as long as its context allows.
func testOpenWaits(s *suite) {
	s.open()
	s.world.Stop(s.T)
	_, err := s.world.Open(s.short())
	s.WantError("open while the coordinator is dead", err, coord.ErrUnavailable)
	opened := make(chan error, 1)
	go func() { // ends with Open, which ends with the test's context at the latest
		session, err := s.world.Open(s.Context())
		if err == nil {
			err = session.Close()
		}
		opened <- err
	}()
	s.world.Start(s.T)
	if err := <-opened; err != nil {
		s.Errorf("open: got %v, want a session when the coordinator is back", err)
	}
}
