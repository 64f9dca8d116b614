// Package inproc is the bus inside one process: the broker of `rideshare up` and of the tests. It behaves like the real
// broker, as mq.Conn promises, including redelivery, lost broadcasts and stale deliveries. Tests can trigger each
// fault. It is not durable.
package inproc

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"rideshare/internal/mq"
)

// Defaults of Config.
const (
	// DefaultMaxReady limits a work queue. Messages are batches: the workers could not finish this many before any
	// deadline.
	DefaultMaxReady = 10_000
	// DefaultSyncBuffer limits how many broadcasts a slow subscriber may lag behind. It reads the lost ones from the
	// log.
	DefaultSyncBuffer = 1_000
	// maxDeadLetters is how many dead letters may wait before further ones count towards the limits of writeQ.
	maxDeadLetters = 1_000
)

// Config limits the lengths of queues. Zero values mean the defaults.
type Config struct {
	// MaxReady is how many messages may wait in a work queue; more are refused. Unacknowledged messages do not count.
	MaxReady int
	// MaxBytes limits the waiting bytes of a work queue in the same way; mq.DefaultMaxBytes if zero.
	MaxBytes int64
	// SyncBuffer is how many broadcasts may wait for one subscriber; the oldest are dropped first.
	SyncBuffer int
}

// SyncFault decides which copies of a broadcast a subscriber receives. Returning nothing loses the broadcast,
// returning it twice duplicates it, keeping it and returning it later reorders it. SyncFault is called in the order
// of the broadcasts, once per subscriber, and must not call the bus. subscriber is the name given to Dial.
type SyncFault func(subscriber string, body []byte) (deliver [][]byte)

// DeadLetter is a message that was rejected, expired or redelivered too often.
type DeadLetter struct {
	Queue   mq.Queue
	Message mq.Message
}

// Stats describes a work queue at one moment.
type Stats struct {
	Ready     int // waiting for a consumer
	Unacked   int // delivered to consumers and not settled
	Consumers int
}

// Broker is the in-process broker; there is one per system. It is safe for concurrent use.
//
// One mutex guards everything: each step under it takes a few dozen instructions, and handlers are always called
// without it.
type Broker struct {
	config Config

	mu          sync.Mutex // guards the fields below, all queues and the state of all connections
	queues      map[mq.Queue]*queue
	replies     map[string]*replyQueue
	subscribers []*subscriber
	conns       map[*Conn]struct{}
	made        uint64 // number of reply queues so far, for their names
	stopped     bool
	blocked     bool
	syncFault   SyncFault
	confirmLost func(publisher string, q mq.Queue) bool
}

// NewBroker returns a running Broker. It has no goroutines of its own and needs no Close.
func NewBroker(c Config) *Broker {
	c.MaxReady = cmp.Or(c.MaxReady, DefaultMaxReady)
	c.MaxBytes = cmp.Or(c.MaxBytes, mq.DefaultMaxBytes)
	c.SyncBuffer = cmp.Or(c.SyncBuffer, DefaultSyncBuffer)
	return &Broker{
		config:  c,
		queues:  map[mq.Queue]*queue{},
		replies: map[string]*replyQueue{},
		conns:   map[*Conn]struct{}{},
	}
}

// Dial returns a new connection. name is used for faults and need not be unique. If the broker is stopped, the
// connection comes up when the broker starts.
func (b *Broker) Dial(name string) *Conn {
	c := &Conn{broker: b, name: name}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[c] = struct{}{}
	if !b.stopped {
		b.declare()
	}
	return c
}

// declare creates the missing work queues, as each client does when it connects.
func (b *Broker) declare() {
	for _, name := range mq.WorkQueues() {
		if b.queues[name] == nil {
			b.queues[name] = &queue{broker: b, name: name, single: name == mq.WriteQ, maxReady: b.config.MaxReady, maxBytes: b.config.MaxBytes}
		}
	}
	if b.queues[mq.DeadQ] == nil {
		b.queues[mq.DeadQ] = &queue{broker: b, name: mq.DeadQ, single: true, maxReady: maxDeadLetters, maxBytes: b.config.MaxBytes}
	}
}

// Stats returns the state of a work queue, zero if the queue does not exist.
func (b *Broker) Stats(name mq.Queue) Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[name]
	if q == nil {
		return Stats{}
	}
	q.dropExpired(b.now())
	s := Stats{Ready: q.ready.len(), Consumers: len(q.consumers)}
	for _, c := range q.consumers {
		s.Unacked += len(c.held)
	}
	return s
}

// DeadLetters returns the dead letters that wait for a consumer, oldest first.
func (b *Broker) DeadLetters() []DeadLetter {
	b.mu.Lock()
	defer b.mu.Unlock()
	dead := b.queues[mq.DeadQ]
	if dead == nil {
		return nil
	}
	var letters []DeadLetter
	for i := range dead.ready.len() {
		letters = append(letters, dead.ready.at(i).letter)
	}
	return letters
}

// deadLetter moves a message of q to the dead letters. A read for which there is no room is dropped; a write never is.
func (b *Broker) deadLetter(q *queue, m mq.Message) {
	dead := b.queues[mq.DeadQ]
	if dead == nil || q == dead {
		return
	}
	if q.name != mq.WriteQ && !dead.hasRoom(m) {
		return
	}
	m.TTL = 0
	dead.add(&item{message: m, letter: DeadLetter{Queue: q.name, Message: m}}, b.now())
}

// newReplyName returns a name that no other reply queue ever had, so that late replies cannot reach another caller.
func (b *Broker) newReplyName(owner string) string {
	b.made++
	return fmt.Sprintf("reply.%s.%d", owner, b.made)
}

// now is the clock of all TTLs.
func (b *Broker) now() time.Time { return time.Now() }
