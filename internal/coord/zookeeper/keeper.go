package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"rideshare/internal/coord"
)

// prepare waits for the session and makes the nodes that others are below. It returns
// coord.ErrUnavailable when ctx ends first.
func (s *Session) prepare(ctx context.Context) error {
	for {
		if err := s.awaitConnection(ctx); err != nil {
			return err
		}
		err := s.makeNodes(ctx)
		if !errors.Is(err, coord.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
	}
}

// makeNodes makes the root and /conts, one level after the other.
func (s *Session) makeNodes(ctx context.Context) error {
	all := s.conts()
	for end := 1; end <= len(all); end++ {
		if end < len(all) && all[end] != '/' {
			continue
		}
		path := all[:end]
		if err := s.create(ctx, path, nil, 0); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return border("create "+path, err)
		}
	}
	return nil
}

// awaitConnection returns nil once the session has a connection.
func (s *Session) awaitConnection(ctx context.Context) error {
	for {
		s.mu.Lock()
		connected, changed := s.connected, s.changed
		s.mu.Unlock()
		if connected {
			return s.usable()
		}
		select {
		case <-changed:
		case <-s.ended:
			return coord.ErrSessionLost
		case <-ctx.Done():
			return errors.Join(coord.ErrUnavailable, ctx.Err())
		}
	}
}

// keep proves the session again and again, and arms watches, until it is lost; then it
// takes everything down. It is the session's one goroutine beside the library's.
func (s *Session) keep(events <-chan zk.Event) {
	defer close(s.down)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.NewTimer(beatEvery(s.Timeout()))
	defer timer.Stop()
	for {
		select {
		case <-s.ended:
			s.takeDown(events)
			return
		case <-timer.C:
			// The time-out is known, or known better, once there is a connection.
			timer.Reset(beatEvery(s.Timeout()))
			s.beat(ctx)
		case <-s.work:
		}
		s.arm(ctx)
	}
}

// beat asks for any node. That there was an answer is all that matters.
func (s *Session) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout())
	defer cancel()
	_, _ = s.exists(ctx, s.conts())
}

// takeDown ends the library's goroutines, and says goodbye first if that was asked for.
func (s *Session) takeDown(events <-chan zk.Event) {
	s.mu.Lock()
	goodbye, was := s.goodbye, s.id != 0
	s.mu.Unlock()
	if goodbye && was {
		s.awaitGoodbye()
	}
	s.link.stop()
	s.cancel()
	if !goodbye {
		s.link.cut() // so that nothing is waited for
	}
	s.conn.Close() // at most a second for the answer
	s.link.cut()
	s.settling.Stop()
	for range events { // closed by the library when it is done
	}
}

// awaitGoodbye waits for a connection, over which the session can be ended.
func (s *Session) awaitGoodbye() {
	timer := time.NewTimer(goodbyeWait)
	defer timer.Stop()
	for {
		s.mu.Lock()
		connected, changed := s.connected, s.changed
		s.mu.Unlock()
		if connected {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		}
	}
}
