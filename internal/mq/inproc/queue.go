package inproc

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"rideshare/internal/mq"
)

// errSettled is returned for the second Ack or Reject of one delivery. A real broker would close the channel, which
// loses all its other deliveries.
var errSettled = errors.New("delivery was settled before")

// item is a message in a work queue. Its place preserves the order of publishing when the message is requeued.
type item struct {
	message     mq.Message
	place       uint64
	expires     time.Time // zero means never
	redelivered bool
	returns     int        // how often a consumer returned it
	letter      DeadLetter // of a dead letter
}

func (i *item) expired(now time.Time) bool {
	return !i.expires.IsZero() && !now.Before(i.expires)
}

// queue is a work queue. Everything in it is guarded by Broker.mu.
type queue struct {
	broker    *Broker
	name      mq.Queue
	single    bool // single active consumer
	maxReady  int
	maxBytes  int64
	published uint64      // the place of the newest message
	ready     waiting     // by ascending place
	consumers []*consumer // in order of subscription
	turn      int         // index of the consumer whose turn it is
}

// waiting holds the ready messages of a queue, and the sum of their bytes.
type waiting struct {
	deque[*item]

	bytes int64
}

func (w *waiting) pushBack(i *item) {
	w.bytes += int64(len(i.message.Body))
	w.deque.pushBack(i)
}

func (w *waiting) pushFront(i *item) {
	w.bytes += int64(len(i.message.Body))
	w.deque.pushFront(i)
}

func (w *waiting) popFront() *item {
	i := w.deque.popFront()
	w.bytes -= int64(len(i.message.Body))
	return i
}

// consumer is one call of Consume, from one connect to the next disconnect. Broker.mu guards all its fields.
type consumer struct {
	inbox[*delivery]
	conn     *Conn
	queue    *queue
	prefetch int
	held     []*delivery // delivered to this consumer and not settled, including those in the inbox
	ending   bool        // receives no more; stays until held is empty
}

func (c *consumer) canTake() bool { return !c.ending && len(c.held) < c.prefetch }

// push adds a new message, or reports that the queue is full. Unacknowledged messages do not count.
func (q *queue) push(m mq.Message, now time.Time) bool {
	q.dropExpired(now)
	if !q.hasRoom(m) {
		return false
	}
	i := &item{message: m}
	if m.TTL > 0 {
		i.expires = now.Add(m.TTL)
	}
	q.add(i, now)
	return true
}

// hasRoom reports whether the queue may take m. Dead letters beyond the limits of their queue count as messages of
// writeQ, because a real broker keeps them there.
func (q *queue) hasRoom(m mq.Message) bool {
	messages, bytes := q.ready.len(), q.ready.bytes
	if dead := q.broker.queues[mq.DeadQ]; q.name == mq.WriteQ && dead != nil {
		messages += max(0, dead.ready.len()-dead.maxReady)
		bytes += max(0, dead.ready.bytes-dead.maxBytes)
	}
	return messages < q.maxReady && bytes+int64(len(m.Body)) <= q.maxBytes
}

// add appends a message to the end of the queue.
func (q *queue) add(i *item, now time.Time) {
	q.published++
	i.place = q.published
	q.ready.pushBack(i)
	q.dispatch(now)
}

// dropExpired drops the expired messages at the head. As in a real broker, an expired message that is not at the head
// stays until the messages before it are gone. Expired writes become dead letters.
func (q *queue) dropExpired(now time.Time) {
	for q.ready.len() > 0 && q.ready.at(0).expired(now) {
		if i := q.ready.popFront(); q.name == mq.WriteQ {
			q.broker.deadLetter(q, i.message)
		}
	}
}

// dispatch gives ready messages to the consumers that may take more.
func (q *queue) dispatch(now time.Time) {
	for {
		q.dropExpired(now)
		if q.ready.len() == 0 {
			return
		}
		c := q.nextConsumer()
		if c == nil {
			return
		}
		i := q.ready.popFront()
		d := &delivery{item: i, consumer: c, redelivered: i.redelivered}
		c.held = append(c.held, d)
		c.put(d)
	}
}

// nextConsumer returns the consumer that gets the next message, or nil if none may take it. With a single active
// consumer that is the first to subscribe, even while it is ending; otherwise the consumers take turns.
func (q *queue) nextConsumer() *consumer {
	if len(q.consumers) == 0 {
		return nil
	}
	if q.single {
		if c := q.consumers[0]; c.canTake() {
			return c
		}
		return nil
	}
	for range q.consumers {
		c := q.consumers[q.turn%len(q.consumers)]
		q.turn = (q.turn + 1) % len(q.consumers)
		if c.canTake() {
			return c
		}
	}
	return nil
}

// requeue puts messages back in their places, which are ahead of all messages that were never delivered.
func (q *queue) requeue(items []*item) {
	if len(items) == 0 {
		return
	}
	last := slices.MaxFunc(items, func(a, b *item) int { return cmp.Compare(a.place, b.place) }).place
	for q.ready.len() > 0 && q.ready.at(0).place < last {
		items = append(items, q.ready.popFront())
	}
	slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.place, b.place) })
	for _, i := range slices.Backward(items) {
		q.ready.pushFront(i)
	}
}

// cut ends a consumer whose connection is lost: everything it holds is requeued.
func (q *queue) cut(c *consumer, now time.Time) {
	c.lose()
	q.giveBack(c, c.held)
	c.held = nil
	q.forget(c)
	q.dispatch(now)
}

// retire ends a consumer cleanly: deliveries that were not passed to handle are requeued; the others can still be
// settled.
func (q *queue) retire(c *consumer, now time.Time) {
	if c.lost {
		return
	}
	c.ending = true
	var unseen []*delivery
	for c.items.len() > 0 {
		unseen = append(unseen, c.items.popFront())
	}
	c.held = slices.DeleteFunc(c.held, func(d *delivery) bool { return slices.Contains(unseen, d) })
	q.giveBack(c, unseen)
	if len(c.held) == 0 {
		q.forget(c)
	}
	q.dispatch(now)
}

func (q *queue) giveBack(c *consumer, ds []*delivery) {
	items := make([]*item, 0, len(ds))
	for _, d := range ds {
		d.item.redelivered = true
		if d.item.returns++; q.name == mq.WriteQ && d.item.returns > mq.DeliveryLimit {
			q.broker.deadLetter(q, d.item.message)
			continue
		}
		items = append(items, d.item)
	}
	c.items.clear()
	q.requeue(items)
}

// forget removes a consumer that no longer holds anything.
func (q *queue) forget(c *consumer) {
	c.conn.consumers = without(c.conn.consumers, c)
	i := slices.Index(q.consumers, c)
	if i < 0 {
		return
	}
	q.consumers = slices.Delete(q.consumers, i, i+1)
	if i < q.turn {
		q.turn-- // the others keep their turns
	}
}

// delivery implements mq.Delivery.
type delivery struct {
	item        *item
	consumer    *consumer
	redelivered bool // at the time of this delivery
	settled     bool // guarded by Broker.mu
}

func (d *delivery) Message() mq.Message { return d.item.message }

// Forget does nothing: the item may be delivered again.
func (d *delivery) Forget() {}

func (d *delivery) Redelivered() bool { return d.redelivered }

func (d *delivery) Ack() error { return d.settle(false) }

func (d *delivery) Reject() error { return d.settle(true) }

func (d *delivery) settle(reject bool) error {
	c := d.consumer
	b := c.conn.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.lost {
		return mq.ErrStale
	}
	if d.settled {
		return errSettled
	}
	d.settled = true
	if i := slices.Index(c.held, d); i >= 0 {
		c.held = slices.Delete(c.held, i, i+1)
	}
	if reject {
		b.deadLetter(c.queue, d.item.message)
	}
	if c.ending && len(c.held) == 0 {
		c.queue.forget(c)
	}
	c.queue.dispatch(b.now())
	return nil
}
