package mq

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// ErrReplyLost is returned by Call when the request was published and the reply
// queue was lost before the last reply: no reply can come any more. It wraps
// ErrUnconfirmed, since it means the same: nobody knows.
var ErrReplyLost = fmt.Errorf("reply queue lost: %w", ErrUnconfirmed)

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

// call is a request whose last reply has not come.
type call struct {
	id      string
	replyTo string

	mu      sync.Mutex // held while onReply runs; guards the fields below
	onReply func(body []byte) bool
	err     error
	over    bool
	done    chan struct{} // closed when over is set
}

// finish ends the call, unless it is over already, and returns how it ended.
func (w *call) finish(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.over, w.err = true, err
		close(w.done)
	}
	return w.err
}

// NewCaller returns a Caller on conn. Run must be running for Call to work.
func NewCaller(conn Conn) *Caller {
	return &Caller{conn: conn, ready: make(chan struct{}), waiting: map[string]*call{}}
}

// Run consumes the reply queue until ctx ends, or conn is closed, and returns
// the error. Calls that wait then get ErrReplyLost.
func (c *Caller) Run(ctx context.Context) error {
	defer c.setReplyTo("")
	return c.conn.Replies(ctx, c.setReplyTo, c.deliver)
}

// Call publishes body to q and hands each reply to onReply, from another
// goroutine but never two at once and none after Call has returned, until
// onReply returns true: it was the last. A slow onReply holds up the replies of other calls.
//
// With ErrUnavailable, ErrUnroutable, ErrRefused and ErrClosed surely nothing was sent. With
// any other error the request may have been dealt with, or may still be:
// ErrUnconfirmed, also as ErrReplyLost, comes as soon as it is
// known that no answer can be waited for, ctx's error when the last reply did
// not come in time. Replies that came before stay handed over. The request's TTL is ctx's deadline.
func (c *Caller) Call(ctx context.Context, q Queue, body []byte, onReply func(body []byte) bool) error {
	w, err := c.enter(ctx, onReply)
	if err != nil {
		return err
	}
	defer c.leave(w)

	m := Message{Body: body, ID: w.id, ReplyTo: w.replyTo, Persistent: q == WriteQ}
	if deadline, ok := ctx.Deadline(); ok {
		m.TTL = max(time.Until(deadline), time.Millisecond)
	}
	if err := c.conn.Publish(ctx, q, m); err != nil {
		return w.refused(err)
	}
	select {
	case <-w.done:
		return w.finish(nil)
	case <-ctx.Done():
		return w.finish(ctx.Err())
	}
}

// refused ends the call with an error of Publish, which knows best whether
// anything was sent, unless the last reply is here: it can be faster than the confirm.
func (w *call) refused(err error) error {
	if w.finish(err) == nil {
		return nil
	}
	return err
}

// enter registers a call on the present reply queue. With none, because the bus
// is not connected yet or any more, it waits for one, and returns ErrUnavailable when ctx ends.
func (c *Caller) enter(ctx context.Context, onReply func(body []byte) bool) (*call, error) {
	for {
		c.mu.Lock()
		if c.replyTo != "" {
			// In one step with looking at the name: a queue lost in
			// between would never tell this call.
			c.next++
			w := &call{
				id: strconv.FormatUint(c.next, 36), replyTo: c.replyTo,
				onReply: onReply, done: make(chan struct{}),
			}
			c.waiting[w.id] = w
			c.mu.Unlock()
			return w, nil
		}
		ready := c.ready
		c.mu.Unlock()
		if err := c.conn.Ready(); err != nil {
			return nil, err
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return nil, fmt.Errorf("no reply queue yet: %w: %w", ErrUnavailable, ctx.Err())
		}
	}
}

func (c *Caller) leave(w *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, w.id)
}

// setReplyTo notes the name of the reply queue, and ends the calls whose
// replies went to another one: waiting for their deadline would be in vain.
func (c *Caller) setReplyTo(name string) {
	c.mu.Lock()
	if c.replyTo == "" && name != "" {
		close(c.ready)
	}
	if c.replyTo != "" && name == "" {
		c.ready = make(chan struct{})
	}
	c.replyTo = name
	var lost []*call
	for _, w := range c.waiting {
		if w.replyTo != name {
			lost = append(lost, w)
		}
	}
	c.mu.Unlock()
	for _, w := range lost {
		_ = w.finish(ErrReplyLost) // Call returns it
	}
}

// deliver hands a reply to its call. Replies that nobody waits for are dropped:
// their callers have gone, or the request was answered twice. Holding the
// call's lock while onReply runs is what keeps the promise that none comes after Call has returned.
func (c *Caller) deliver(m Message) {
	c.mu.Lock()
	w := c.waiting[m.ID]
	c.mu.Unlock()
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over && w.onReply(m.Body) {
		w.over = true
		close(w.done)
	}
}
