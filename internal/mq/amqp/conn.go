// Package amqp implements mq.Conn over RabbitMQ, as the delivered system uses it. Every request passes through it
// between the orchestrator and the workers, and it is the only package that uses AMQP. DESIGN.md gives the reasons
// for its design.
package amqp

import (
	"bytes"
	"context"
	"errors"
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
// It holds three connections, each of which reconnects by itself. One publishes and another consumes, because a broker alarm
// blocks connections that publish, while deliveries and acknowledgements must go on. The third publishes large messages, because
// a large message can occupy its connection for seconds. Config.SeparateWrites adds a fourth. In a cluster, each connection may
// lead to a different node, and a consumer of reads or replies adds a connection to each node.
type Conn struct {
	config     Config
	names      names
	publishing *link[*publisher]
	writing    *link[*publisher]   // to writeQ; the same as publishing unless it is separate
	bulk       *link[*publisher]   // for messages above bulkBytes
	publishers []*link[*publisher] // the links above, each once
	consuming  *link[*session]
	published  atomic.Uint64 // numbers the publishes, for their returns

	life       context.Context    // of the links
	cancel     context.CancelFunc // ends the links
	background sync.WaitGroup     // the links, and consumers that are being ended

	mu      sync.Mutex // guards the fields below, so that background does not grow once Close waits for it
	closed  bool
	toNodes []*link[*session] // see everyNode
}

var _ mq.Conn = (*Conn)(nil)

// bulk is the name of the connection for large messages.
const bulk = "bulk"

// Dial returns a Conn that connects, and reconnects, in the background until Close. Dial does not wait for the
// broker; its error describes what is wrong with the settings.
func Dial(config Config) (*Conn, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("bus settings: %w", err)
	}
	c := &Conn{config: config, names: newNames(config.Prefix)}
	c.life, c.cancel = context.WithCancel(context.Background())
	c.publishing = c.newPublishing("publisher", config)
	c.writing = c.publishing
	if config.SeparateWrites {
		c.writing = c.newPublishing("writer", config, c.names.write)
	}
	patient := config
	patient.ConfirmTimeout *= bulkPatience
	c.bulk = c.newPublishing(bulk, patient)
	c.consuming = c.newConsuming("consumer")
	for _, l := range c.publishers {
		c.background.Go(func() { l.run(c.life) })
	}
	c.background.Go(func() { c.consuming.run(c.life) })
	return c, nil
}

// newPublishing returns a link that publishes, and adds it to publishers. what is appended to the connection's name. must names
// queues that, in a cluster, must already exist.
func (c *Conn) newPublishing(what string, config Config, must ...string) *link[*publisher] {
	l := newLink("bus "+what, config, func(ctx context.Context, at node) (*publisher, error) {
		s, err := dialMember(ctx, config, at, config.Name+" "+what, must...)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { s.kill(ctx.Err()) }) // Close does not wait for answers
		defer stop()
		p, err := newPublisher(s, config)
		if err == nil && config.cluster() && what != bulk {
			go s.pulse(c.names, c.config.silentLimit) // ends with the session; large messages on their way delay its answers
		}
		return p, err
	})
	c.publishers = append(c.publishers, l)
	return l
}

// newConsuming returns a link that receives. what is appended to the connection's name.
func (c *Conn) newConsuming(what string) *link[*session] {
	return newLink("bus "+what, c.config, func(ctx context.Context, at node) (*session, error) {
		s, err := dialMember(ctx, c.config, at, c.config.Name+" "+what)
		if err == nil && c.config.cluster() {
			go s.pulse(c.names, c.config.silentLimit) // ends with the session
		}
		return s, err
	})
}

// everyNode returns the links that receive reads and replies in a cluster: one to each node, for the queue there. A node that is
// gone, silent or cut off then does not hold up the queues of other nodes.
func (c *Conn) everyNode() []*link[*session] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.toNodes != nil {
		return c.toNodes
	}
	for _, at := range c.config.nodes {
		l := c.newConsuming("consumer at " + at.host)
		l.nodes, l.round = []node{at}, 1
		l.giveUp = func(error) {} // other nodes may work
		c.toNodes = append(c.toNodes, l)
		if c.closed {
			l.close()
			continue
		}
		c.background.Go(func() { l.run(c.life) })
	}
	return c.toNodes
}

// Publish implements mq.Conn.
func (c *Conn) Publish(ctx context.Context, q mq.Queue, m mq.Message) error {
	if c.names.at(q, node{}) == "" {
		return fmt.Errorf("publish to %s: %w", q, mq.ErrUnroutable)
	}
	by := c.publishing
	if q == mq.WriteQ {
		by = c.writing
	}
	if err := c.toQueue(ctx, by, destination{queue: q}, m); err != nil {
		return fmt.Errorf("publish to %s: %w", q, err)
	}
	return nil
}

// Reply implements mq.Conn. While the connection is lost, a short reply waits for the next one (forReply). A name that the broker
// did not generate is unroutable: a forged name could write to any queue.
func (c *Conn) Reply(ctx context.Context, to string, m mq.Message) error {
	if !strings.HasPrefix(to, replyPrefix) {
		if err := c.Ready(); err != nil {
			return fmt.Errorf("reply to %q: %w", to, err)
		}
		return fmt.Errorf("reply to %q, which is no reply queue: %w", to, mq.ErrUnroutable)
	}
	if err := c.toQueue(ctx, c.publishing, destination{reply: to}, m); err != nil {
		return fmt.Errorf("reply to %s: %w", to, err)
	}
	return nil
}

// Broadcast implements mq.Conn. Broadcasts do not survive a restart of the broker; the log has the entries.
func (c *Conn) Broadcast(ctx context.Context, body []byte, onSent func()) error {
	message := amqp091.Publishing{DeliveryMode: amqp091.Transient, Body: bytes.Clone(body)}
	m := &publication{exchange: c.names.sync, message: message, elsewhere: c.config.cluster()}
	if onSent != nil {
		m.written = sync.OnceFunc(onSent)
		defer m.written()
	}
	if err := publish(ctx, c.publishing, m); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	return nil
}

// destination is where a message goes: to a shared queue, or to a reply queue by the broker's name for it.
type destination struct {
	queue mq.Queue
	reply string
}

// toQueue publishes to a queue. A message above bulkBytes uses the bulk connection.
func (c *Conn) toQueue(ctx context.Context, by *link[*publisher], to destination, m mq.Message) error {
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
	if c.config.cluster() {
		return c.throughNodes(ctx, by, to, message, m.Again)
	}
	send := func(p *publisher) error {
		return p.publish(ctx, &publication{key: c.name(to, node{}), message: message, mandatory: true})
	}
	p, _, err := by.get()
	if err == nil {
		err = send(p)
	}
	// A long reply does not wait: replies behind it can be sent over the other connection.
	if to.reply != "" && by != c.bulk && errors.Is(err, mq.ErrUnavailable) && (p == nil || p.lost()) {
		if next, lost := forReply(ctx, by, p, m.TTL); lost == nil {
			return send(next)
		}
	}
	return err
}

// name returns the broker's name of a destination, for a publisher at a node.
func (c *Conn) name(to destination, at node) string {
	if to.reply != "" {
		return to.reply
	}
	return c.names.at(to.queue, at)
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
//
// In a cluster publishes wait for a connection that is moving to another node. Ready stays nil for as long as they wait,
// and for writes as long as the cluster may take to elect a new leader.
func (c *Conn) Ready() error {
	for _, by := range c.publishers {
		if by == c.bulk {
			continue
		}
		p, _, err := by.get()
		if err == nil {
			err = p.refuses(context.Background())
		}
		if err != nil && !c.moves(by, p) {
			return err
		}
	}
	return nil
}

// moves reports whether a connection is lost and publishes still wait for its successor. p is its last publisher, or nil.
func (c *Conn) moves(by *link[*publisher], p *publisher) bool {
	limit := connectWait
	if by != c.publishing {
		limit = memberCallTimeout
	}
	return c.config.cluster() && (p == nil || !p.blocked.Load()) && by.moves(limit)
}

// State implements mq.Conn.
func (c *Conn) State() mq.State {
	hosts := map[string]string{}
	_, up, lost := c.consuming.state(hosts)
	s := mq.State{Connected: up, Lost: lost, Hosts: hosts}
	for _, by := range c.publishers {
		p, up, lost := by.state(hosts)
		s.Connected = s.Connected && up
		s.Blocked = s.Blocked || up && p.blocked.Load()
		s.Lost += lost
	}
	c.mu.Lock()
	toNodes := c.toNodes
	c.mu.Unlock()
	receives := len(toNodes) == 0
	for _, l := range toNodes {
		_, up, lost := l.state(hosts)
		receives = receives || up
		s.Lost += lost
	}
	s.Connected = s.Connected && receives
	return s
}

// Durable implements mq.Conn: writeQ is a quorum queue, on disk before a confirm.
func (c *Conn) Durable() bool { return true }

// Close implements mq.Conn. It returns within 5 s: if the broker does not answer in 2 s, the socket is closed.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closed = true
	toNodes := c.toNodes
	c.mu.Unlock()
	for _, l := range c.publishers {
		l.close()
	}
	for _, l := range append(toNodes, c.consuming) {
		l.close()
	}
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
	return c.toQueue(ctx, c.publishing, destination{queue: mq.DeadQ}, m)
}

// ttl returns the TTL that a message was published with.
func ttl(expiration string) time.Duration {
	ms, err := strconv.ParseInt(expiration, 10, 64)
	if err != nil {
		return 0 // none
	}
	return time.Duration(ms) * time.Millisecond
}
