package inproc

import (
	"slices"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/wait"
)

// Session implements coord.Session.
type Session struct {
	coordinator *Coordinator
	watch       wait.Token
	suspended   chan struct{}

	// guarded by Coordinator.mu
	lost        bool // ended: expired or closed
	dead        bool // its process has died: nothing more may be done in its name
	partitioned bool
	isSuspended bool
	silentSince time.Time   // zero while the coordinator hears from it
	suspending  *time.Timer // the owner's clock: runs while silent
	expiry      *time.Timer // the coordinator's clock: runs while silent
}

var _ coord.Session = (*Session)(nil)

// suspendAfter is how long a session without answers waits before it is suspended: two thirds of the timeout, as the
// receive timeout of ZooKeeper's client.
func suspendAfter(timeout time.Duration) time.Duration { return timeout * 2 / 3 }

func newSession(k *Coordinator) *Session {
	s := &Session{coordinator: k, watch: wait.NewToken(), suspended: make(chan struct{})}
	s.suspending = stoppedTimer(func() { k.locked(s.suspend) })
	s.expiry = stoppedTimer(func() { k.locked(s.expireIfDue) })
	return s
}

// stoppedTimer returns a stopped timer that calls f when it expires after a Reset.
func stoppedTimer(f func()) *time.Timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}

func (k *Coordinator) locked(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// Timeout implements coord.Session.
func (s *Session) Timeout() time.Duration { return s.coordinator.timeout }

// Suspended implements coord.Session.
func (s *Session) Suspended() <-chan struct{} { return s.suspended }

// Watch implements coord.Session. It is the same channel each time.
func (s *Session) Watch() <-chan struct{} { return s.watch }

// Close implements coord.Session. While the coordinator cannot be reached, Close abandons the session instead.
func (s *Session) Close() error {
	k := s.coordinator
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case s.lost || s.dead:
	case s.reached():
		s.expire()
	default:
		s.abandon()
	}
	return nil
}

// Abandon ends the use of the session abruptly, as the death of its process would: every later call returns
// coord.ErrSessionLost, and its registrations stay until the timeout.
func (s *Session) Abandon() { s.coordinator.locked(s.abandon) }

// Partition cuts the session's client off from the coordinator until Heal.
func (s *Session) Partition() {
	s.coordinator.locked(func() {
		s.partitioned = true
		s.fallSilent()
	})
}

// Heal ends a Partition.
func (s *Session) Heal() {
	s.coordinator.locked(func() {
		s.partitioned = false
		s.reconnect()
	})
}

// reached reports whether the coordinator hears from the session now.
func (s *Session) reached() bool {
	return s.coordinator.state == running && !s.partitioned && !s.dead && !s.lost
}

// usable returns the reason why the session cannot be used now, or nil.
func (s *Session) usable() error {
	switch {
	case s.lost || s.dead:
		return coord.ErrSessionLost
	case !s.reached():
		return coord.ErrUnavailable
	default:
		return nil
	}
}

func (s *Session) abandon() {
	if s.lost || s.dead {
		return
	}
	s.dead = true
	s.fallSilent()
	s.suspend()
}

// fallSilent starts both clocks, unless they are already running.
func (s *Session) fallSilent() {
	if s.lost || !s.silentSince.IsZero() {
		return
	}
	s.silentSince = time.Now()
	s.suspending.Reset(suspendAfter(s.coordinator.timeout))
	s.expiry.Reset(s.coordinator.timeout)
}

// reconnect stops both clocks if the coordinator hears from the session again; otherwise the coordinator's clock
// keeps running.
func (s *Session) reconnect() {
	k := s.coordinator
	if s.lost || k.state != running || s.silentSince.IsZero() {
		return
	}
	if !s.reached() {
		s.expiry.Reset(time.Until(s.silentSince.Add(k.timeout)))
		return
	}
	s.silentSince = time.Time{}
	s.suspending.Stop()
	s.expiry.Stop()
	s.wake() // there may have been changes during the silence
}

func (s *Session) suspend() {
	// The timer may have fired while the session came back.
	if s.isSuspended || s.silentSince.IsZero() && !s.lost {
		return
	}
	s.isSuspended = true
	close(s.suspended)
}

// expireIfDue is called by the timer, which may have fired just as the session came back or the coordinator stopped.
func (s *Session) expireIfDue() {
	k := s.coordinator
	if k.state == running && !s.silentSince.IsZero() && time.Since(s.silentSince) >= k.timeout {
		s.expire()
	}
}

// expire ends the session and its registrations. It suspends the session before any other session can see that.
func (s *Session) expire() {
	if s.lost {
		return
	}
	k := s.coordinator
	s.lost = true
	s.suspend()
	s.suspending.Stop()
	s.expiry.Stop()
	k.sessions = slices.DeleteFunc(k.sessions, func(other *Session) bool { return other == s })
	for name, r := range k.members {
		if r.owner == s {
			delete(k.members, name)
		}
	}
	if k.leader == s {
		k.leader = nil
	}
	s.watch.Give()
	k.notify()
}

// wake sends the session's client a token to look again, if the client can be reached.
func (s *Session) wake() {
	if s.reached() {
		s.watch.Give()
	}
}
