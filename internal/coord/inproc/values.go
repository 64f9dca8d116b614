package inproc

import (
	"bytes"
	"context"
	"fmt"

	"rideshare/internal/coord"
)

// begin takes the lock for one call; the caller unlocks. If begin returns an error, the lock is not held.
func (s *Session) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
	}
	s.coordinator.mu.Lock()
	if err := s.usable(); err != nil {
		s.coordinator.mu.Unlock()
		return err
	}
	return nil
}

// Register implements coord.Session.
func (s *Session) Register(ctx context.Context, m coord.Member) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	k := s.coordinator
	defer k.mu.Unlock()
	old, ok := k.members[m.Name()]
	if ok && old.owner != s {
		return coord.ErrExists
	}
	if !ok || old.member != m {
		k.members[m.Name()] = registration{member: m, owner: s}
		k.notify()
	}
	return nil
}

// Unregister implements coord.Session.
func (s *Session) Unregister(ctx context.Context, m coord.Member) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	k := s.coordinator
	defer k.mu.Unlock()
	if r, ok := k.members[m.Name()]; ok && r.owner == s {
		delete(k.members, m.Name())
		k.notify()
	}
	return nil
}

// Evict implements coord.Session.
func (s *Session) Evict(ctx context.Context, m coord.Member) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	k := s.coordinator
	defer k.mu.Unlock()
	if r, ok := k.members[m.Name()]; ok && r.member.Worker == m.Worker {
		delete(k.members, m.Name())
		k.notify()
	}
	return nil
}

// Members implements coord.Session.
func (s *Session) Members(ctx context.Context) ([]coord.Member, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	k := s.coordinator
	defer k.mu.Unlock()
	members := make([]coord.Member, 0, len(k.members))
	for _, r := range k.members {
		members = append(members, r.member)
	}
	coord.SortMembers(members)
	return members, nil
}

// SlaveCount implements coord.Session.
func (s *Session) SlaveCount(ctx context.Context) (int, coord.Version, error) {
	if err := s.begin(ctx); err != nil {
		return 0, 0, err
	}
	k := s.coordinator
	defer k.mu.Unlock()
	if k.kept.Version == 0 {
		return 0, 0, coord.ErrNone
	}
	return k.kept.Slaves, k.kept.Version, nil
}

// SetSlaveCount implements coord.Session. If there is a file, a nil error means that the value is on disk.
func (s *Session) SetSlaveCount(ctx context.Context, n int, old coord.Version) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	k := s.coordinator
	defer k.mu.Unlock()
	if k.kept.Version != old {
		return coord.ErrVersion
	}
	next := k.kept
	next.Slaves, next.Version = n, old+1
	if err := k.keep(next); err != nil {
		return err
	}
	k.notify()
	return nil
}

// keep makes next the stored data. The caller holds mu.
func (k *Coordinator) keep(next kept) error {
	if k.file != "" {
		if err := save(k.file, next); err != nil {
			return fmt.Errorf("keep values: %w: %w", coord.ErrUnavailable, err)
		}
	}
	k.kept = next
	return nil
}

// Value implements coord.Session.
func (s *Session) Value(ctx context.Context, name string) ([]byte, coord.Version, error) {
	if err := s.begin(ctx); err != nil {
		return nil, 0, err
	}
	k := s.coordinator
	defer k.mu.Unlock()
	v, ok := k.kept.Values[name]
	if !ok {
		return nil, 0, coord.ErrNone
	}
	return bytes.Clone(v.Data), v.Version, nil
}

// SetValue implements coord.Session. If there is a file, a nil error means that the value is on disk.
func (s *Session) SetValue(ctx context.Context, name string, data []byte, old coord.Version) error {
	if len(data) > coord.MaxValueBytes {
		return fmt.Errorf("set value %s: %d bytes are over the limit of %d", name, len(data), coord.MaxValueBytes)
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	k := s.coordinator
	defer k.mu.Unlock()
	if k.kept.Values[name].Version != old {
		return coord.ErrVersion
	}
	return k.keep(k.kept.with(name, value{Data: bytes.Clone(data), Version: old + 1}))
}

// Lead implements coord.Session.
func (s *Session) Lead(ctx context.Context, name string) (bool, error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	k := s.coordinator
	defer k.mu.Unlock()
	if k.leader == nil {
		k.leader = s
		k.term = coord.Leader{Name: name, Term: k.term.Term + 1}
	}
	return k.leader == s, nil
}

// Leader implements coord.Session.
func (s *Session) Leader(ctx context.Context) (coord.Leader, error) {
	if err := s.begin(ctx); err != nil {
		return coord.Leader{}, err
	}
	k := s.coordinator
	defer k.mu.Unlock()
	if k.leader == nil {
		return coord.Leader{}, coord.ErrNone
	}
	return k.term, nil
}

// TakeOver implements coord.Session.
func (s *Session) TakeOver(ctx context.Context, from coord.Leader, name string) (bool, error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	k := s.coordinator
	defer k.mu.Unlock()
	if k.leader == nil || k.term.Term != from.Term {
		return false, nil
	}
	k.leader = s
	k.term = coord.Leader{Name: name, Term: k.term.Term + 1}
	k.notify()
	return true, nil
}
