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
	at   node
	done chan struct{} // closed when the connection has ended

	leaving chan struct{} // closed by leave

	heard atomic.Int64 // when the last bytes came, in Unix nanoseconds; kept in a cluster

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

// heardConn stores when bytes came.
type heardConn struct {
	net.Conn
	heard *atomic.Int64
}

func (c heardConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.heard.Store(time.Now().UnixNano())
	return n, err
}

// connect opens the TCP connection to a node. The returned context ends when the handshakes have taken too long; stop
// releases it.
func (c Config) connect(ctx context.Context, network, addr string) (raw net.Conn, limit context.Context, stop context.CancelFunc, err error) {
	if !c.cluster() {
		raw, err = c.DialContext(ctx, network, addr)
		return raw, ctx, func() {}, err
	}
	dialing, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if raw, err = c.DialContext(dialing, network, addr); err != nil {
		return nil, nil, nil, err
	}
	limit, stop = context.WithTimeout(ctx, memberTimeout)
	return raw, limit, stop, nil
}

// dialSession connects to a node, within handshakeTimeout. name is how the broker lists the connection.
func dialSession(ctx context.Context, c Config, at node, name string) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	s := &session{at: at, done: make(chan struct{}), leaving: make(chan struct{}), firstBlocked: make(chan struct{})}
	properties := amqp091.NewConnectionProperties()
	properties.SetClientConnectionName(name)
	stop, release := func() bool { return true }, func() {}
	defer func() { release() }()
	conn, err := amqp091.DialConfig(at.url, amqp091.Config{
		Heartbeat:  c.Heartbeat,
		Properties: properties,
		Locale:     "en_US",
		Dial: func(network, addr string) (net.Conn, error) {
			raw, limit, cancel, err := c.connect(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			s.raw, release = raw, cancel
			// The library's handshake takes no context: closing the socket ends it.
			stop = context.AfterFunc(limit, func() { _ = raw.Close() })
			if c.cluster() {
				return deadlineConn{heardConn{raw, &s.heard}}, nil
			}
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

// callLimit bounds a call that involves a queue. While a node of a cluster is silent and the others have not noticed that
// yet, such a call has no answer, although this session's node is well. That ends after net_ticktime.
func (s *session) callLimit() time.Duration {
	if s.at.suffix != "" {
		return memberCallTimeout
	}
	return callTimeout
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
	defer s.within(s.callLimit(), "close a channel")()
	_ = ch.Close() // an error means that it is closed already
}

// declare creates the missing queues. For a broker user without the right to create queues it is enough that they
// exist: an administrator can create them, and so give each part no more rights than it uses. In a cluster no part
// creates them: see Declare.
func (s *session) declare(n names, c Config) error {
	if c.cluster() {
		return nil
	}
	if !s.mayNotDeclare.Load() {
		err := s.aside("declare queues", func(ch *amqp091.Channel) error { return n.declare(ch, n.queues(c)) })
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
