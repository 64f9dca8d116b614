package inproc

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"rideshare/internal/mq"
	"rideshare/internal/wait"
)

// Conn is one client's connection to a Broker. It implements mq.Conn.
//
// A published body is copied, so the publisher may reuse it. A receiver must not change what is delivered, except for
// broadcasts: each subscriber gets its own copy.
type Conn struct {
	broker *Broker
	name   string

	// guarded by Broker.mu
	closed      bool
	partitioned bool
	lost        uint64      // how often drop was called
	changed     wait.Signal // the connection came up or ended
	consumers   []*consumer
	replies     []*replyQueue
	subscribers []*subscriber
}

var _ mq.Conn = (*Conn)(nil)

// Publish implements mq.Conn. It never waits.
func (c *Conn) Publish(ctx context.Context, name mq.Queue, m mq.Message) error {
	m.Body = bytes.Clone(m.Body)
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := c.mayPublish(ctx); err != nil {
		return err
	}
	q := b.queues[name]
	if q == nil {
		return fmt.Errorf("publish to %s: %w", name, mq.ErrUnroutable)
	}
	if !q.push(m, b.now()) {
		return fmt.Errorf("publish to %s: %w", name, mq.ErrRefused)
	}
	if b.confirmLost != nil && b.confirmLost(c.name, name) {
		return fmt.Errorf("publish to %s: %w", name, mq.ErrUnconfirmed)
	}
	return nil
}

// Reply implements mq.Conn.
func (c *Conn) Reply(ctx context.Context, to string, m mq.Message) error {
	m.Body = bytes.Clone(m.Body)
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := c.mayPublish(ctx); err != nil {
		return err
	}
	r := b.replies[to]
	if r == nil {
		return fmt.Errorf("reply to %s: %w", to, mq.ErrUnroutable)
	}
	r.put(m)
	return nil
}

// Broadcast implements mq.Conn.
func (c *Conn) Broadcast(ctx context.Context, body []byte, onSent func()) error {
	if onSent != nil {
		defer onSent()
	}
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := c.mayPublish(ctx); err != nil {
		return err
	}
	for _, s := range b.subscribers {
		own := [][]byte{bytes.Clone(body)}
		if b.syncFault != nil {
			own = b.syncFault(s.conn.name, own[0])
		}
		for _, one := range own {
			if s.items.len() >= b.config.SyncBuffer {
				s.items.popFront()
			}
			s.put(one)
		}
	}
	return nil
}

// Ready implements mq.Conn.
func (c *Conn) Ready() error {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	return c.state()
}

// state returns the reason why nothing can be published now, or nil.
func (c *Conn) state() error {
	switch {
	case c.closed:
		return mq.ErrClosed
	case !c.up():
		return fmt.Errorf("not connected: %w", mq.ErrUnavailable)
	case c.broker.blocked:
		return fmt.Errorf("blocked by the broker: %w", mq.ErrUnavailable)
	default:
		return nil
	}
}

func (c *Conn) mayPublish(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not sent: %w: %w", mq.ErrUnavailable, err)
	}
	return c.state()
}

// State implements mq.Conn.
func (c *Conn) State() mq.State {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	s := mq.State{Connected: c.up(), Blocked: c.up() && c.broker.blocked, Lost: c.lost}
	if s.Connected {
		s.Hosts = map[string]string{"bus": "inproc"}
	}
	return s
}

// Durable implements mq.Conn: nothing here outlives the process.
func (c *Conn) Durable() bool { return false }

// Close implements mq.Conn.
func (c *Conn) Close() error {
	c.end()
	return nil
}

// Crash ends the connection abruptly, as the death of its process would. For the broker this is the same as Close: it
// sees the connection end, and redelivers the deliveries to other consumers. For the connection's users every later
// call fails: calls return mq.ErrClosed, Ack mq.ErrStale.
func (c *Conn) Crash() { c.end() }

func (c *Conn) end() {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	delete(c.broker.conns, c)
	c.drop()
	c.changed.Notify()
}

// Disconnect drops only this connection; it reconnects immediately.
func (c *Conn) Disconnect() {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.drop()
	c.changed.Notify()
}

// Partition drops this connection and keeps it from reconnecting until Heal.
func (c *Conn) Partition() {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.partitioned = true
	c.drop()
}

// Heal ends a Partition.
func (c *Conn) Heal() {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.partitioned = false
	c.changed.Notify()
}

func (c *Conn) up() bool { return !c.closed && !c.partitioned && !c.broker.stopped }

// drop ends everything that is bound to the life of the connection.
func (c *Conn) drop() {
	c.lost++
	consumers, replies, subscribers := c.consumers, c.replies, c.subscribers
	c.consumers, c.replies, c.subscribers = nil, nil, nil
	for _, s := range consumers {
		s.queue.cut(s, c.broker.now())
	}
	for _, r := range replies {
		c.broker.removeReplies(r)
	}
	for _, s := range subscribers {
		c.broker.removeSubscriber(s)
	}
}

// without returns list without one element.
func without[T comparable](list []T, v T) []T {
	return slices.DeleteFunc(list, func(other T) bool { return other == v })
}
