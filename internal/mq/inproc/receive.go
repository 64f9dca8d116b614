package inproc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rideshare/internal/mq"
	"rideshare/internal/wait"
)

// errLost ends a receiver whose connection or queue is lost.
var errLost = errors.New("private queue lost")

// inbox holds the elements for one receiver. Broker.mu guards it, except for the channel.
type inbox[T any] struct {
	items deque[T]
	lost  bool
	ring  wait.Token // given when the receiver should look again
}

func newInbox[T any]() inbox[T] { return inbox[T]{ring: wait.NewToken()} }

func (in *inbox[T]) put(v T) {
	in.items.pushBack(v)
	in.ring.Give()
}

func (in *inbox[T]) lose() {
	in.lost = true
	in.ring.Give()
}

// receive waits for the next element. It returns ctx's error, or errLost.
func receive[T any](ctx context.Context, b *Broker, in *inbox[T]) (T, error) {
	var none T
	for {
		if ctx.Err() != nil {
			return none, ctx.Err()
		}
		b.mu.Lock()
		switch {
		case in.lost:
			b.mu.Unlock()
			return none, errLost
		case in.items.len() > 0:
			v := in.items.popFront()
			b.mu.Unlock()
			return v, nil
		}
		b.mu.Unlock()
		select {
		case <-in.ring:
		case <-ctx.Done():
		}
	}
}

// lives runs each time the connection comes up: it calls attach under the lock, then serve without it. It returns when
// serve returns an error other than errLost, ctx ends, or the connection is closed.
func (c *Conn) lives(ctx context.Context, attach func(), serve func() error) error {
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.broker.mu.Lock()
		up, closed, changed := c.up(), c.closed, c.changed.Next()
		if up {
			attach()
		}
		c.broker.mu.Unlock()
		switch {
		case closed:
			return mq.ErrClosed
		case up:
			if err := serve(); !errors.Is(err, errLost) {
				return err
			}
		default:
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// Consume implements mq.Conn.
func (c *Conn) Consume(ctx context.Context, config mq.ConsumeConfig, handle func(mq.Delivery)) error {
	if config.Prefetch < 1 {
		return fmt.Errorf("consume %s: prefetch %d is less than 1", config.Queue, config.Prefetch)
	}
	if config.Queue != mq.DeadQ && !slices.Contains(mq.WorkQueues(), config.Queue) {
		return fmt.Errorf("consume %s: %w", config.Queue, mq.ErrUnroutable)
	}
	b := c.broker
	var s *consumer
	attach := func() {
		b.declare()
		q := b.queues[config.Queue]
		s = &consumer{inbox: newInbox[*delivery](), conn: c, queue: q, prefetch: config.Prefetch}
		c.consumers = append(c.consumers, s)
		q.consumers = append(q.consumers, s)
		q.dispatch(b.now())
	}
	return c.lives(ctx, attach, func() error {
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			s.queue.retire(s, b.now())
		}()
		for {
			d, err := receive(ctx, b, &s.inbox)
			if err != nil {
				return err
			}
			handle(d)
		}
	})
}

// replyQueue is one call of Replies, from one connect to the next disconnect.
type replyQueue struct {
	inbox[mq.Message]
	name string
}

// Replies implements mq.Conn.
func (c *Conn) Replies(ctx context.Context, ready func(name string), handle func(mq.Message)) error {
	b := c.broker
	var r *replyQueue
	attach := func() {
		r = &replyQueue{inbox: newInbox[mq.Message](), name: b.newReplyName(c.name)}
		b.replies[r.name] = r
		c.replies = append(c.replies, r)
	}
	return c.lives(ctx, attach, func() error {
		defer func() {
			b.mu.Lock()
			b.removeReplies(r)
			c.replies = without(c.replies, r)
			b.mu.Unlock()
			ready("")
		}()
		ready(r.name)
		for {
			m, err := receive(ctx, b, &r.inbox)
			if err != nil {
				return err
			}
			handle(m)
		}
	})
}

func (b *Broker) removeReplies(r *replyQueue) {
	delete(b.replies, r.name)
	r.items.clear()
	r.lose()
}

// subscriber is one call of Subscribe, from one connect to the next disconnect.
type subscriber struct {
	inbox[[]byte]
	conn *Conn
}

// Subscribe implements mq.Conn.
func (c *Conn) Subscribe(ctx context.Context, to mq.Subscriber) error {
	b := c.broker
	var s *subscriber
	attach := func() {
		s = &subscriber{inbox: newInbox[[]byte](), conn: c}
		b.subscribers = append(b.subscribers, s)
		c.subscribers = append(c.subscribers, s)
	}
	return c.lives(ctx, attach, func() error {
		defer func() {
			b.mu.Lock()
			b.removeSubscriber(s)
			c.subscribers = without(c.subscribers, s)
			b.mu.Unlock()
		}()
		to.Gap()
		for {
			body, err := receive(ctx, b, &s.inbox)
			if err != nil {
				return err
			}
			to.Entry(body)
		}
	})
}

func (b *Broker) removeSubscriber(s *subscriber) {
	b.subscribers = without(b.subscribers, s)
	s.items.clear()
	s.lose()
}
