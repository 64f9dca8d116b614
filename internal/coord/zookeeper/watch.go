package zookeeper

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// watches is which of the one-shot watches are armed. The session's mutex guards it.
type watches struct {
	wanted  bool
	changed bool // something fired that the party was not told of
	armed   map[watchKey]bool
	members []string // names below /conts when that was last armed
}

// watchKey is a watch: of a node's children, or of the node itself.
type watchKey struct {
	path     string
	children bool
}

// fired notes that the server sent an event, and with it took the watch away.
func (w *watches) fired(e zk.Event) {
	w.changed = true
	if e.Type != zk.EventNodeChildrenChanged {
		delete(w.armed, watchKey{path: e.Path})
	}
	if e.Type == zk.EventNodeChildrenChanged || e.Type == zk.EventNodeDeleted {
		delete(w.armed, watchKey{path: e.Path, children: true})
	}
}

// forget takes nothing for armed: after a new connection it is not known what happened before, and the
// library's own re-arming can miss a change that came meanwhile.
func (w *watches) forget() {
	w.changed = true
	clear(w.armed)
}

// Watch implements coord.Session. It is the same channel each time. Sessions that never ask for it watch nothing.
func (s *Session) Watch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.watches.wanted {
		s.watches = watches{wanted: true, changed: true, armed: map[watchKey]bool{}}
		s.wake()
	}
	return s.watch
}

// arm arms what fired, and then gives the party a token: whatever happens after its next look
// fires again. What cannot be armed now is armed at the next beat.
func (s *Session) arm(ctx context.Context) {
	s.mu.Lock()
	todo := s.watches.wanted && s.watches.changed && s.connected && !s.lost
	if todo {
		s.watches.changed = false
	}
	s.mu.Unlock()
	if !todo {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout())
	defer cancel()
	if err := s.armAll(ctx); err != nil {
		s.mu.Lock()
		s.watches.changed = true
		s.mu.Unlock()
		return
	}
	s.ring()
}

func (s *Session) armAll(ctx context.Context) error {
	for _, path := range []string{s.slaveCount(), s.leader()} {
		err := s.armOne(ctx, watchKey{path: path}, func(c *zk.Conn) error {
			_, _, _, err := c.ExistsW(path)
			return err
		})
		if err != nil {
			return err
		}
	}
	err := s.armOne(ctx, watchKey{path: s.conts(), children: true}, func(c *zk.Conn) error {
		names, _, _, childrenErr := c.ChildrenW(s.conts())
		if childrenErr == nil {
			s.mu.Lock()
			s.watches.members = names
			s.mu.Unlock()
		}
		return childrenErr
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	names := s.watches.members
	s.mu.Unlock()
	for _, name := range names {
		path := s.conts() + "/" + name
		err = s.armOne(ctx, watchKey{path: path}, func(c *zk.Conn) error {
			_, _, _, getErr := c.GetW(path)
			return getErr
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// armOne arms a watch unless it is armed: each further one on the same node would stay in
// the library's memory until it fires. It counts as armed before it is, since it
// may fire before its call is back.
func (s *Session) armOne(ctx context.Context, key watchKey, f func(*zk.Conn) error) error {
	s.mu.Lock()
	armed := s.watches.armed[key]
	s.watches.armed[key] = true
	s.mu.Unlock()
	if armed {
		return nil
	}
	err := do(ctx, s, f)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	delete(s.watches.armed, key)
	s.mu.Unlock()
	if isGone(err) {
		return nil // a member that left meanwhile, of which its parent tells
	}
	return err
}
