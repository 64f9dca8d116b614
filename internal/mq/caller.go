package mq

import (
	"context"
	"strconv"
	"sync"
	"time"
)

// Caller does request and reply over a Conn. It has one reply queue, which is
// being consumed before the first request leaves, so that a fast worker cannot
// answer into the void. It is safe for concurrent use.
type Caller struct {
	conn Conn

	mu      sync.Mutex // guards the fields below
	replyTo string
	ready   chan struct{} // closed while replyTo is set
	next    uint64
	waiting map[string]*call
}

type call struct {
	onReply func(body []byte) bool
	done    chan struct{} // closed when onReply returned true
}

// NewCaller returns a Caller on conn. Run must be running for Call to work.
func NewCaller(conn Conn) *Caller {
	return &Caller{conn: conn, ready: make(chan struct{}), waiting: map[string]*call{}}
}

// Run consumes the reply queue until ctx ends and returns its error.
func (c *Caller) Run(ctx context.Context) error {
	return c.conn.Replies(ctx, c.setReplyTo, c.deliver)
}

// Call publishes body to q and hands each reply to onReply, from another
// goroutine but never two at once and none after Call has returned, until onReply returns true: it was the last.
//
// An error of Publish means that nothing was sent, but for ErrUnconfirmed, after which Call waits
// no longer. ctx's error means that the last reply did not come in time: the
// request may have been dealt with, or may still be. The request's TTL is ctx's deadline.
func (c *Caller) Call(ctx context.Context, q Queue, body []byte, onReply func(body []byte) bool) error {
	replyTo, err := c.waitReady(ctx)
	if err != nil {
		return err
	}
	waiting := &call{onReply: onReply, done: make(chan struct{})}
	id := c.add(waiting)
	defer c.remove(id)

	m := Message{Body: body, ID: id, ReplyTo: replyTo, Persistent: q == WriteQ}
	if deadline, ok := ctx.Deadline(); ok {
		m.TTL = max(time.Until(deadline), time.Millisecond)
	}
	if err := c.conn.Publish(ctx, q, m); err != nil {
		return err
	}
	select {
	case <-waiting.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitReady returns the name of the reply queue. With none, because the bus is
// not connected yet or any more, it returns ErrUnavailable once ctx ends.
func (c *Caller) waitReady(ctx context.Context) (string, error) {
	for {
		c.mu.Lock()
		replyTo, ready := c.replyTo, c.ready
		c.mu.Unlock()
		if replyTo != "" {
			return replyTo, nil
		}
		if err := c.conn.Ready(); err != nil {
			return "", err
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return "", ErrUnavailable
		}
	}
}

func (c *Caller) setReplyTo(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.replyTo == "" && name != "" {
		close(c.ready)
	}
	if c.replyTo != "" && name == "" {
		c.ready = make(chan struct{})
	}
	c.replyTo = name
}

func (c *Caller) add(w *call) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	id := strconv.FormatUint(c.next, 36)
	c.waiting[id] = w
	return id
}

func (c *Caller) remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// deliver hands a reply to its call. Replies that nobody waits for are dropped:
// their callers have gone, or the request was answered twice. Holding mu while
// onReply runs is what keeps the promise that none comes after Call has returned.
func (c *Caller) deliver(m Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.waiting[m.ID]
	if !ok {
		return
	}
	if w.onReply(m.Body) {
		delete(c.waiting, m.ID)
		close(w.done)
	}
}
