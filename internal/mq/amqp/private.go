package amqp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
)

// privatePrefetch is the most broadcasts or replies in flight to this process. They are acknowledged one by one:
// without acknowledgements the broker would send all it has, and a slow subscriber would have to buffer it in memory.
const privatePrefetch = 64

// private is a queue that only this connection uses, with its only consumer.
type private struct {
	name       string
	exchange   string // that it is bound to; empty if to none
	ch         *amqp091.Channel
	deliveries <-chan amqp091.Delivery
	leaving    <-chan struct{} // of its session
}

// openPrivate creates a private queue, bound to an exchange unless that is empty.
func (s *session) openPrivate(exchange, tag string, args amqp091.Table) (*private, error) {
	ch, err := s.channel()
	if err != nil {
		return nil, err
	}
	defer s.within(s.callLimit(), "make a private queue")()
	name, err := declarePrivate(ch, args)
	if err != nil {
		return nil, err
	}
	if exchange != "" {
		if err = ch.QueueBind(name, "", exchange, false, nil); err != nil {
			return nil, fmt.Errorf("bind %s to %s: %w", name, exchange, err)
		}
	}
	if err = ch.Qos(privatePrefetch, 0, false); err != nil {
		return nil, fmt.Errorf("limit the prefetch of %s: %w", name, err)
	}
	deliveries, err := ch.Consume(name, tag, false, true, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("consume %s: %w", name, err)
	}
	return &private{name: name, exchange: exchange, ch: ch, deliveries: deliveries, leaving: s.leaving}, nil
}

// bindAgain is the time between two bindings of a private queue to its exchange.
const bindAgain = 5 * time.Second

// serve calls handle with each delivery until ctx ends or the queue is lost. If again is true, it repeats the binding every
// bindAgain: an exchange that an operator deletes has no bindings when it is declared again, and the broker does not notify its
// queues.
func (q *private) serve(ctx context.Context, again bool, handle func(d *amqp091.Delivery)) error {
	var bind <-chan time.Time
	if again {
		ticker := time.NewTicker(bindAgain)
		defer ticker.Stop()
		bind = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-q.leaving:
			return errMoved
		case <-bind:
			// Without waiting for the answer, which would hold up deliveries. If the exchange is missing, the broker closes the channel.
			if err := q.ch.QueueBind(q.name, "", q.exchange, true, nil); err != nil {
				return fmt.Errorf("bind %s to %s again: %w", q.name, q.exchange, err)
			}
		case d, ok := <-q.deliveries:
			switch {
			case !ok:
				return errLost
			case ctx.Err() != nil:
				return ctx.Err()
			}
			handle(&d)
			_ = d.Ack(false) // on a lost channel the queue is lost too
		}
	}
}

// Subscribe implements mq.Conn.
func (c *Conn) Subscribe(ctx context.Context, to mq.Subscriber) error {
	return c.lives(ctx, c.consuming, mq.SyncQ, func(s *session, alive func()) error {
		if err := s.declare(c.names, c.config); err != nil {
			return err
		}
		// The broker's default when the queue is full: the oldest messages are dropped first.
		q, err := s.openPrivate(c.names.sync, c.config.Name, amqp091.Table{
			"x-max-length": int64(c.config.SyncBuffer), "x-max-length-bytes": int64(maxSyncBytes),
		})
		if err != nil {
			return err
		}
		defer c.aside(func() { s.closeChannel(q.ch) })
		alive()
		to.Gap()
		return q.serve(ctx, !c.config.cluster(), func(d *amqp091.Delivery) { to.Entry(d.Body) })
	})
}

// Replies implements mq.Conn. In a cluster it has a queue at each node: while a node is silent and the others have not
// noticed that yet, no queue can be created at any of them.
func (c *Conn) Replies(ctx context.Context, ready func(name string), handle func(mq.Message)) error {
	if !c.config.cluster() {
		return c.replies(ctx, c.consuming, ready, handle)
	}
	from := c.everyNode()
	named := choice{names: make([]string, len(from)), ended: nowhere, ready: ready}
	var losses sync.WaitGroup
	defer losses.Wait()
	for _, by := range []*link[*publisher]{c.publishing, c.bulk} {
		losses.Go(func() {
			by.losses(ctx, func(p *publisher) { named.again(slices.Index(c.config.nodes, p.at)) })
		})
	}
	var turn sync.Mutex
	ends := make(chan error, len(from))
	own, first := context.WithTimeout(ctx, connectTimeout)
	defer first()
	for i, l := range from {
		go func() { // Replies waits for its end
			if i > 0 {
				<-own.Done() // the own node comes first, if it is there
			}
			ends <- c.replies(ctx, l, func(name string) {
				named.set(i, name)
				first()
			}, func(m mq.Message) {
				turn.Lock()
				defer turn.Unlock()
				handle(m)
			})
		}()
	}
	var err error
	for range from {
		err = <-ends // all end for the same reason
	}
	return err
}

// choice selects one of the reply queues at the nodes. It keeps the present one as long as that queue exists. It is safe for
// concurrent use.
type choice struct {
	mu      sync.Mutex // guards the fields below, and is held while ready runs
	names   []string   // by node; empty while there is none
	present string
	ended   int // the node whose loss has ended the calls in flight at endedAt, until it has a queue again; or nowhere
	endedAt time.Time
	ready   func(name string)
}

// nowhere is the index of no node.
const nowhere = -1

// onceFor is for how long further losses at a node count as the same loss. It is longer than the heartbeats take to find all of them.
const onceFor = 10 * time.Second

// set stores the name of the queue at a node, or the empty name when it is lost.
func (c *choice) set(at int, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names[at] = name
	if c.ended == at && name != "" {
		c.ended = nowhere
	}
	if c.present != "" && slices.Contains(c.names, c.present) {
		return
	}
	if c.present != "" {
		c.ended, c.endedAt = at, time.Now()
	}
	next := ""
	for _, name := range c.names {
		next = cmp.Or(next, name)
	}
	if next != c.present {
		c.present = next
		c.ready(next)
	}
}

// again ends the calls in flight after the loss of a connection that published at a node: their requests may have been lost in a
// queue there. They are ended once for each loss of a node, so that the caller can send them again: again does nothing if the
// loss of the reply queue at the node ends them, or has done so.
func (c *choice) again(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.present == "" || c.present == c.names[at] || c.ended == at && time.Since(c.endedAt) < onceFor {
		return
	}
	c.ended, c.endedAt = at, time.Now()
	c.ready("")
	c.ready(c.present)
}

// replies receives replies over one link.
func (c *Conn) replies(ctx context.Context, from *link[*session], ready func(name string), handle func(mq.Message)) error {
	return c.lives(ctx, from, "replies", func(s *session, alive func()) error {
		q, err := s.openPrivate("", c.config.Name, amqp091.Table{
			"x-max-length": int64(c.config.MaxReady), "x-max-length-bytes": c.config.MaxBytes,
			"x-overflow": "reject-publish", // so that a worker learns that its answers are not being taken
		})
		if err != nil {
			return err
		}
		defer c.aside(func() { s.closeChannel(q.ch) })
		alive()
		defer ready("")
		ready(q.name)
		return q.serve(ctx, false, func(d *amqp091.Delivery) { handle(message(d)) })
	})
}
