// Package amqp implements mq.Conn over RabbitMQ, as the delivered system uses it. Every request passes through it
// between the orchestrator and the workers, and it is the only package that uses AMQP. DESIGN.md gives the reasons
// for its design.
package amqp

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
)

// Conn is one client's connection to the broker. It implements mq.Conn.
//
// It holds three connections, each of which reconnects by itself. One publishes and another consumes, because a broker
// alarm blocks connections that publish, while deliveries and acknowledgements must go on. The third publishes large
// messages, because a large message can occupy its connection for seconds. Config.SeparateWrites adds a fourth.
type Conn struct {
	config     Config
	names      names
	publishing *link[*publisher]
	writing    *link[*publisher]   // to writeQ; the same as publishing unless it is separate
	bulk       *link[*publisher]   // for messages above bulkBytes
	publishers []*link[*publisher] // the links above, each once
	consuming  *link[*session]
	published  atomic.Uint64 // numbers the publishes, for their returns

	cancel     context.CancelFunc // ends the links
	background sync.WaitGroup     // the links, and consumers that are being ended

	mu     sync.Mutex // guards closed, so that background does not grow once Close waits for it
	closed bool
}

var _ mq.Conn = (*Conn)(nil)

// Dial returns a Conn that connects, and reconnects, in the background until Close. Dial does not wait for the
// broker; its error describes what is wrong with the settings.
func Dial(config Config) (*Conn, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("bus settings: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Conn{config: config, names: newNames(config.Prefix), cancel: cancel}
	c.publishing = c.newPublishing("publisher", config)
	c.writing = c.publishing
	if config.SeparateWrites {
		c.writing = c.newPublishing("writer", config)
	}
	bulk := config
	bulk.ConfirmTimeout *= bulkPatience
	c.bulk = c.newPublishing("bulk", bulk)
	c.consuming = newLink("bus consumer", config, func(ctx context.Context) (*session, error) {
		return dialSession(ctx, config, config.Name+" consumer")
	})
	for _, l := range c.publishers {
		c.background.Go(func() { l.run(ctx) })
	}
	c.background.Go(func() { c.consuming.run(ctx) })
	return c, nil
}

// newPublishing returns a link that publishes, and adds it to publishers. what is appended to the connection's name.
func (c *Conn) newPublishing(what string, config Config) *link[*publisher] {
	l := newLink("bus "+what, config, func(ctx context.Context) (*publisher, error) {
		s, err := dialSession(ctx, config, config.Name+" "+what)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { s.kill(ctx.Err()) }) // Close does not wait for answers
		defer stop()
		return newPublisher(s, config)
	})
	c.publishers = append(c.publishers, l)
	return l
}

// Publish implements mq.Conn.
func (c *Conn) Publish(ctx context.Context, q mq.Queue, m mq.Message) error {
	name := c.names.of(q)
	if name == "" {
		return fmt.Errorf("publish to %s: %w", q, mq.ErrUnroutable)
	}
	by := c.publishing
	if q == mq.WriteQ {
		by = c.writing
	}
	if err := c.toQueue(ctx, by, name, m); err != nil {
		return fmt.Errorf("publish to %s: %w", q, err)
	}
	return nil
}

// Reply implements mq.Conn. A name that the broker did not generate is unroutable: a forged name could write to any
// queue.
func (c *Conn) Reply(ctx context.Context, to string, m mq.Message) error {
	if !strings.HasPrefix(to, replyPrefix) {
		if err := c.Ready(); err != nil {
			return fmt.Errorf("reply to %q: %w", to, err)
		}
		return fmt.Errorf("reply to %q, which is no reply queue: %w", to, mq.ErrUnroutable)
	}
	if err := c.toQueue(ctx, c.publishing, to, m); err != nil {
		return fmt.Errorf("reply to %s: %w", to, err)
	}
	return nil
}

// Broadcast implements mq.Conn. Broadcasts do not survive a restart of the broker; the log has the entries.
func (c *Conn) Broadcast(ctx context.Context, body []byte, onSent func()) error {
	message := amqp091.Publishing{DeliveryMode: amqp091.Transient, Body: bytes.Clone(body)}
	m := &publication{exchange: c.names.sync, message: message}
	if onSent != nil {
		m.written = sync.OnceFunc(onSent)
		defer m.written()
	}
	if err := publish(ctx, c.publishing, m); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	return nil
}

// toQueue publishes to a queue, given the broker's name for it. A message above bulkBytes uses the bulk connection.
func (c *Conn) toQueue(ctx context.Context, by *link[*publisher], name string, m mq.Message) error {
	message := amqp091.Publishing{
		DeliveryMode:  amqp091.Transient,
		CorrelationId: m.ID,
		ReplyTo:       m.ReplyTo,
		MessageId:     strconv.FormatUint(c.published.Add(1), 36),
		// A copy: if its deadline ends the wait, the caller may reuse its buffer while the writer still sends it.
		Body:    bytes.Clone(m.Body),
		Headers: table(m.Headers),
	}
	if m.Persistent {
		message.DeliveryMode = amqp091.Persistent
	}
	if m.TTL > 0 {
		message.Expiration = strconv.FormatInt(max(1, m.TTL.Milliseconds()), 10)
	}
	if len(m.Body) > bulkBytes {
		by = c.bulk
	}
	return publish(ctx, by, &publication{key: name, message: message, mandatory: true})
}

func publish(ctx context.Context, by *link[*publisher], m *publication) error {
	p, _, err := by.get()
	if err != nil {
		return err
	}
	return p.publish(ctx, m)
}

// Ready implements mq.Conn. It returns nil if every queue can be published to. It ignores the connection for large
// messages: while only that connection is lost, large messages are refused and all others pass.
func (c *Conn) Ready() error {
	for _, by := range c.publishers {
		if by == c.bulk {
			continue
		}
		p, _, err := by.get()
		if err == nil {
			err = p.refuses(context.Background())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// State implements mq.Conn.
func (c *Conn) State() mq.State {
	_, up, lost := c.consuming.state()
	s := mq.State{Connected: up, Lost: lost}
	for _, by := range c.publishers {
		p, up, lost := by.state()
		s.Connected = s.Connected && up
		s.Blocked = s.Blocked || up && p.blocked.Load()
		s.Lost += lost
	}
	return s
}

// Durable implements mq.Conn: writeQ is a quorum queue, on disk before a confirm.
func (c *Conn) Durable() bool { return true }

// Close implements mq.Conn. It returns within 5 s: if the broker does not answer in 2 s, the socket is closed.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	for _, l := range c.publishers {
		l.close()
	}
	c.consuming.close()
	c.cancel()
	c.background.Wait()
	return nil
}

// aside runs f in the background; Close waits for its end. After Close it does not run f, because everything that f
// could end is already ending.
func (c *Conn) aside(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.background.Go(f)
	}
}

// deadLetter copies a message that can never be handled to the dead letters, for queues where the broker does not do so
// itself.
func (c *Conn) deadLetter(m mq.Message) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadLetterTimeout)
	defer cancel()
	m.Persistent, m.TTL = true, 0
	return c.toQueue(ctx, c.publishing, c.names.dead, m)
}

// ttl returns the TTL that a message was published with.
func ttl(expiration string) time.Duration {
	ms, err := strconv.ParseInt(expiration, 10, 64)
	if err != nil {
		return 0 // none
	}
	return time.Duration(ms) * time.Millisecond
}
