package mq

import "context"

// DeadQ is the dead-letter queue: rejected messages, and those of WriteQ that expired or were redelivered more than
// DeliveryLimit times. Only the bus puts messages there. Like WriteQ it has one active consumer at a time. A message of
// WriteQ is never dropped for want of room in DeadQ: it then counts towards the limits of WriteQ.
const DeadQ Queue = "dead.write"

// DeliveryLimit is how often a message of WriteQ may be redelivered. Lost connections, hand-overs and deaths of a
// master all count, so the limit is high enough that only a message that kills its masters should reach it.
const DeliveryLimit = 100

// Meter counts the messages waiting at the bus. It has its own connection, because a connection on which the broker
// does not answer is closed. It is safe for concurrent use.
type Meter interface {
	// Depths returns how many messages wait for a consumer in each of the queues. If none is named, these are all work
	// queues and DeadQ. Unacknowledged messages do not count. A queue that does not exist is left out.
	//
	// It waits for a connection and for the broker's answer until ctx ends. It returns ErrUnavailable when ctx ends
	// or the connection is lost, and ErrClosed after Close.
	Depths(ctx context.Context, queues ...Queue) (map[Queue]int, error)

	// Close ends the connection within a bounded time. It may be called twice.
	Close() error
}
