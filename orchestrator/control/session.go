package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/logkey"
)

// openTimeout bounds how long a pass waits for a session. Without a session the
// pass continues with what the engine reports. A later pass takes a session that needs longer.
const openTimeout = 2 * time.Second

// opened is the end of an attempt to open a session.
type opened struct {
	session coord.Session
	err     error
}

// openSession returns the present session, a new session if the present one is suspended, or nil
// while the coordinator is away.
func (l *Loop) openSession(ctx context.Context) coord.Session {
	if s := l.currentSession(); s != nil {
		select {
		case <-s.Suspended():
			l.closeSession()
		default:
			return s
		}
	}
	s, err := l.awaitSession(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if l.unopened.Fail() {
			l.cfg.Log.WarnContext(ctx, "coordinator not reached", logkey.Error, err)
		}
		return nil
	}
	if failures := l.unopened.End(); failures > 0 {
		l.cfg.Log.InfoContext(ctx, "coordinator reached again", logkey.Count, failures)
	}
	l.session, l.sessionSince = s, l.cfg.Now()
	return s
}

// awaitSession waits for the session that is being opened. It starts an attempt if none is running. The attempt outlives
// the pass's wait, because each new attempt gives slow servers only little time at first.
func (l *Loop) awaitSession(ctx context.Context) (coord.Session, error) {
	if l.opening == nil {
		opening := make(chan opened, 1)
		l.jobs.Go(func() {
			s, err := l.cfg.Coordinator.Open(ctx)
			opening <- opened{s, err}
		})
		l.opening = opening
	}
	select {
	case o := <-l.opening:
		l.opening = nil
		return o.session, o.err
	case <-time.After(openTimeout):
		return nil, fmt.Errorf("%w: no session within %v", coord.ErrUnavailable, openTimeout)
	}
}

// closeOpened closes the session that no pass has taken. The attempts to open a session are over.
func (l *Loop) closeOpened() {
	if l.opening == nil {
		return
	}
	if o := <-l.opening; o.err == nil {
		l.close(o.session)
	}
}

func (l *Loop) currentSession() coord.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

func (l *Loop) closeSession() {
	l.mu.Lock()
	s := l.session
	l.session = nil
	l.mu.Unlock()
	if s != nil {
		l.close(s)
	}
}

func (l *Loop) close(s coord.Session) {
	if err := s.Close(); err != nil && !errors.Is(err, coord.ErrSessionLost) {
		l.cfg.Log.Warn("session not closed", logkey.Error, err)
	}
}

// lead reports whether this orchestrator runs the loop. While the coordinator is away,
// the last leader keeps leading, since no other orchestrator can have taken over.
func (l *Loop) lead(ctx context.Context, session coord.Session) bool {
	was := l.isLeading()
	if session == nil {
		return was
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.step())
	defer cancel()
	now, err := session.Lead(ctx, l.leadsAs())
	if err != nil {
		return was && errors.Is(err, coord.ErrUnavailable)
	}
	if now != was {
		l.cfg.Log.InfoContext(ctx, "control loop leadership changed", "leading", now)
	}
	l.mu.Lock()
	if now && (!was || l.leadsIn != session) {
		l.leadsFrom = l.cfg.Now()
	}
	l.leading, l.leadsIn = now, session
	l.mu.Unlock()
	return now
}

func (l *Loop) isLeading() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading
}

func (l *Loop) sessionTimeout(session coord.Session) time.Duration {
	if session == nil {
		return l.cfg.Ready
	}
	return session.Timeout()
}

// CoordinatorReady returns nil if the coordinator answers, coord.ErrUnavailable if there is no session,
// else the session's error.
func (l *Loop) CoordinatorReady(ctx context.Context) error {
	s := l.currentSession()
	if s == nil {
		return coord.ErrUnavailable
	}
	_, err := s.Members(ctx)
	return err
}
