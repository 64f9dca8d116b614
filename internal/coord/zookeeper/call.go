package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"rideshare/internal/coord"
)

// call runs f, one request of the library, until ctx or the session ends. The library has no timeouts: an abandoned
// call continues by itself until it is answered or the connection ends. A silent server's connection ends in bounded
// time.
//
// The error is nil, one of the errors for which answered returns true, or coord's ErrUnavailable or ErrSessionLost.
func call[T any](ctx context.Context, s *Session, f func(*zk.Conn) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if err := s.usable(); err != nil {
		return none, err
	}
	done := make(chan result, 1)
	go func() {
		value, err := f(s.conn)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		if answered(r.err) {
			return r.value, r.err
		}
		return none, s.unanswered(r.err)
	case <-s.ended:
		return none, coord.ErrSessionLost
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", coord.ErrUnavailable, ctx.Err())
	}
}

// do is call for requests that return no value.
func do(ctx context.Context, s *Session, f func(*zk.Conn) error) error {
	_, err := call(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, f(c) })
	return err
}

// agree is do for requests that reach the leader of the servers: changes and syncs. An answer to such a request proves
// that the leader, which ends sessions, hears from this session. An answer to a read proves only that one server hears
// from the session: a server without a connection to the leader answers reads for syncLimit ticks.
func agree(ctx context.Context, s *Session, f func(*zk.Conn) error) error {
	sent := time.Now()
	err := do(ctx, s, f)
	if answered(err) {
		s.proven(sent)
	}
	return err
}

// answered reports whether an error of the library is a server's answer about a node.
func answered(err error) bool {
	switch {
	case err == nil, errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion),
		errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrNotEmpty), errors.Is(err, zk.ErrInvalidACL),
		errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return true
	default:
		return false
	}
}

func (s *Session) proven(sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lost {
		s.clock.prove(sent)
	}
}

// unanswered translates an error that leaves the outcome unknown.
func (s *Session) unanswered(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, zk.ErrSessionExpired) {
		s.end(false)
	}
	if s.lost {
		return coord.ErrSessionLost
	}
	return fmt.Errorf("%w: %s", coord.ErrUnavailable, err.Error())
}

// border is the last step of each method: it keeps the library's errors from leaving this package.
func border(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrNotEmpty), errors.Is(err, zk.ErrInvalidACL),
		errors.Is(err, zk.ErrNoChildrenForEphemerals), errors.Is(err, zk.ErrNoNode),
		errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion):
		return fmt.Errorf("%s: refused: %s", what, err.Error())
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// node is a node's content.
type node struct {
	data []byte
	stat *zk.Stat
}

func (s *Session) get(ctx context.Context, path string) (node, error) {
	return call(ctx, s, func(c *zk.Conn) (node, error) {
		data, stat, err := c.Get(path)
		return node{data, stat}, err
	})
}

// set writes a node if it still has that version.
func (s *Session) set(ctx context.Context, path string, data []byte, version int32) error {
	return agree(ctx, s, func(c *zk.Conn) error {
		_, err := c.Set(path, data, version)
		return err
	})
}

// create makes a node; with zk.FlagEphemeral the node ends with the session. If the reply is lost, the node may
// exist: its owner field shows whose it is.
func (s *Session) create(ctx context.Context, path string, data []byte, flags int32) error {
	return agree(ctx, s, func(c *zk.Conn) error {
		_, err := c.Create(path, data, flags, zk.WorldACL(zk.PermAll))
		return err
	})
}

func (s *Session) remove(ctx context.Context, path string, version int32) error {
	return agree(ctx, s, func(c *zk.Conn) error { return c.Delete(path, version) })
}
