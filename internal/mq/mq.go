// Package mq is the bus between the orchestrator and the workers: three work queues (readQ, linearQ, writeQ), one fan-out
// (syncQ) and private reply queues. One conformance suite (mqtest) covers both implementations: the broker (amqp) and an
// in-process bus (inproc).
//
// A Conn reconnects by itself: after a lost connection it dials again with backoff and jitter, redeclares its queues
// and resumes its consumers. Callers notice a lost connection only through errors of Publish and through
// Subscriber.Gap.
package mq

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Queue is the name of a work queue.
type Queue string

// The work queues. The course prescribes the names readQ and writeQ. LinearQ carries linearizable reads: only the
// master serves them, and in writeQ they would delay the writes. An implementation may add a prefix and a version
// suffix to the names.
const (
	ReadQ   Queue = "readQ"
	LinearQ Queue = "linearQ"
	WriteQ  Queue = "writeQ"
)

// WorkQueues returns all work queues.
func WorkQueues() []Queue { return []Queue{ReadQ, LinearQ, WriteQ} }

// SyncQ is the fan-out of committed entries. It is an exchange, not a queue:
// each subscriber has a private queue bound to it.
const SyncQ = "syncQ"

// DefaultMaxBytes limits the bytes waiting in one queue: twice the largest message. A broker that runs out of memory or
// disk blocks all publishers, including the publishers to other queues.
const DefaultMaxBytes = 192 << 20

// Errors of Publish, Reply and Broadcast. All but ErrUnconfirmed mean that the broker certainly does not have the
// message.
var (
	// ErrUnavailable: not connected, or the broker blocks publishers (alarm), or the context had already ended (its
	// error is wrapped too). Nothing was sent.
	ErrUnavailable = errors.New("broker unavailable")
	// ErrUnroutable: the queue does not exist; the broker returned the message.
	ErrUnroutable = errors.New("message returned: no such queue")
	// ErrRefused: the broker refused the message because the queue is full.
	ErrRefused = errors.New("message refused: queue full")
	// ErrUnconfirmed: the connection was lost, or the context ended, after the
	// message was sent and before the broker confirmed it. It may be delivered.
	ErrUnconfirmed = errors.New("message sent but not confirmed")
	// ErrMaybeRefused wraps ErrUnconfirmed: WriteQ of a cluster refused the message, but may have it.
	ErrMaybeRefused = fmt.Errorf("%w: the queue refused it: full, or without a leader", ErrUnconfirmed)
	// ErrClosed: Close was called.
	ErrClosed = errors.New("bus connection closed")
	// ErrStale is returned by Ack and Reject when the connection of the delivery is lost. The broker redelivers the
	// message, possibly to another consumer.
	ErrStale = errors.New("delivery belongs to a lost connection")
)

// Message is a published message. The publisher may reuse Body once the call has returned; the receiver must not
// change it.
type Message struct {
	Body []byte
	// ID is delivered with the message; it correlates a reply with its request.
	ID string
	// ReplyTo is the publisher's private reply queue, or empty.
	ReplyTo string
	// TTL is how long the message may wait in the queue; zero means for ever. The broker drops an expired message
	// some time later, unless it delivers the message first.
	TTL time.Duration
	// Persistent messages survive a restart of the broker once confirmed, if
	// the bus is durable at all.
	Persistent bool
	// Headers are delivered with the message; nil means none. Receivers ignore what they do not know.
	Headers map[string]string
	// Again, if it is not nil, is called before Publish repeats the message although the broker may have it. If it
	// returns false, Publish does not repeat the message.
	Again func() bool
}

// Delivery is a message on its way to one consumer. Ack or Reject it once, from any goroutine.
type Delivery interface {
	Message() Message
	// Forget frees the memory of the body if the bus can. The receiver calls it before it settles the delivery, and does not
	// use the body of Message any more.
	Forget()
	// Redelivered reports whether the broker may have delivered the message before.
	Redelivered() bool
	// Ack reports to the broker that the message is done. It returns ErrStale if the connection of the delivery is lost.
	Ack() error
	// Reject moves a message that could not be handled to the dead-letter queue (DeadQ). A message rejected from
	// DeadQ is dropped. Reject returns ErrStale as Ack does.
	Reject() error
}

// ConsumeConfig is the settings of a consumer of a work queue.
type ConsumeConfig struct {
	Queue Queue
	// Prefetch is how many unacknowledged deliveries this consumer may hold, at least 1; of reads in a cluster, from each
	// node.
	Prefetch int
}

// Subscriber receives the broadcasts of syncQ. Its functions are called from one goroutine, in order.
type Subscriber struct {
	// Entry receives each broadcast in the publisher's order. A slow subscriber loses the oldest broadcasts first.
	// Entry owns body.
	Entry func(body []byte)
	// Gap is called once the private queue is first bound: broadcasts arrive from then on. It is called again each
	// time the private queue had to be recreated, because broadcasts may have been lost.
	Gap func()
}

// State describes a Conn.
type State struct {
	// Connected reports whether the Conn can send and receive everything: all its connections are up. Of the connections that it
	// has to each node for the queues there, any that is up is enough. It is false before the first success.
	Connected bool
	// Blocked reports whether the broker has announced that it accepts no messages (alarm).
	Blocked bool
	// Lost counts the connections to the broker that were lost since the start. Each is re-established automatically.
	Lost uint64
	// Hosts has the host of the broker for each connection that is up.
	Hosts map[string]string
}

// Conn is one client's connection to the bus. It is safe for concurrent use.
type Conn interface {
	// Publish sends m to a work queue. A nil error means that the broker has taken responsibility for m (confirmed,
	// and on disk if Persistent is set and the bus is durable).
	//
	// After ErrUnavailable, ErrUnroutable, ErrRefused or ErrClosed the broker certainly does not have m; after
	// ErrUnconfirmed it may have m. Messages published from one goroutine keep their order.
	Publish(ctx context.Context, q Queue, m Message) error

	// Reply sends m to a private reply queue, named by a request's ReplyTo. If the requester is gone, it returns
	// ErrUnroutable.
	Reply(ctx context.Context, to string, m Message) error

	// Broadcast sends body to every current subscriber of syncQ, in order. A nil error means that the broker accepted
	// the message, not that a subscriber received it. If onSent is not nil, Broadcast calls it exactly once before
	// returning, as soon as any message sent later on this Conn is guaranteed to reach the broker later.
	Broadcast(ctx context.Context, body []byte, onSent func()) error

	// Consume delivers the messages of a work queue or of DeadQ to handle, one at a time, until ctx ends. It then
	// returns ctx's error. Deliveries that handle received can still be acknowledged afterwards.
	//
	// A delivery that is not acknowledged when the Conn closes or its process dies is redelivered to another
	// consumer, ahead of the rest of the queue.
	//
	// writeQ and DeadQ have a single active consumer: the first to subscribe. The next consumer becomes active when
	//   - the active one's Consume has returned and its deliveries are settled, or
	//   - its connection is lost, or
	//   - (broker's choice) it has had no message for some seconds.
	Consume(ctx context.Context, c ConsumeConfig, handle func(Delivery)) error

	// Subscribe binds a private queue to syncQ and calls s until ctx ends. It returns ctx's error.
	Subscribe(ctx context.Context, s Subscriber) error

	// Replies binds a private reply queue and calls handle with each message until ctx ends. It returns ctx's error.
	//
	// It calls ready with the queue's name each time it has created the queue. It calls ready with the empty name, or with
	// the name of another queue, as soon as the queue is lost, and with the empty name when Replies ends. After a lost
	// connection the queue has a new name, and the replies in the old queue are lost. In a cluster it also calls ready with the
	// empty name, and then with the same name again, when requests that wait for a receiver may be lost.
	Replies(ctx context.Context, ready func(name string), handle func(Message)) error

	// Ready returns nil if the bus would accept a message now, otherwise an error that gives the reason. A large
	// message may be refused even if Ready returns nil.
	Ready() error

	// State returns the state of the connection. It never waits.
	State() State

	// Durable reports whether a confirmed Persistent message survives the death of every process.
	Durable() bool

	// Close ends the connection within a bounded time, whatever state the broker is in. Unacknowledged deliveries are
	// redelivered. Close may be called twice.
	Close() error
}
