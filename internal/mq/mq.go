// Package mq is the bus between the orchestrator and the workers: three work
// queues (readQ, linearQ, writeQ), one fan-out (syncQ) and private reply queues. It has
// one conformance suite (mqtest) and, behind it, the broker (amqp) and an
// in-process bus (inproc).
//
// A Conn keeps itself alive: after a lost connection it dials again with backoff
// and jitter, declares its queues again and resumes its consumers. Nobody above
// this package sees a connection come or go, but for the errors of Publish and
// for Subscriber.Gap.
package mq

import (
	"context"
	"errors"
	"time"
)

// Queue is the name of a work queue.
type Queue string

// The queues, named as the course names them, and LinearQ for the linearizable reads, which only the
// master takes: in writeQ they would stand before the writes. An implementation may put a
// prefix before the names and a version behind.
const (
	ReadQ   Queue = "readQ"
	LinearQ Queue = "linearQ"
	WriteQ  Queue = "writeQ"
)

// WorkQueues are all of them.
func WorkQueues() []Queue { return []Queue{ReadQ, LinearQ, WriteQ} }

// SyncQ is the fan-out of committed entries. It is an exchange, not a queue:
// each subscriber has a private queue bound to it.
const SyncQ = "syncQ"

// DefaultMaxBytes is how many bytes wait in a queue at most: two of the largest messages. A broker that runs out of memory
// or disk stops all publishers, those of other queues too.
const DefaultMaxBytes = 192 << 20

// What Publish, Reply and Broadcast return. All but ErrUnconfirmed mean that the
// broker surely does not have the message.
var (
	// ErrUnavailable: not connected, or the broker blocks publishers (alarm), or the context
	// had ended before (its error is wrapped too). Nothing was sent.
	ErrUnavailable = errors.New("broker unavailable")
	// ErrUnroutable: there is no such queue, the broker returned the message.
	ErrUnroutable = errors.New("message returned: no such queue")
	// ErrRefused: the broker refused the message because the queue is full.
	ErrRefused = errors.New("message refused: queue full")
	// ErrUnconfirmed: the connection was lost, or the context ended, after the
	// message was sent and before the broker confirmed it. It may be delivered.
	ErrUnconfirmed = errors.New("message sent but not confirmed")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("bus connection closed")
	// ErrStale is returned by Ack and Reject when the connection that brought the
	// delivery is gone: the broker delivers the message again, to anybody.
	ErrStale = errors.New("delivery belongs to a lost connection")
)

// Message is what is published. The publisher may use Body again once the
// call returned; who receives it must not change it.
type Message struct {
	Body []byte
	// ID goes with the message to the consumer; it correlates a reply with its request.
	ID string
	// ReplyTo is the private queue of the publisher, empty for none.
	ReplyTo string
	// TTL is how long the message may wait in the queue; zero means for ever.
	// The broker drops it some time after that, unless it is delivered before.
	TTL time.Duration
	// Persistent messages survive a restart of the broker once confirmed, if
	// the bus is durable at all.
	Persistent bool
}

// Delivery is a message on its way to one consumer. Ack or Reject it once, from any goroutine.
type Delivery interface {
	Message() Message
	// Redelivered reports whether the broker may have delivered it before.
	Redelivered() bool
	// Ack tells the broker that the message is dealt with. It returns ErrStale
	// when the connection that brought it is gone.
	Ack() error
	// Reject gives a message that is not dealt with to the dead letters (DeadQ); one from there is
	// gone. It returns ErrStale as Ack does.
	Reject() error
}

// ConsumeConfig says how to consume a work queue.
type ConsumeConfig struct {
	Queue Queue
	// Prefetch is how many unacknowledged deliveries this consumer may hold, at least 1.
	Prefetch int
}

// Subscriber is how a worker hears of syncQ. Its functions are called from one
// goroutine, in order.
type Subscriber struct {
	// Entry gets each broadcast in the order of the publisher, with losses:
	// a slow subscriber loses the oldest ones first. body belongs to it.
	Entry func(body []byte)
	// Gap is called when broadcasts may have been lost because the private
	// queue was made anew, and once when it is bound the first time: from then on
	// broadcasts arrive.
	Gap func()
}

// State is how a Conn is.
type State struct {
	// Connected says that all that the Conn is made of is up. It is false before the first success.
	Connected bool
	// Blocked says that the broker takes no messages (alarm), as far as it has told.
	Blocked bool
	// Lost is how often a connection to the broker was lost since the start. Each was made anew, or is being made.
	Lost uint64
}

// Conn is one party's connection to the bus. It is safe for concurrent use.
type Conn interface {
	// Publish sends m to a work queue. A nil error means that the broker has
	// taken responsibility for it (confirmed, on disk if Persistent and the bus
	// is durable).
	//
	// ErrUnavailable, ErrUnroutable, ErrRefused and ErrClosed mean that it was
	// surely not taken, ErrUnconfirmed that nobody knows. Publishes of
	// one goroutine keep their order.
	Publish(ctx context.Context, q Queue, m Message) error

	// Reply sends m to a private reply queue, named by a request's ReplyTo. An
	// answer to somebody who is gone is ErrUnroutable.
	Reply(ctx context.Context, to string, m Message) error

	// Broadcast sends body to every present subscriber of syncQ, in order. A nil error
	// says that the broker has it, not that anybody gets it. It calls onItsWay, unless that is nil, once: as soon
	// as what this Conn sends later reaches the broker later, and in any case before it returns.
	Broadcast(ctx context.Context, body []byte, onItsWay func()) error

	// Consume calls handle for each delivery of a work queue, or of DeadQ, one after the
	// other, until ctx ends; then no delivery is handed over any more, Consume returns
	// ctx's error, and those not yet acknowledged can still be. Deliveries
	// that are not acknowledged when the Conn closes or its process dies go
	// to another consumer, before all others in the queue. writeQ and DeadQ hand messages to
	// one consumer at a time, the first that came (single active consumer); the next
	// takes over when that one's Consume has ended and its deliveries are settled, or its connection is gone,
	// and may when that one has nothing for some seconds.
	Consume(ctx context.Context, c ConsumeConfig, handle func(Delivery)) error

	// Subscribe binds a private queue to syncQ and calls s until ctx ends, whose error it returns.
	Subscribe(ctx context.Context, s Subscriber) error

	// Replies binds a private reply queue, calls ready with its name each time it is
	// made (again, with another name, after a lost connection, whose replies are lost), with
	// the empty name as soon as it is lost, and when Replies ends, and
	// calls handle with each message, until ctx ends, whose error it returns.
	Replies(ctx context.Context, ready func(name string), handle func(Message)) error

	// Ready returns nil when the bus would take a message now, else an error that says why not.
	Ready() error

	// State returns how the connection is. It never waits.
	State() State

	// Durable reports whether a confirmed Persistent message survives the death of every process.
	Durable() bool

	// Close ends the connection within a bounded time, whatever state the broker is in. Unacknowledged
	// deliveries go back. It is safe to call twice.
	Close() error
}
