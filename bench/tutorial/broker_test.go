package tutorial

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// confirmTime is what the broker takes to confirm a message, in a bubble's time. All else takes it none.
const confirmTime = time.Millisecond

// broker is an in-memory RabbitMQ for bubbles of testing/synctest. It records the calls made to it.
type broker struct {
	mu     sync.Mutex // guards the fields below
	named  int
	queues map[string]chan amqp.Delivery
	bound  []string // to the exchange
	asked  []string
	closed bool
}

func newBroker() *broker { return &broker{queues: map[string]chan amqp.Delivery{}} }

func (b *broker) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, fmt.Sprintf(format, args...))
}

// take returns the calls since the last take.
func (b *broker) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := b.asked
	b.asked = nil
	return asked
}

func (b *broker) queue(name string) chan amqp.Delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues[name] == nil {
		b.queues[name] = make(chan amqp.Delivery, 64)
	}
	return b.queues[name]
}

func (b *broker) dial(string) (connection, error) { return b, nil }

func (b *broker) Channel() (channel, error) {
	return &brokerChannel{broker: b, held: make(chan struct{}, 64)}, nil
}

func (b *broker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		for _, q := range b.queues {
			close(q)
		}
	}
	b.closed = true
	return nil
}

// brokerChannel is one channel with one consumer at most.
type brokerChannel struct {
	*broker

	prefetch int
	held     chan struct{} // one for each message that is not acknowledged
	confirms chan amqp.Confirmation
}

func (c *brokerChannel) QueueDeclare(name string, durable, _, exclusive, _ bool, _ amqp.Table) (amqp.Queue, error) { //nolint:revive // as in channel.
	if name == "" {
		c.mu.Lock()
		c.named++
		name = fmt.Sprintf("own-%d", c.named)
		c.mu.Unlock()
	}
	c.note("queue %s durable=%t exclusive=%t", name, durable, exclusive)
	return amqp.Queue{Name: name}, nil
}

func (c *brokerChannel) QueueBind(name, _, _ string, _ bool, _ amqp.Table) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bound = append(c.bound, name)
	return nil
}

func (c *brokerChannel) ExchangeDeclare(string, string, bool, bool, bool, bool, amqp.Table) error {
	return nil
}

func (c *brokerChannel) Qos(count, _ int, _ bool) error {
	c.prefetch = count
	c.held = make(chan struct{}, count)
	return nil
}

func (c *brokerChannel) Consume(queue, _ string, autoAck, _, _, _ bool, _ amqp.Table) (<-chan amqp.Delivery, error) { //nolint:revive // as in channel.
	c.note("consume %s prefetch=%d autoack=%t", queue, c.prefetch, autoAck)
	in, out := c.queue(queue), make(chan amqp.Delivery)
	go func() { // ends with the connection
		defer close(out)
		for d := range in {
			if !autoAck {
				c.held <- struct{}{}
				d.Acknowledger = &acknowledger{c, queue}
			}
			out <- d
		}
	}()
	return out, nil
}

func (c *brokerChannel) Confirm(bool) error {
	c.note("confirms")
	return nil
}

func (c *brokerChannel) NotifyPublish(confirms chan amqp.Confirmation) chan amqp.Confirmation {
	c.confirms = confirms
	return confirms
}

func (c *brokerChannel) PublishWithContext(_ context.Context, exchange, key string, _, _ bool, m amqp.Publishing) error { //nolint:revive // as in channel.
	mode := map[bool]string{true: "persistent", false: "transient"}[m.DeliveryMode == amqp.Persistent]
	to := []string{key}
	if exchange != "" {
		c.mu.Lock()
		to = slices.Clone(c.bound)
		c.mu.Unlock()
	}
	c.note("publish %s%s %s", exchange, key, mode)
	for _, queue := range to {
		c.queue(queue) <- amqp.Delivery{Type: m.Type, Body: m.Body, CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo}
	}
	if c.confirms != nil {
		time.AfterFunc(confirmTime, func() {
			c.note("confirm")
			c.confirms <- amqp.Confirmation{Ack: true}
		})
	}
	return nil
}

type acknowledger struct {
	*brokerChannel

	queue string
}

func (a *acknowledger) Ack(uint64, bool) error {
	a.note("ack %s", a.queue)
	<-a.held
	return nil
}

func (a *acknowledger) Nack(uint64, bool, bool) error { panic("not used") }
func (a *acknowledger) Reject(uint64, bool) error     { panic("not used") }

// start runs the RPC on b until the test ends. It must be called in a bubble.
func (b *broker) start(t *testing.T, s Settings) *RPC {
	t.Helper()
	r, err := newRPC(Config{Settings: s, Dir: t.TempDir()}, b.dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}
