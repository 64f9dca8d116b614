package zookeeper

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"rideshare/internal/wait"
)

// dialPause is the longest wait before a round of reconnections. The wait is random, so that the clients of a recovered server
// do not arrive together, and a server that drops every connection immediately is not flooded. It is short compared
// with a session.
const dialPause = 200 * time.Millisecond

// errStopped keeps the library from starting a new session by itself.
var errStopped = errors.New("the session is over")

// link connects the library to the servers: it is the library's host provider and dialer. The library's own provider
// and dialer resolve names only once, before the first connection, and wait for answers without limit.
type link struct {
	servers []string
	session time.Duration // the session timeout that is requested
	outage  *outage

	mu      sync.Mutex // guards the fields below
	tried   int        // dials since a server last accepted the session
	dials   int
	stopped bool
	conn    *boundedConn // newest
}

// Init implements zk.HostProvider. The servers are already known.
func (l *link) Init([]string) error { return nil }

// Len implements zk.HostProvider.
func (l *link) Len() int { return len(l.servers) }

// Next implements zk.HostProvider. It returns host and port as configured, so that each dial resolves the name again:
// a recreated container has a new address. When all servers have been tried, the library fails the pending calls and
// sleeps one second.
func (l *link) Next() (server string, retryStart bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	server = l.servers[l.dials%len(l.servers)]
	retryStart = l.stopped || l.tried >= len(l.servers)
	l.tried++
	l.dials++
	return server, retryStart
}

// Connected implements zk.HostProvider.
func (l *link) Connected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried = 0
}

// startsRound reports whether the server that Next returned last is the first of a round. The servers after it are tried
// immediately. The caller holds mu.
func (l *link) startsRound() bool { return l.tried%len(l.servers) == 1%len(l.servers) }

// dial connects, unless the session is over.
func (l *link) dial(ctx context.Context, network, server string, limit time.Duration) (net.Conn, error) {
	l.mu.Lock()
	before, stopped, first := l.conn, l.stopped, l.startsRound()
	l.mu.Unlock()
	dialing, cancel := context.WithTimeout(ctx, limit+dialPause)
	defer cancel()
	if before != nil {
		if !stopped && before.connecting() {
			l.outage.failed(before.RemoteAddr().String(), errNoSession)
		}
		if first {
			wait.For(dialing, rand.N(dialPause)) //nolint:gosec // to spread load, not a secret
		}
	}
	var dialer net.Dialer
	raw, err := dialer.DialContext(dialing, network, server)
	if err != nil {
		if ctx.Err() == nil {
			l.outage.failed(server, err)
		}
		return nil, fmt.Errorf("dial %s: %w", server, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		_ = raw.Close()
		return nil, errStopped
	}
	l.conn = &boundedConn{Conn: raw, session: l.session, alone: len(l.servers) == 1, patient: l.tried > hastyRounds*len(l.servers)}
	return l.conn, nil
}

// stop refuses further connections. The current one stays open.
func (l *link) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
}

// cut closes the current connection, so that no call waits for its answers.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// grant returns what the server granted on the newest connection.
func (l *link) grant() grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return grant{}
	}
	l.conn.mu.Lock()
	defer l.conn.mu.Unlock()
	return l.conn.granted
}

// grant is a server's answer to a connect request.
type grant struct {
	id      int64
	timeout time.Duration
	// asked is when the request was sent: the server heard from the session no earlier than that.
	asked time.Time
}

// answerBytes is the length of the part of the answer that holds the grant: length, protocol version and timeout in
// milliseconds with 4 bytes each, then the session's id with 8.
const answerBytes = 20

// answerLimit is how long one of several servers may take to answer a connect request. A paused server accepts
// connections and does not answer.
const answerLimit = time.Second

// hastyRounds is how often all servers are tried with answerLimit. An election is over by then.
const hastyRounds = 3

// boundedConn is a connection on which every wait is bounded. It also parses what the server grants, because the
// library does not expose the negotiated timeout.
type boundedConn struct {
	net.Conn
	session time.Duration // the session timeout that is requested
	alone   bool          // there is no other server
	patient bool          // all servers were tried hastyRounds times in vain: the server gets more time

	mu      sync.Mutex // guards the fields below
	asked   time.Time
	answer  []byte
	granted grant
}

// silence returns how long the server may send nothing. A client that has another server waits a third of its session:
// the answers to two beats are missing then, and there is time to reach the other servers before the session ends.
// A client that has only this server gains nothing by leaving it, and waits a whole session.
//
// A connect request gets less: the next request must come before the session ends. The limit grows after hastyRounds.
// Otherwise servers that are slow, but not paused, would never grant a session.
func (c *boundedConn) silence() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	connecting := len(c.answer) < answerBytes
	session := cmp.Or(c.granted.timeout, c.session)
	switch {
	case connecting && !c.alone && !c.patient:
		return min(answerLimit, session/2)
	case connecting:
		return session / 2
	case c.alone:
		return session
	default:
		return session / 3
	}
}

// SetReadDeadline implements net.Conn. The library waits many session timeouts for the answer to a connect request,
// and without limit for the body of a packet.
func (c *boundedConn) SetReadDeadline(t time.Time) error {
	if limit := time.Now().Add(c.silence()); t.IsZero() || t.After(limit) {
		t = limit
	}
	return c.Conn.SetReadDeadline(t) //nolint:wrapcheck // a net.Conn as any other
}

// connecting reports whether the answer to the connect request is still missing.
func (c *boundedConn) connecting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.answer) < answerBytes
}

// SetWriteDeadline implements net.Conn.
func (c *boundedConn) SetWriteDeadline(t time.Time) error {
	if limit := time.Now().Add(c.silence()); t.After(limit) {
		t = limit
	}
	return c.Conn.SetWriteDeadline(t) //nolint:wrapcheck // a net.Conn as any other
}

// Write implements net.Conn.
func (c *boundedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.asked.IsZero() {
		c.asked = time.Now()
	}
	c.mu.Unlock()
	return c.Conn.Write(b) //nolint:wrapcheck // a net.Conn as any other
}

// Read implements net.Conn.
func (c *boundedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if missing := answerBytes - len(c.answer); missing > 0 {
		c.answer = append(c.answer, b[:min(n, missing)]...)
		if len(c.answer) == answerBytes {
			c.granted = grant{
				id:      int64(binary.BigEndian.Uint64(c.answer[12:])),
				timeout: time.Duration(binary.BigEndian.Uint32(c.answer[8:])) * time.Millisecond,
				asked:   c.asked,
			}
		}
	}
	return n, err //nolint:wrapcheck // a net.Conn as any other
}
