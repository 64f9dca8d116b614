package inproc

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"rideshare/internal/coord"
)

// Client is one client's access to the coordinator. It implements coord.Coordinator. It can cut off all sessions
// opened through it, which simulates the kill of a worker inside this process. It is safe for concurrent use.
type Client struct {
	coordinator *Coordinator

	mu          sync.Mutex // guards the fields below; taken before Coordinator.mu
	crashed     bool
	partitioned bool
	sessions    []*Session
}

var _ coord.Coordinator = (*Client)(nil)

// Dial returns a new Client.
func (k *Coordinator) Dial() *Client { return &Client{coordinator: k} }

// Open implements coord.Coordinator. After Crash it returns coord.ErrUnavailable immediately.
func (c *Client) Open(ctx context.Context) (coord.Session, error) {
	s, err := c.coordinator.OpenSession(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crashed || c.partitioned {
		_ = s.Close() // the caller never saw it
		return nil, fmt.Errorf("cut off: %w", coord.ErrUnavailable)
	}
	c.sessions = slices.DeleteFunc(c.sessions, (*Session).ended)
	c.sessions = append(c.sessions, s)
	return s, nil
}

// Crash abandons every session abruptly, and makes every later Open fail.
func (c *Client) Crash() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crashed = true
	for _, s := range c.sessions {
		s.Abandon()
	}
	c.sessions = nil
}

// Partition cuts every session off until Heal. During that time Open fails.
func (c *Client) Partition() { c.setPartitioned(true) }

// Heal ends a Partition.
func (c *Client) Heal() { c.setPartitioned(false) }

func (c *Client) setPartitioned(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partitioned = on
	for _, s := range c.sessions {
		if on {
			s.Partition()
		} else {
			s.Heal()
		}
	}
}

// ended reports whether the session has ended for good.
func (s *Session) ended() bool {
	s.coordinator.mu.Lock()
	defer s.coordinator.mu.Unlock()
	return s.lost
}
