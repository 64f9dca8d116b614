package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"rideshare/internal/coord"
)

// prepare waits for the session and creates the parent nodes. It returns coord.ErrUnavailable if ctx ends first.
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

// makeNodes creates the root and /conts, level by level.
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
		connected, changed := s.connected, s.changed.Next()
		s.mu.Unlock()
		if connected {
			return s.usable()
		}
		select {
		case <-changed:
		case <-s.ended:
			return coord.ErrSessionLost
		case <-ctx.Done():
			if why := s.link.outage.reason(); why != nil {
				return fmt.Errorf("%w: %w: %w", coord.ErrUnavailable, ctx.Err(), why)
			}
			return fmt.Errorf("%w: %w", coord.ErrUnavailable, ctx.Err())
		}
	}
}

// keep proves the session at intervals, and arms watches, until the session is lost; then it releases everything. It
// is the session's only goroutine besides the library's.
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
			// The timeout is known, or may have changed, once there is a connection.
			timer.Reset(beatEvery(s.Timeout()))
			s.beat(ctx)
		case <-s.work:
		}
		s.arm(ctx)
	}
}

// beat sends a sync. Only the fact that the leader of the servers answers matters.
func (s *Session) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout())
	defer cancel()
	_ = agree(ctx, s, func(c *zk.Conn) error {
		_, err := c.Sync(s.conts())
		return err
	})
}

// takeDown ends the library's goroutines. If requested, it first asks the server to end the session.
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
		s.link.cut() // so that the library waits for nothing
	}
	s.conn.Close() // at most a second for the answer
	s.link.cut()
	s.settling.Stop()
	for range events { // closed by the library when it is done
	}
}

// awaitGoodbye waits for a connection on which to end the session.
func (s *Session) awaitGoodbye() {
	timer := time.NewTimer(goodbyeWait)
	defer timer.Stop()
	for {
		s.mu.Lock()
		connected, changed := s.connected, s.changed.Next()
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
