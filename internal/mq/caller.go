package mq

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// ErrReplyLost is returned by Call when the reply queue was lost after the request was published and before the last
// reply: no further reply can arrive. In a cluster the request itself may have been lost instead. It wraps ErrUnconfirmed,
// because the outcome is unknown in the same way.
var ErrReplyLost = fmt.Errorf("reply queue lost: %w", ErrUnconfirmed)

// Caller sends requests and receives their replies over a Conn. It consumes its one reply queue before it sends the
// first request, so that even the fastest reply is received. It is safe for concurrent use.
type Caller struct {
	conn Conn

	mu      sync.Mutex // guards the fields below
	replyTo string
	ready   chan struct{} // closed while replyTo is set
	next    uint64
	waiting map[string]*call
}

type headersKey struct{}

// WithHeaders returns ctx with the headers of the request that Call sends under it.
func WithHeaders(ctx context.Context, headers map[string]string) context.Context {
	return context.WithValue(ctx, headersKey{}, headers)
}

// call is a request whose last reply has not arrived.
type call struct {
	id      string
	replyTo string

	mu       sync.Mutex // held while onReply runs; guards the fields below
	onReply  func(body []byte, repeated bool) bool
	replied  bool // a reply has arrived, so the broker has the request
	repeated bool
	err      error
	over     bool
	done     chan struct{} // closed when over is set
}

// again is the request's mq.Message.Again. Once a reply has arrived, it forbids repetitions. So after a repetition every
// reply is passed on with repeated set.
func (w *call) again() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.replied || w.over {
		return false
	}
	w.repeated = true
	return true
}

// arrived reports whether a reply proves that the broker has the request.
func (w *call) arrived() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replied
}

// finish ends the call unless it has already ended, and returns its error.
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

// Run consumes the reply queue until ctx ends or conn is closed, and returns the error. Calls in flight then return
// ErrReplyLost.
func (c *Caller) Run(ctx context.Context) error {
	defer c.setReplyTo("")
	return c.conn.Replies(ctx, c.setReplyTo, c.deliver)
}

// Call publishes body to q and passes each reply to onReply, until onReply returns true to mark the last reply. The
// request's TTL is ctx's deadline, its headers are those of WithHeaders. onReply runs in another goroutine, never
// concurrently with itself, and never after Call has returned. A slow onReply delays the replies of other calls. If
// repeated is true, the bus has published the request more than once, and a copy may be executed after this reply.
//
// After ErrUnavailable, ErrUnroutable, ErrRefused or ErrClosed, the request was certainly not sent. After any other
// error the request may have been executed, or may still be executed later: Call returns ErrUnconfirmed (possibly as
// ErrReplyLost) as soon as no further reply can arrive, and ctx's error if ctx ends before the last reply. Replies that
// onReply has already received stay valid.
func (c *Caller) Call(ctx context.Context, q Queue, body []byte, onReply func(body []byte, repeated bool) bool) error {
	w, err := c.enter(ctx, onReply)
	if err != nil {
		return err
	}
	defer c.leave(w)

	m := Message{Body: body, ID: w.id, ReplyTo: w.replyTo, Persistent: q == WriteQ, Again: w.again}
	if deadline, ok := ctx.Deadline(); ok {
		m.TTL = max(time.Until(deadline), time.Millisecond)
	}
	m.Headers, _ = ctx.Value(headersKey{}).(map[string]string)
	if err := c.conn.Publish(ctx, q, m); err != nil && !w.arrived() {
		return w.refused(err)
	}
	select {
	case <-w.done:
		return w.finish(nil)
	case <-ctx.Done():
		return w.finish(ctx.Err())
	}
}

// refused ends the call with an error of Publish, which takes precedence because it says whether anything was sent. If
// the last reply has already arrived, the call succeeds: a reply can be faster than the confirm.
func (w *call) refused(err error) error {
	if w.finish(err) == nil {
		return nil
	}
	return err
}

// enter registers a call on the current reply queue. Without a reply queue, because the bus is not connected, it
// waits for one, and returns ErrUnavailable when ctx ends.
func (c *Caller) enter(ctx context.Context, onReply func(body []byte, repeated bool) bool) (*call, error) {
	for {
		c.mu.Lock()
		if c.replyTo != "" {
			// Register under the same lock that read the name: otherwise the queue could be lost in between, and this
			// call would never be finished.
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

// setReplyTo stores the name of the reply queue, and ends the calls that expect their replies in another queue: those
// replies can no longer arrive. So the empty name ends all calls.
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

// deliver passes a reply to its call. A reply without a waiting call is dropped: the call has already returned, or the
// request was answered twice. deliver holds the call's lock while onReply runs, so that onReply never runs after Call
// has returned.
func (c *Caller) deliver(m Message) {
	c.mu.Lock()
	w := c.waiting[m.ID]
	c.mu.Unlock()
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replied = true
	if !w.over && w.onReply(m.Body, w.repeated) {
		w.over = true
		close(w.done)
	}
}
