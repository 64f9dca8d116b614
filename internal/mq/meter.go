package mq

import "context"

// DeadQ has the messages that ended without being dealt with: rejected ones, and those of WriteQ that
// expired, or came back more than DeliveryLimit times. The bus alone puts messages there; it is consumed as WriteQ is,
// by one consumer at a time.
const DeadQ Queue = "dead.write"

// DeliveryLimit is how often a message of WriteQ may come back from a consumer: a lost connection, a
// hand-over and the death of a master count, so that only a message that kills its masters should reach it.
const DeliveryLimit = 100

// Meter counts what waits at the bus. It has a connection of its own, since a broker that does not
// answer it costs that connection. It is safe for concurrent use.
type Meter interface {
	// Depths returns how many messages of the work queues and of DeadQ wait for a
	// consumer; those that consumers hold do not count. A queue that is not there is left out.
	//
	// It waits for a connection, and for the broker's answer, until ctx ends; then, and when
	// the connection is lost, it returns ErrUnavailable, after Close ErrClosed.
	Depths(ctx context.Context) (map[Queue]int, error)

	// Close ends the connection within a bounded time. It is safe to call twice.
	Close() error
}
