package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/logkey"
	"rideshare/internal/mq"
)

// Why a receiver ended, if not by its context.
var (
	// errLost: its channel or queue is lost.
	errLost = errors.New("the broker ended the consumer")
	// errIdle: it receives nothing, and is recreated in case it no longer works.
	errIdle = errors.New("the consumer is idle")
)

// An idle consumer of writeQ is recreated. RabbitMQ 3.10 was seen to forget a consumer silently, or to lose the
// messages it sent to one, when the queue was deleted and recreated under load. Recreation heals this within
// idleTicks+1 times idleTick. It disturbs nothing, because an idle consumer holds no messages.
const (
	idleTick  = time.Second
	idleTicks = 2
)

// lives calls the function one with each session of a link, and again on the same session if its queue was lost, until ctx ends or
// the connection is closed. The function returns errMoved once the link has left its session. The function calls alive once it is set up.
func (c *Conn) lives(ctx context.Context, from *link[*session], what string, one func(s *session, alive func()) error) error {
	newStreak := func() streak { return newStreak(min(from.round, 1)) }
	bad := newStreak()
	alive := func() {
		if bad.logged {
			c.config.Log.InfoContext(ctx, "bus queue consumed", logkey.Queue, what,
				logkey.Count, bad.failures.Count(), logkey.Took, bad.failures.Took())
		}
		bad = newStreak()
	}
	var last *session
	for {
		s, err := from.next(ctx, last, nil)
		if err != nil {
			return err
		}
		err = one(s, alive)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if last = nil; s.conn.IsClosed() || errors.Is(err, errMoved) {
			last = s // the link logs the loss, and waits before the next session
			continue
		}
		if bad.failed() {
			c.config.Log.WarnContext(ctx, "bus queue not consumed, trying again", logkey.Queue, what, logkey.Error, err)
		}
		bad.pause(ctx)
	}
}

// consumer is one Consume on one channel.
type consumer struct {
	conn       *Conn
	session    *session
	ch         *amqp091.Channel
	queue      mq.Queue
	single     bool // the queue has a single active consumer
	turn       *sync.Mutex
	tag        string
	deliveries <-chan amqp091.Delivery

	mu      sync.Mutex // guards held and ending
	held    int        // deliveries passed to handle and not settled
	ending  bool
	settled chan struct{} // closed when ending and nothing is held
}

// Consume implements mq.Conn. It takes no message before this Conn can publish, because its answers could not be sent
// and their callers would time out. Until then the messages stay in the queue, for consumers that can answer.
func (c *Conn) Consume(ctx context.Context, config mq.ConsumeConfig, handle func(mq.Delivery)) error {
	if config.Prefetch < 1 {
		return fmt.Errorf("consume %s: prefetch %d is less than 1", config.Queue, config.Prefetch)
	}
	if c.names.at(config.Queue, node{}) == "" {
		return fmt.Errorf("consume %s: %w", config.Queue, mq.ErrUnroutable)
	}
	from := []*link[*session]{c.consuming}
	if c.config.cluster() && eachNode(config.Queue) {
		from = c.everyNode()
	}
	var turn sync.Mutex
	ends := make(chan error, len(from))
	for _, l := range from[1:] {
		go func() { ends <- c.consumeFrom(ctx, l, config, &turn, handle) }() // Consume waits for its end
	}
	err := c.consumeFrom(ctx, from[0], config, &turn, handle)
	for range from[1:] {
		err = <-ends // all end for the same reason
	}
	return err
}

// consumeFrom consumes a queue over one link, until ctx ends or the connection is closed. Calls that share turn run handle
// one at a time.
func (c *Conn) consumeFrom(ctx context.Context, from *link[*session], config mq.ConsumeConfig, turn *sync.Mutex, handle func(mq.Delivery)) error {
	return c.lives(ctx, from, string(config.Queue), func(s *session, alive func()) error {
		for _, by := range c.publishers {
			if _, err := by.next(ctx, nil, s.done); err != nil {
				return err
			}
		}
		for {
			k, err := c.consumer(ctx, s, config, turn)
			if err != nil {
				return err
			}
			alive()
			if err = k.serve(ctx, handle); !errors.Is(err, errIdle) {
				return err
			}
		}
	})
}

// consumer declares the queue if it is missing, and starts to consume it. It does not wait for the broker's answer after the end of
// ctx. While the leader of a quorum queue is silent, the broker does not answer, but a master that has lost its leadership must end.
func (c *Conn) consumer(ctx context.Context, s *session, config mq.ConsumeConfig, turn *sync.Mutex) (*consumer, error) {
	if err := s.declare(c.names, c.config); err != nil {
		return nil, err
	}
	name := c.names.at(config.Queue, s.at)
	k := &consumer{
		conn: c, session: s, queue: config.Queue, single: !eachNode(config.Queue), turn: turn,
		tag: c.config.Name + "." + name, settled: make(chan struct{}),
	}
	var err error
	answered := make(chan struct{})
	go func() { // ends with the time limit of the call
		k.ch, k.deliveries, err = s.consume(name, k.tag, config.Prefetch)
		close(answered)
	}()
	select {
	case <-answered:
	case <-ctx.Done():
		c.aside(func() {
			if <-answered; err == nil {
				s.closeChannel(k.ch)
			}
		})
		return nil, ctx.Err()
	}
	if err != nil && c.config.cluster() {
		err = missing(err)
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// consume starts to consume a queue on a new channel.
func (s *session) consume(name, tag string, prefetch int) (*amqp091.Channel, <-chan amqp091.Delivery, error) {
	ch, err := s.channel()
	if err != nil {
		return nil, nil, err
	}
	defer s.within(s.callLimit(), "consume "+name)()
	// Never global: RabbitMQ 4.3 silently treats global as per consumer.
	if err = ch.Qos(prefetch, 0, false); err != nil {
		return nil, nil, fmt.Errorf("limit the prefetch of %s: %w", name, err)
	}
	deliveries, err := ch.Consume(name, tag, false, false, false, false, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("consume %s: %w", name, err)
	}
	return ch, deliveries, nil
}

// serve passes deliveries to handle until ctx ends or the consumer is lost. It returns immediately in either case:
// steps that wait for the broker's answer or for settlements run in aside.
func (k *consumer) serve(ctx context.Context, handle func(mq.Delivery)) error {
	var tick <-chan time.Time
	if k.single {
		ticker := time.NewTicker(idleTick)
		defer ticker.Stop()
		tick = ticker.C
	}
	quiet := 0 // ticks since the last delivery
	for {
		select {
		case <-ctx.Done():
			k.conn.aside(func() { k.retire(nil) })
			return ctx.Err()
		case <-k.session.leaving:
			k.conn.aside(func() { k.retire(nil) })
			return errMoved
		case <-tick:
			if quiet++; quiet > idleTicks && !k.holds() {
				k.conn.aside(func() { k.session.closeChannel(k.ch) })
				return errIdle
			}
		case d, ok := <-k.deliveries:
			quiet = 0
			if !ok {
				// The channel is still open, so the queue was deleted. The unsettled deliveries came from that queue:
				// their settlement no longer matters.
				k.conn.aside(func() { k.session.closeChannel(k.ch) })
				return errLost
			}
			if err := k.handOver(ctx, d, handle); err != nil {
				return err
			}
		}
	}
}

// handOver passes a delivery to handle, or requeues it if ctx has ended.
func (k *consumer) handOver(ctx context.Context, d amqp091.Delivery, handle func(mq.Delivery)) error {
	k.turn.Lock()
	defer k.turn.Unlock()
	if ctx.Err() != nil {
		k.conn.aside(func() { k.retire(&d) })
		return ctx.Err()
	}
	handle(k.take(d))
	return nil
}

// retire ends a consumer cleanly: deliveries that were not passed to handle are requeued, and the others can still be
// settled. last is a delivery that came too late to be passed on, or nil.
//
// On a queue with round-robin consumers retire cancels the consumer, which requeues the rest immediately. On a queue with
// a single active consumer it does not cancel, because the broker would activate the next consumer while deliveries of
// this one are still being processed. There the channel stays open until these are settled; closing it requeues the
// rest, in order.
func (k *consumer) retire(last *amqp091.Delivery) {
	defer k.session.closeChannel(k.ch)
	if !k.single {
		// The cancellation comes first: the broker could send a requeued delivery to this same consumer again.
		stop := k.session.within(callTimeout, "cancel a consumer")
		_ = k.ch.Cancel(k.tag, false) // an error has ended the channel, and its deliveries
		stop()
		if last != nil {
			_ = last.Nack(false, true) // an error means that it is requeued in any case
		}
		for d := range k.deliveries {
			_ = d.Nack(false, true)
		}
	}
	k.mu.Lock()
	k.ending = true
	k.checkSettled()
	k.mu.Unlock()
	select {
	case <-k.settled:
	case <-k.session.done:
	}
}

// take makes the delivery that is passed to handle.
func (k *consumer) take(d amqp091.Delivery) mq.Delivery {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held++
	return &delivery{from: k, raw: d}
}

// holds reports whether a delivery was passed to handle and is not settled.
func (k *consumer) holds() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held > 0
}

func (k *consumer) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held--
	k.checkSettled()
}

// checkSettled is called with mu held, after a change.
func (k *consumer) checkSettled() {
	if k.ending && k.held == 0 {
		close(k.settled)
	}
}
