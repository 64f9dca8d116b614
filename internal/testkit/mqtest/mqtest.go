// Package mqtest is the conformance suite of the bus: what every implementation of mq.Conn and mq.Meter must do, with
// one test for each promise. It assumes nothing about speed: each test waits for a promised event, up to
// Features.Patience.
package mqtest

import (
	"cmp"
	"testing"
	"time"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/conformance"
)

// Features describes an implementation, and how long its tests wait.
type Features struct {
	// Durable is what mq.Conn.Durable must return.
	Durable bool
	// Cluster says that the bus has several nodes. Then it creates no work queue, there is more than one reply queue, and a
	// refusal by WriteQ is mq.ErrUnconfirmed. The slowest test is left out.
	Cluster bool
	// Bubble runs each test in a synctest bubble: instantly, and with a proof
	// that no goroutine is left. It needs an implementation without sockets.
	Bubble bool
	// Patience limits the wait for what must happen; zero means 10 s.
	Patience time.Duration
	// Quiet is how long a test watches that something does not happen; zero means 200 ms.
	Quiet time.Duration
}

// Limits are the limits of a bus's queues. Zero means at least 20,000.
type Limits struct {
	MaxReady   int // of each work queue
	MaxBytes   int64
	SyncBuffer int // of each subscriber's private queue
}

// Bus is a bus for one test, with the faults that tests need. Its queues are empty and used by no other test.
type Bus interface {
	// Dial returns a new connection. The test closes it.
	Dial(t testing.TB, name string) mq.Conn
	// DialMeter returns a new meter. The test closes it.
	DialMeter(t testing.TB) mq.Meter
	// Crash cuts a connection as the death of its process would.
	Crash(t testing.TB, c mq.Conn)
	// Disconnect drops every connection on the broker's side; they reconnect by themselves.
	Disconnect(t testing.TB)
	// Block makes the broker refuse publishers (alarm), Unblock ends that.
	Block(t testing.TB)
	Unblock(t testing.TB)
	// DeleteQueue deletes a work queue without notice to its users.
	DeleteQueue(t testing.TB, q mq.Queue)
	// DeadLetters returns how many messages the dead-letter queue has.
	DeadLetters(t testing.TB) int
}

// NewBus makes a Bus and cleans up after the test.
type NewBus func(t testing.TB, l Limits) Bus

// test is the test of one promise.
type test struct {
	name   string
	limits Limits
	single bool // it is left out for a cluster
	run    func(s *suite)
}

// Run runs the suite.
func Run(t *testing.T, f Features, newBus NewBus) {
	t.Helper()
	f.Patience = cmp.Or(f.Patience, 10*time.Second)
	f.Quiet = cmp.Or(f.Quiet, 200*time.Millisecond)
	for _, group := range [][]test{queueTests(), deathTests(), refusalTests(), replyTests(), fanOutTests(), meterTests()} {
		for _, one := range group {
			if one.single && f.Cluster {
				continue
			}
			conformance.Run(t, one.name, f.Bubble, func(t *testing.T) {
				t.Helper()
				one.run(&suite{Suite: &conformance.Suite{T: t, Patience: f.Patience}, features: f, bus: newBus(t, one.limits)})
			})
		}
	}
}
