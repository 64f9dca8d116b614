package zookeeper

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/go-zookeeper/zk"

	"rideshare/internal/coord"
)

func (s *Session) slaveCount() string { return s.root + "/slavecount" }
func (s *Session) leader() string     { return s.root + "/orchestrator" }

// value returns the path of a named value. The prefix keeps it apart from the other nodes under the root.
func (s *Session) value(name string) string { return s.root + "/value_" + name }

// SlaveCount implements coord.Session.
func (s *Session) SlaveCount(ctx context.Context) (int, coord.Version, error) {
	n, err := s.get(ctx, s.slaveCount())
	if isGone(err) {
		return 0, 0, coord.ErrNone
	}
	if err != nil {
		return 0, 0, border("slave count", err)
	}
	count, err := strconv.Atoi(string(n.data))
	if err != nil {
		return 0, 0, fmt.Errorf("slave count: %w", err)
	}
	return count, version(n.stat), nil
}

// version returns a node's version as this system counts it: the first is 1, since 0 stands for a node that does not
// exist.
func version(stat *zk.Stat) coord.Version { return coord.Version(stat.Version) + 1 }

// SetSlaveCount implements coord.Session.
func (s *Session) SetSlaveCount(ctx context.Context, n int, old coord.Version) error {
	return s.replace(ctx, s.slaveCount(), []byte(strconv.Itoa(n)), old)
}

// Value implements coord.Session.
func (s *Session) Value(ctx context.Context, name string) ([]byte, coord.Version, error) {
	n, err := s.get(ctx, s.value(name))
	if isGone(err) {
		return nil, 0, coord.ErrNone
	}
	if err != nil {
		return nil, 0, border("value "+name, err)
	}
	return n.data, version(n.stat), nil
}

// SetValue implements coord.Session.
func (s *Session) SetValue(ctx context.Context, name string, value []byte, old coord.Version) error {
	if len(value) > coord.MaxValueBytes {
		return fmt.Errorf("set value %s: %d bytes are over the limit of %d", name, len(value), coord.MaxValueBytes)
	}
	return s.replace(ctx, s.value(name), value, old)
}

// replace overwrites a node if it still has the version that was read, or creates it if old is zero.
func (s *Session) replace(ctx context.Context, path string, data []byte, old coord.Version) error {
	var err error
	switch {
	case old == 0:
		err = s.create(ctx, path, data, 0)
	case old < 0 || old > math.MaxInt32:
		// For the server a negative version means any version.
		err = zk.ErrBadVersion
	default:
		err = s.set(ctx, path, data, int32(old-1))
	}
	if isThere(err) || wasChanged(err) || isGone(err) {
		return coord.ErrVersion
	}
	return border("set "+path, err)
}

// Lead implements coord.Session. If the reply is lost, the session may be the leader; the next call finds out.
func (s *Session) Lead(ctx context.Context, name string) (bool, error) {
	for ctx.Err() == nil {
		err := s.create(ctx, s.leader(), []byte(name), zk.FlagEphemeral)
		if err == nil {
			return true, nil
		}
		if !isThere(err) {
			return false, border("lead", err)
		}
		holder, err := s.get(ctx, s.leader())
		if err == nil {
			return s.owns(holder.stat), nil
		}
		if !isGone(err) { // gone: its holder just left
			return false, border("lead", err)
		}
	}
	return false, border("lead", tooFast(ctx))
}

// Leader implements coord.Session. A term is the transaction that created the node, whose number is never reused.
func (s *Session) Leader(ctx context.Context) (coord.Leader, error) {
	holder, err := s.get(ctx, s.leader())
	if isGone(err) {
		return coord.Leader{}, coord.ErrNone
	}
	if err != nil {
		return coord.Leader{}, border("leader", err)
	}
	return coord.Leader{Name: string(holder.data), Term: holder.stat.Czxid}, nil
}

// TakeOver implements coord.Session. It reads the node and, if the term is still the same, replaces the node in one
// transaction. Between the two another session may have become the leader: its node then has the same version and is
// replaced too. If the reply is lost, the session may be the leader; the next Lead finds out.
func (s *Session) TakeOver(ctx context.Context, from coord.Leader, name string) (bool, error) {
	holder, err := s.get(ctx, s.leader())
	if err == nil && holder.stat.Czxid != from.Term {
		return false, nil
	}
	if err == nil {
		err = do(ctx, s, func(c *zk.Conn) error {
			_, failed := c.Multi(
				&zk.DeleteRequest{Path: s.leader(), Version: holder.stat.Version},
				&zk.CreateRequest{Path: s.leader(), Data: []byte(name), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral},
			)
			return failed
		})
	}
	if isGone(err) || wasChanged(err) {
		return false, nil
	}
	return err == nil, border("take over", err)
}
