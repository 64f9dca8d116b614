package inproc

import (
	"context"
	"fmt"
	"slices"

	"rideshare/internal/mq"
)

var _ mq.Meter = (*Conn)(nil)

// Depths implements mq.Meter with the true counts. It never waits.
func (c *Conn) Depths(_ context.Context, queues ...mq.Queue) (map[mq.Queue]int, error) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case c.closed:
		return nil, mq.ErrClosed
	case !c.up():
		return nil, fmt.Errorf("not connected: %w", mq.ErrUnavailable)
	}
	depths := map[mq.Queue]int{}
	for name, q := range b.queues {
		if len(queues) > 0 && !slices.Contains(queues, name) {
			continue
		}
		q.dropExpired(b.now())
		depths[name] = q.ready.len()
	}
	return depths, nil
}
