// Package inproc is the bus inside one process: the broker of `rideshare up`
// and of the tests. It keeps the promises of mq.Conn as the real broker does,
// also the uncomfortable ones (redelivery, lost fan-out, stale deliveries), and
// has a hook for each fault, so that a test can make them happen. It is not durable.
package inproc

import (
	"fmt"
	"sync"
	"time"

	"rideshare/internal/mq"
)

// Defaults of Config.
const (
	// DefaultMaxReady bounds a work queue. Messages are batches: this many are
	// more than any deadline would let the workers finish.
	DefaultMaxReady = 10_000
	// DefaultSyncBuffer bounds what a slow subscriber may lag behind; what it
	// loses it reads from the log.
	DefaultSyncBuffer = 1_000
	// maxDeadLetters bounds the dead letters that are kept; the oldest go first.
	maxDeadLetters = 1_000
)

// Config says how long queues may get. Zero values mean the defaults.
type Config struct {
	// MaxReady is the most messages that wait in a work queue; further ones are refused.
	// What consumers hold does not count.
	MaxReady int
	// MaxBytes is how many bytes wait in a work queue, in the same way; mq.DefaultMaxBytes if zero.
	MaxBytes int64
	// SyncBuffer is the most broadcasts that wait for one subscriber; the oldest are lost first.
	SyncBuffer int
}

// SyncFault decides what a subscriber gets of a broadcast: returning nothing loses it,
// the same twice duplicates it, holding it back and returning it later
// reorders. It is called in the order of the broadcasts, once for each
// subscriber, and must not call the bus. subscriber is the name given to Dial.
type SyncFault func(subscriber string, body []byte) (deliver [][]byte)

// DeadLetter is a message that ended in a queue without being dealt with.
type DeadLetter struct {
	Queue   mq.Queue
	Message mq.Message
}

// Stats is a work queue at one moment.
type Stats struct {
	Ready     int // waiting for a consumer
	Unacked   int // held by consumers
	Consumers int
}

// Broker is the in-process broker; there is one per system. It is safe for concurrent use.
//
// One mutex guards everything: each step under it is a few dozen instructions, and no
// handler is ever called with it.
type Broker struct {
	config Config

	mu          sync.Mutex // guards the fields below, all queues and the state of all connections
	queues      map[mq.Queue]*queue
	replies     map[string]*replyQueue
	subscribers []*subscriber
	conns       map[*Conn]struct{}
	made        uint64 // reply queues so far, for their names
	stopped     bool
	blocked     bool
	syncFault   SyncFault
	confirmLost func(publisher string, q mq.Queue) bool
}

// NewBroker returns a running Broker. It has no goroutines of its own and needs no Close.
func NewBroker(c Config) *Broker {
	if c.MaxReady == 0 {
		c.MaxReady = DefaultMaxReady
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = mq.DefaultMaxBytes
	}
	if c.SyncBuffer == 0 {
		c.SyncBuffer = DefaultSyncBuffer
	}
	return &Broker{
		config:  c,
		queues:  map[mq.Queue]*queue{},
		replies: map[string]*replyQueue{},
		conns:   map[*Conn]struct{}{},
	}
}

// Dial returns a new connection. The name is for faults and need not be unique. With
// a stopped broker the connection comes up when the broker does.
func (b *Broker) Dial(name string) *Conn {
	c := &Conn{broker: b, name: name, changed: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[c] = struct{}{}
	if !b.stopped {
		b.declare()
	}
	return c
}

// declare makes the work queues that are missing, as each party does when it connects.
func (b *Broker) declare() {
	for _, name := range mq.WorkQueues() {
		if b.queues[name] == nil {
			b.queues[name] = &queue{broker: b, name: name, single: name == mq.WriteQ, maxReady: b.config.MaxReady, maxBytes: b.config.MaxBytes}
		}
	}
	if b.queues[mq.DeadQ] == nil {
		b.queues[mq.DeadQ] = &queue{broker: b, name: mq.DeadQ, single: true, maxReady: maxDeadLetters}
	}
}

// Stats returns the state of a work queue, zero for one that does not exist.
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

// bury puts a message of q into the dead letters. The oldest one makes room.
func (b *Broker) bury(q *queue, m mq.Message) {
	dead := b.queues[mq.DeadQ]
	if dead == nil || q == dead {
		return
	}
	if dead.ready.len() >= dead.maxReady {
		dead.ready.popFront()
	}
	m.TTL = 0
	dead.add(&item{message: m, letter: DeadLetter{Queue: q.name, Message: m}}, b.now())
}

// newReplyName returns a name that no other reply queue ever had, so that late
// replies cannot reach somebody else.
func (b *Broker) newReplyName(owner string) string {
	b.made++
	return fmt.Sprintf("reply.%s.%d", owner, b.made)
}

// now is the one clock of all TTLs.
func (b *Broker) now() time.Time { return time.Now() }
