package zookeeper

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"rideshare/internal/coord"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
)

// maxPacket bounds a single packet from a server: ZooKeeper's own limit, jute.maxbuffer.
const maxPacket = 1 << 20

// goodbyeWait bounds how long Close waits for a connection on which to end the session. It is longer than the second
// that the library sleeps between two tries.
const goodbyeWait = 1500 * time.Millisecond

// settleTime is how long a session with watches sends no request on a new connection. First the library re-registers
// its watches with the server. For that it reads, without a lock, a number that every answer to a request writes. The
// library's goroutines need only microseconds.
const settleTime = 50 * time.Millisecond

// Session implements coord.Session.
type Session struct {
	root   string
	log    *slog.Logger
	link   *link
	conn   *zk.Conn
	cancel context.CancelFunc // ends a dial

	watch     wait.Token
	suspended chan struct{}
	ended     chan struct{} // closed when the session is lost
	down      chan struct{} // closed when none of its goroutines run any more
	work      wait.Token    // wakes the keeper

	mu        sync.Mutex // guards the fields below
	id        int64      // zero before the session exists, never changed after
	timeout   time.Duration
	connected bool
	since     time.Time   // start of the current loss of the connection
	changed   wait.Signal // of connected
	settling  *time.Timer // runs while a new connection gets no requests, see settleTime
	lost      bool
	goodbye   bool // ask the server to end the session
	clock     clock
	watches   watches
}

var _ coord.Session = (*Session)(nil)

// start starts to connect.
func start(root string, l *link, timeout time.Duration, log *slog.Logger) (*Session, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Session{
		root: root, log: log, link: l, cancel: cancel, timeout: timeout,
		watch: wait.NewToken(), suspended: make(chan struct{}), ended: make(chan struct{}),
		down: make(chan struct{}), work: wait.NewToken(),
	}
	s.clock.init(s.tick)
	s.settling = time.AfterFunc(time.Hour, s.settled)
	s.settling.Stop()
	conn, events, err := zk.Connect(l.servers, timeout,
		zk.WithHostProvider(l),
		zk.WithDialer(func(network, server string, limit time.Duration) (net.Conn, error) {
			return l.dial(ctx, network, server, limit)
		}),
		// The channel of events drops events that do not fit; the callback receives all.
		zk.WithEventCallback(s.event),
		zk.WithMaxBufferSize(maxPacket),
		zk.WithLogInfo(false),
		zk.WithLogger(libraryLog{log}),
	)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("connect: %w", err)
	}
	s.conn = conn
	go s.keep(events) // ends with the session
	return s, nil
}

// Timeout implements coord.Session: the timeout that the server granted.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// Suspended implements coord.Session.
func (s *Session) Suspended() <-chan struct{} { return s.suspended }

// Close implements coord.Session. It waits up to goodbyeWait for a connection and one second for the answer; without
// them the session ends by its timeout.
func (s *Session) Close() error {
	s.mu.Lock()
	s.end(true)
	s.mu.Unlock()
	<-s.down
	return nil
}

// event is called by the library's goroutines and must not block or call the library.
func (s *Session) event(e zk.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Type != zk.EventSession {
		s.watches.fired(e)
		s.work.Give()
		return
	}
	switch e.State { //nolint:exhaustive // the others are steps on the way
	case zk.StateHasSession:
		s.hasSession()
	case zk.StateDisconnected:
		s.settling.Stop()
		s.setConnected(false)
	case zk.StateExpired:
		if !s.lost {
			s.log.Warn("coordination session lost", logkey.Session, s.id)
		}
		s.end(false)
	}
}

// hasSession stores what the server granted. After a loss the library would continue with a session of another id; the
// link prevents that, and this check makes it certain.
func (s *Session) hasSession() {
	granted := s.link.grant()
	s.link.outage.over()
	switch {
	case s.lost:
	case s.id == 0:
		s.id, s.timeout = granted.id, granted.timeout
		s.clock.length = granted.timeout
		s.clock.prove(granted.asked)
	case s.id == granted.id:
		s.log.Info("coordinator connection regained", logkey.Session, s.id, logkey.Took, time.Since(s.since))
		s.clock.prove(granted.asked)
	default:
		s.end(false)
	}
	if s.watches.wanted {
		s.watches.forget()
		s.settling.Reset(settleTime)
		return
	}
	s.setConnected(true)
}

// settled is called settleTime after a connection was made.
func (s *Session) settled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn.State() != zk.StateHasSession {
		return
	}
	s.setConnected(true)
	s.work.Give()
}

func (s *Session) setConnected(is bool) {
	if s.connected == is {
		return
	}
	if s.connected = is; !is {
		s.since = time.Now()
		if !s.lost {
			s.log.Warn("coordinator connection lost", logkey.Session, s.id)
		}
	}
	s.changed.Notify()
}

// end marks the session as lost for good. The keeper then releases everything.
func (s *Session) end(goodbye bool) {
	if s.lost {
		return
	}
	s.lost, s.goodbye = true, goodbye
	s.clock.stop()
	s.suspend()
	if !goodbye {
		s.link.stop()
	}
	s.watch.Give()
	close(s.ended)
}

// tick is called when the session's own clock has run out.
func (s *Session) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lost && s.clock.over() {
		s.suspend()
	}
}

func (s *Session) suspend() {
	select {
	case <-s.suspended:
	default:
		close(s.suspended)
	}
}

// usable returns the reason why the session cannot be used now, or nil. No request is sent without a connection: the
// library would keep the request, and send it after its caller has given up.
func (s *Session) usable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.lost:
		return coord.ErrSessionLost
	case !s.connected:
		return fmt.Errorf("no connection: %w", coord.ErrUnavailable)
	default:
		return nil
	}
}

// owns reports whether a node belongs to this session. A session without an id owns nothing, because nodes without an
// owner have the id zero.
func (s *Session) owns(stat *zk.Stat) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id != 0 && stat.EphemeralOwner == s.id
}

// libraryLog writes the library's messages at debug level.
type libraryLog struct{ log *slog.Logger }

// Printf implements zk.Logger.
func (l libraryLog) Printf(format string, args ...any) {
	l.log.Debug("zookeeper library", logkey.Reason, fmt.Sprintf(format, args...))
}
