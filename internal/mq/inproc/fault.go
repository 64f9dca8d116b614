package inproc

import (
	"slices"

	"rideshare/internal/mq"
)

// Disconnect drops every connection; all reconnect immediately by themselves. Unacknowledged deliveries are
// redelivered; replies in flight and private queues are lost.
func (b *Broker) Disconnect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		c.drop()
	}
	b.comeBack()
}

// Stop simulates a crash of the broker: connections drop, and messages that are not persistent are lost. Until Start,
// every call returns mq.ErrUnavailable.
func (b *Broker) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	for c := range b.conns {
		c.drop()
	}
	for _, q := range b.queues {
		var kept waiting
		for q.ready.len() > 0 {
			if i := q.ready.popFront(); i.message.Persistent {
				kept.pushBack(i)
			}
		}
		q.ready = kept
	}
}

// Start ends a Stop: every connection reconnects by itself.
func (b *Broker) Start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = false
	b.comeBack()
}

// comeBack makes every connection usable again.
func (b *Broker) comeBack() {
	if len(b.conns) > 0 && !b.stopped {
		b.declare()
	}
	for c := range b.conns {
		c.changed.Notify()
	}
}

// Block makes the broker refuse publishers, as it does when it is short of memory or
// disk. Deliveries and acknowledgements go on.
func (b *Broker) Block() { b.setBlocked(true) }

// Unblock ends a Block.
func (b *Broker) Unblock() { b.setBlocked(false) }

func (b *Broker) setBlocked(blocked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blocked = blocked
}

// DeleteQueue deletes a work queue with its messages, without notice to its users. Its consumers notice the loss and
// recreate the queue. Without consumers the queue stays deleted until a client consumes from it or connects.
func (b *Broker) DeleteQueue(name mq.Queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[name]
	if q == nil {
		return
	}
	delete(b.queues, name)
	for _, c := range slices.Clone(q.consumers) {
		q.cut(c, b.now())
	}
}

// SetSyncFault makes f decide what each subscriber receives. A nil f removes the fault.
func (b *Broker) SetSyncFault(f SyncFault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.syncFault = f
}

// SetConfirmLost makes Publish return mq.ErrUnconfirmed, although the message was accepted, whenever f returns true. A
// nil f removes the fault. f must not call the bus.
func (b *Broker) SetConfirmLost(f func(publisher string, q mq.Queue) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.confirmLost = f
}
