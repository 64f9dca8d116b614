package amqp

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
)

// publication is one message being published.
type publication struct {
	ctx      context.Context
	exchange string
	key      string
	message  amqp091.Publishing
	// mandatory messages are returned by the broker if no queue takes them.
	mandatory bool
	// elsewhere: its queues may be at other nodes of a cluster, so a missing confirm says nothing about this connection.
	elsewhere bool

	// written, unless nil, is called once the message has been written to the connection, in its order.
	written func()

	sent     chan struct{} // closed when confirm or err is set
	confirm  *amqp091.DeferredConfirmation
	err      error // why it was not sent, or may not have been
	returned bool  // guarded by publisher.mu
}

// publisher is one life of the publishing connection. Only its writer goroutine uses the channel: this fixes the
// order of publishes, confirms and the close, and a publish that blocks in the socket does not hold its caller beyond
// the caller's deadline.
type publisher struct {
	*session
	config  Config
	ch      *amqp091.Channel
	todo    chan *publication
	swept   chan chan struct{} // see sweep
	unswept chan struct{}      // closed when returns are no longer taken

	confirms atomic.Uint64 // received so far; a change shows that the broker is alive
	opened   time.Time

	mu      sync.Mutex // guards the fields below
	pending map[string]*publication
	stuck   map[string]bool // destinations elsewhere that owe a confirm for longer than the time-out
}

// newPublisher makes a publisher on a new session, ready to publish. It takes ownership of the session, even if it
// returns an error.
func newPublisher(s *session, c Config) (*publisher, error) {
	p := &publisher{
		session: s, config: c,
		todo: make(chan *publication), swept: make(chan chan struct{}), unswept: make(chan struct{}),
		pending: map[string]*publication{}, stuck: map[string]bool{}, opened: time.Now(),
	}
	if err := p.open(); err != nil {
		s.close()
		return nil, err
	}
	return p, nil
}

func (p *publisher) open() error {
	if err := p.declare(newNames(p.config.Prefix), p.config); err != nil {
		return err
	}
	ch, err := p.channel()
	if err != nil {
		return err
	}
	p.ch = ch
	stop := p.within(callTimeout, "switch confirms on")
	err = ch.Confirm(false)
	stop()
	if err != nil {
		return fmt.Errorf("switch confirms on: %w", err)
	}
	closed := ch.NotifyClose(make(chan *amqp091.Error, 1))
	go func() { // ends with the channel
		for err := range closed {
			p.kill(err) // a connection that cannot publish is useless
		}
		p.kill(errOver)
	}()
	go p.takeReturns(ch.NotifyReturn(make(chan amqp091.Return, returnsBuffer)))
	if err := p.probe(); err != nil {
		return err
	}
	go p.write()
	return nil
}

// probe publishes two unroutable messages and waits for their confirms. The broker announces an alarm only to a
// connection that publishes. Without probe, the first call after each reconnect would hang under an alarm, and Ready
// would be wrong. Under an alarm the broker still reads the first message, and may confirm it before it announces the
// alarm; it never reads a second one.
func (p *publisher) probe() error {
	defer p.within(callTimeout, "first confirms")()
	for range 2 {
		confirm, err := p.ch.PublishWithDeferredConfirm("", p.config.Prefix+"no-queue", false, false, amqp091.Publishing{})
		if err != nil {
			return fmt.Errorf("publish a probe: %w", err)
		}
		select {
		case <-confirm.Done():
			if !confirm.Acked() {
				return fmt.Errorf("first confirms: %w", p.overReason())
			}
		case <-p.firstBlocked: // the connection is up, and Ready returns that it is blocked
			return nil
		}
	}
	return nil
}

func (p *publisher) overReason() error {
	if err := p.reason(); err != nil {
		return err
	}
	return errOver
}

// write sends publications, one after the other, until the session is over.
func (p *publisher) write() {
	for {
		select {
		case m := <-p.todo:
			p.send(m)
			close(m.sent)
		case <-p.done:
			return
		}
	}
}

func (p *publisher) send(m *publication) {
	if err := p.refuses(m.ctx); err != nil {
		m.err = err
		return
	}
	m.confirm, m.err = p.ch.PublishWithDeferredConfirm(m.exchange, m.key, m.mandatory, false, m.message)
	if m.err != nil {
		p.kill(m.err) // the library may go on with a connection on which a message was cut off
		m.err = fmt.Errorf("write: %w: %w", mq.ErrUnconfirmed, opaque{m.err})
	}
}

// refuses returns the reason why nothing can be sent now, or nil.
func (p *publisher) refuses(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return notSent(ctx)
	case p.blocked.Load():
		return fmt.Errorf("blocked by the broker: %w", mq.ErrUnavailable)
	case p.ch.IsClosed():
		return fmt.Errorf("connection lost: %w", mq.ErrUnavailable)
	default:
		return nil
	}
}

func notSent(ctx context.Context) error {
	return fmt.Errorf("not sent: %w: %w", mq.ErrUnavailable, ctx.Err())
}

// publish sends m and waits for its outcome. Many publishes may wait concurrently.
func (p *publisher) publish(ctx context.Context, m *publication) error {
	if err := p.refuses(ctx); err != nil {
		return err
	}
	m.ctx, m.sent = ctx, make(chan struct{})
	defer p.forget(m)
	p.remember(m)
	select {
	case p.todo <- m:
	case <-ctx.Done():
		return notSent(ctx)
	case <-p.done:
		return fmt.Errorf("connection lost: %w", mq.ErrUnavailable)
	}
	select {
	case <-m.sent:
	case <-ctx.Done(): // the writer already has m
		return fmt.Errorf("%w: %w", mq.ErrUnconfirmed, ctx.Err())
	}
	if m.err != nil {
		return m.err
	}
	if m.written != nil {
		m.written()
	}
	if err := p.confirmed(ctx, m); err != nil {
		return err
	}
	return p.outcome(m)
}

// owes reports whether publish need not wait for the confirm of m, because an earlier confirm of its destination is overdue.
func (p *publisher) owes(m *publication) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return m.elsewhere && p.stuck[m.exchange+m.key]
}

// late stores that the destination of m owes a confirm, until that arrives. Otherwise each of the many replies to a node
// that is silent would hold up its sender for the whole time-out.
func (p *publisher) late(m *publication) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := m.exchange + m.key
	if p.stuck[to] {
		return
	}
	p.stuck[to] = true
	go func() { // ends with the session at the latest
		select {
		case <-m.confirm.Done():
		case <-p.done:
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.stuck, to)
	}()
}

// maybeSilent reports whether this connection's node may be silent: nothing has arrived for longer than the interval of the pulse
// or, for large messages, the heartbeats. The session ends soon, unless the node is heard again. A node that blocks
// publishers may not answer.
func (p *publisher) maybeSilent() bool {
	silent := time.Since(time.Unix(0, p.heard.Load()))
	return silent > p.config.ConfirmTimeout*3/4 && !p.blocked.Load()
}

// confirmed waits for the confirm of m, positive or negative.
func (p *publisher) confirmed(ctx context.Context, m *publication) error {
	if p.owes(m) && !p.maybeSilent() {
		return fmt.Errorf("%w: its queue has not confirmed an earlier one", mq.ErrUnconfirmed)
	}
	begun, limit := time.Now(), time.Duration(p.config.confirmTimeouts())*p.config.ConfirmTimeout
	timer := time.NewTimer(p.config.ConfirmTimeout)
	defer timer.Stop()
	for {
		before := p.confirms.Load()
		select {
		case <-m.confirm.Done():
			p.confirms.Add(1)
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", mq.ErrUnconfirmed, ctx.Err())
		case <-timer.C:
		}
		took := time.Since(begun)
		if m.elsewhere && p.maybeSilent() && took < limit {
			timer.Reset(pulsePeriod) // if the session ends, m can be repeated
			continue
		}
		// A blocked broker confirms when its alarm ends. A broker that has confirmed other messages in this time is
		// alive: one slow queue must not cost the other queues the connection.
		alive := p.confirms.Load() != before
		switch {
		case m.elsewhere:
			p.late(m)
		case !p.blocked.Load() && !alive:
			p.kill(fmt.Errorf("no confirm in %v", p.config.ConfirmTimeout))
		}
		// The time-out of a cluster is short. While others are confirmed, the broker is only slow.
		if !alive || m.elsewhere || took >= limit {
			return fmt.Errorf("%w in %v", mq.ErrUnconfirmed, took.Round(time.Millisecond))
		}
		timer.Reset(p.config.ConfirmTimeout)
	}
}

// outcome returns what a confirm means.
func (p *publisher) outcome(m *publication) error {
	if !m.confirm.Acked() {
		// When the channel ends, the library reports every open publish as refused; its outcome is unknown.
		if p.ch.IsClosed() {
			return fmt.Errorf("connection lost: %w", mq.ErrUnconfirmed)
		}
		return mq.ErrRefused
	}
	if !m.mandatory {
		return nil
	}
	// An unroutable message is confirmed too, right after it was returned.
	p.sweep()
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.returned {
		return mq.ErrUnroutable
	}
	return nil
}
