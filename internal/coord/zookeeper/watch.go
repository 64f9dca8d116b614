package zookeeper

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// watches records which of the one-shot watches are armed. The session's mutex guards it.
type watches struct {
	wanted  bool
	changed bool // a watch fired, and the client has not been notified yet
	armed   map[watchKey]bool
	members []string // names under /conts when their watches were last armed
}

// watchKey is a watch: of a node's children, or of the node itself.
type watchKey struct {
	path     string
	children bool
}

// fired records an event of the server, which has thereby removed the watch.
func (w *watches) fired(e zk.Event) {
	w.changed = true
	if e.Type != zk.EventNodeChildrenChanged {
		delete(w.armed, watchKey{path: e.Path})
	}
	if e.Type == zk.EventNodeChildrenChanged || e.Type == zk.EventNodeDeleted {
		delete(w.armed, watchKey{path: e.Path, children: true})
	}
}

// forget marks all watches as not armed. After a reconnection, events may have been missed: the library's own
// re-arming can miss a change during the loss.
func (w *watches) forget() {
	w.changed = true
	clear(w.armed)
}

// Watch implements coord.Session. It always returns the same channel. A session on which Watch is never called sets
// no watches.
func (s *Session) Watch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.watches.wanted {
		s.watches = watches{wanted: true, changed: true, armed: map[watchKey]bool{}}
		s.work.Give()
	}
	return s.watch
}

// arm re-arms the watches that fired, and then sends the client a token: any change after the client's next look
// fires again. Watches that cannot be armed now are armed at the next beat.
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
	s.watch.Give()
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

// armOne arms a watch unless it is already armed, because each further one on the same node would stay in the
// library's memory until it fires. It marks the watch as armed before the call, since the watch may fire before the
// call returns.
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
		return nil // the member has left in between; the watch on its parent reports that
	}
	return err
}
