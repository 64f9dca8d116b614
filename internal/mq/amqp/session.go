package amqp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// errOver is the reason for the end of a session if the library gives none.
var errOver = errors.New("connection ended")

// session is one life of one connection. After a loss there is a new session with new channels. This, rather than the
// library's recovery, ensures that an acknowledgement from before the loss cannot settle another message after it.
type session struct {
	conn *amqp091.Connection
	raw  net.Conn
	done chan struct{} // closed when the connection has ended

	blocked      atomic.Bool   // the broker accepts no publishes (alarm)
	firstBlocked chan struct{} // closed when blocked is first set

	// mayNotDeclare avoids a second refusal on the same connection, and its line in the broker's log.
	mayNotDeclare atomic.Bool

	mu  sync.Mutex // guards err
	err error      // why it ended
}

// deadlineConn bounds each write. The library has no bound, so a broker that does not read would block a publisher
// for ever.
type deadlineConn struct{ net.Conn }

func (c deadlineConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// dialSession connects, within handshakeTimeout. name is how the broker lists the connection.
func dialSession(ctx context.Context, c Config, name string) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	s := &session{done: make(chan struct{}), firstBlocked: make(chan struct{})}
	properties := amqp091.NewConnectionProperties()
	properties.SetClientConnectionName(name)
	stop := func() bool { return true }
	conn, err := amqp091.DialConfig(c.URL, amqp091.Config{
		Heartbeat:  c.Heartbeat,
		Properties: properties,
		Locale:     "en_US",
		Dial: func(network, addr string) (net.Conn, error) {
			raw, err := c.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			s.raw = raw
			// The library's handshake takes no context: closing the socket ends it.
			stop = context.AfterFunc(ctx, func() { _ = raw.Close() })
			return deadlineConn{raw}, nil
		},
	})
	if err != nil || !stop() {
		stop()
		if s.raw != nil {
			_ = s.raw.Close()
		}
		return nil, &connectError{errors.Join(err, context.Cause(ctx))}
	}
	s.conn = conn
	s.watch()
	return s, nil
}

// watch listens for the broker's notifications about the connection. Both goroutines end with the connection, which
// closes their channels.
func (s *session) watch() {
	closed := s.conn.NotifyClose(make(chan *amqp091.Error, 1))
	blocked := s.conn.NotifyBlocked(make(chan amqp091.Blocking, 4))
	go func() {
		for err := range closed {
			// Kill first: the library cannot finish its own close while a write is stuck.
			s.kill(err)
		}
		s.kill(errOver)
		close(s.done)
	}()
	go func() {
		var once sync.Once
		for b := range blocked {
			s.blocked.Store(b.Active)
			if b.Active {
				once.Do(func() { close(s.firstBlocked) })
			}
		}
	}()
}

// fail stores why the session ended. Only the first reason counts.
func (s *session) fail(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = reason
	}
}

func (s *session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// kill ends the session immediately, whatever the broker does: every call that waits for the session returns.
func (s *session) kill(reason error) {
	s.fail(reason)
	_ = s.raw.Close()
}

// within kills the session unless inTime is called before limit. It bounds the library's calls, which have neither
// context nor timeout.
func (s *session) within(limit time.Duration, what string) (inTime func()) {
	timer := time.AfterFunc(limit, func() { s.kill(fmt.Errorf("%s: no answer in %v", what, limit)) })
	return func() { timer.Stop() }
}

// channel opens a channel.
func (s *session) channel() (*amqp091.Channel, error) {
	defer s.within(callTimeout, "open a channel")()
	ch, err := s.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	return ch, nil
}

// closeChannel closes a channel, and with it its consumer. The broker requeues its unsettled deliveries.
func (s *session) closeChannel(ch *amqp091.Channel) {
	defer s.within(callTimeout, "close a channel")()
	_ = ch.Close() // an error means that it is closed already
}

// declare creates the missing queues. For a broker user without the right to create queues it is enough that they
// exist: an administrator can create them, and so give each part no more rights than it uses.
func (s *session) declare(n names, c Config) error {
	if !s.mayNotDeclare.Load() {
		err := s.aside("declare queues", func(ch *amqp091.Channel) error { return n.declare(ch, c) })
		if refusal, ok := errors.AsType[*amqp091.Error](err); !ok || refusal.Code != amqp091.AccessRefused {
			return err
		}
		s.mayNotDeclare.Store(true)
	}
	return s.aside("find queues", func(ch *amqp091.Channel) error { return n.find(ch, c) })
}

// aside calls do with a temporary channel, and bounds the call.
func (s *session) aside(what string, do func(*amqp091.Channel) error) error {
	ch, err := s.channel()
	if err != nil {
		return err
	}
	defer s.closeChannel(ch)
	defer s.within(callTimeout, what)()
	return do(ch)
}

// close ends the session cleanly if the broker answers in time, and returns when the session is over. A broker that
// blocks publishers would not read the close request, so none is sent.
func (s *session) close() {
	if !s.blocked.Load() {
		stop := s.within(closeTimeout, "close")
		_ = s.conn.CloseDeadline(time.Now().Add(closeTimeout)) // the socket is closed in any case
		stop()
	}
	s.kill(errOver)
	<-s.done
}
