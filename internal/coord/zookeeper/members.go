package zookeeper

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"rideshare/internal/coord"
	"rideshare/internal/logkey"
)

func (s *Session) conts() string                { return s.root + "/conts" }
func (s *Session) member(m coord.Member) string { return s.conts() + "/" + m.Name() }
func isGone(err error) bool                     { return errors.Is(err, zk.ErrNoNode) }
func isThere(err error) bool                    { return errors.Is(err, zk.ErrNodeExists) }
func wasChanged(err error) bool                 { return errors.Is(err, zk.ErrBadVersion) }
func tooFast(ctx context.Context) error         { return errors.Join(coord.ErrUnavailable, ctx.Err()) }

// Register implements coord.Session.
func (s *Session) Register(ctx context.Context, m coord.Member) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	path := s.member(m)
	// Others may create and remove the node between two steps; then start over.
	for ctx.Err() == nil {
		// An existing node may be this session's, even if the call that created it seemed to fail. Only its owner
		// field shows that: a taken name does not.
		var old node
		old, err = s.get(ctx, path)
		switch {
		case isGone(err):
			err = s.create(ctx, path, data, zk.FlagEphemeral)
		case err == nil && !s.owns(old.stat):
			err = coord.ErrExists
		case err == nil:
			err = s.set(ctx, path, data, old.stat.Version)
		}
		if !isGone(err) && !isThere(err) && !wasChanged(err) {
			return border("register", err)
		}
		if isGone(err) { // also if another client removed the parent
			if err = s.makeNodes(ctx); err != nil {
				return border("register", err)
			}
		}
	}
	return border("register", tooFast(ctx))
}

// Unregister implements coord.Session.
func (s *Session) Unregister(ctx context.Context, m coord.Member) error {
	return border("unregister", s.removeIf(ctx, s.member(m), func(n node) bool { return s.owns(n.stat) }))
}

// Evict implements coord.Session. It removes the version that it read. A recreated node starts again at the first
// version, so Evict can remove the registration of a successor that took the pid between the read and the removal; the
// successor's next Register restores it.
func (s *Session) Evict(ctx context.Context, m coord.Member) error {
	return border("evict", s.removeIf(ctx, s.member(m), func(n node) bool {
		var held coord.Member
		return json.Unmarshal(n.data, &held) == nil && held.Worker == m.Worker
	}))
}

// removeIf removes a node if meant returns true for it.
func (s *Session) removeIf(ctx context.Context, path string, meant func(node) bool) error {
	for ctx.Err() == nil {
		n, err := s.get(ctx, path)
		if err == nil {
			if !meant(n) {
				return nil
			}
			err = s.remove(ctx, path, n.stat.Version)
		}
		switch {
		case isGone(err):
			return nil
		case !wasChanged(err):
			return err
		}
	}
	return tooFast(ctx)
}

// Members implements coord.Session. ZooKeeper reads one node at a time, so Members reads all nodes twice. If two
// successive passes are equal, their content was true at the moment between them. It returns coord.ErrUnavailable if no
// two successive passes are equal before ctx ends.
func (s *Session) Members(ctx context.Context) ([]coord.Member, error) {
	last, err := s.collect(ctx)
	for err == nil {
		var next []registration
		next, err = s.collect(ctx)
		if err == nil && slices.EqualFunc(last, next, registration.same) {
			return s.decode(ctx, next), nil
		}
		last = next
	}
	return nil, border("members", err)
}

// registration is a node under /conts as it was read.
type registration struct {
	name string
	node
}

// same reports whether the node was not written between two reads. It compares the ids of the transactions that
// created and last wrote the node, which are never reused.
func (r registration) same(o registration) bool {
	return r.name == o.name && r.stat.Czxid == o.stat.Czxid && r.stat.Mzxid == o.stat.Mzxid
}

// collect reads all registrations, by name.
func (s *Session) collect(ctx context.Context) ([]registration, error) {
	names, err := call(ctx, s, func(c *zk.Conn) ([]string, error) {
		names, _, err := c.Children(s.conts())
		return names, err
	})
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	all, errs := make([]registration, len(names)), make([]error, len(names))
	var reads sync.WaitGroup
	for i, name := range names {
		reads.Go(func() { // all at once: one after the other, a pass over many nodes would rarely equal the next pass
			n, err := s.get(ctx, s.conts()+"/"+name)
			switch {
			case err == nil:
				all[i] = registration{name, n}
			case !isGone(err):
				errs[i] = err
			}
		})
	}
	reads.Wait()
	return slices.DeleteFunc(all, func(r registration) bool { return r.name == "" }), cmp.Or(errs...)
}

// decode returns the members among the nodes, in order. A node that is not a member was put there by other software.
func (s *Session) decode(ctx context.Context, all []registration) []coord.Member {
	var members []coord.Member
	for _, r := range all {
		var m coord.Member
		err := json.Unmarshal(r.data, &m)
		if err != nil || r.name != m.Name() {
			s.log.DebugContext(ctx, "node is no registration", logkey.Path, r.name)
			continue
		}
		members = append(members, m)
	}
	coord.SortMembers(members)
	return members
}
