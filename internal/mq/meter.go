package mq

import "context"

// DeadQ has the messages that can never be dealt with. Nobody publishes to it or consumes from
// it through this package: it is the name under which a Meter counts it.
const DeadQ Queue = "dead.write"

// Meter counts what waits at the bus. It has a connection of its own, since a broker that does not
// answer it costs that connection. It is safe for concurrent use.
type Meter interface {
	// Depths returns how many messages of ReadQ, WriteQ and DeadQ wait for a
	// consumer; those that consumers hold do not count. A queue that is not there is left out.
	//
	// It waits for a connection, and for the broker's answer, until ctx ends; then, and when
	// the connection is lost, it returns ErrUnavailable, after Close ErrClosed.
	Depths(ctx context.Context) (map[Queue]int, error)

	// Close ends the connection within a bounded time. It is safe to call twice.
	Close() error
}
