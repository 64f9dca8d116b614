package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"rideshare/internal/pause"
)

// dialPause is the longest wait before a connection that is not the first one: chance
// spreads the clients of a server that came back, and a server that drops every
// connection at once is not asked without end. It is short beside a session.
const dialPause = 200 * time.Millisecond

// errStopped keeps the library from making a new session of its own.
var errStopped = errors.New("the session is over")

// link is how the library reaches the servers: it is the library's host provider and
// dialer. The library's own ones resolve names once, before the first connection,
// and wait for answers without a bound.
type link struct {
	servers []string
	silence time.Duration // longest wait for bytes

	mu      sync.Mutex // guards the fields below
	tried   int        // dials since a server took the session
	dials   int
	stopped bool
	conn    *boundedConn // newest
}

// Init implements zk.HostProvider. The servers are known already.
func (l *link) Init([]string) error { return nil }

// Len implements zk.HostProvider.
func (l *link) Len() int { return len(l.servers) }

// Next implements zk.HostProvider: host and port as configured, so that each dial resolves the
// name anew, since a container that was created again has another address. The
// library fails what waits and sleeps a second if all servers were tried.
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

// dial connects, unless the session is over.
func (l *link) dial(ctx context.Context, network, server string, limit time.Duration) (net.Conn, error) {
	l.mu.Lock()
	first := l.conn == nil
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, limit+dialPause)
	defer cancel()
	if !first {
		pause.For(ctx, rand.N(dialPause)) //nolint:gosec // to spread load, not a secret
	}
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, network, server)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", server, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		_ = raw.Close()
		return nil, errStopped
	}
	l.conn = &boundedConn{Conn: raw, silence: l.silence}
	return l.conn, nil
}

// stop refuses further connections. The present one stays.
func (l *link) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
}

// cut ends the present connection, so that nobody waits for its answers.
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
	// asked is when the request was sent: the server hears of the session no earlier.
	asked time.Time
}

// answerBytes is the length of the part of the answer that says it: length, protocol
// version and time-out in milliseconds of 4 bytes each, then the session's id of 8.
const answerBytes = 20

// boundedConn is a connection on which no wait is endless, and which reads along
// what the server grants, as the library does not tell the negotiated time-out.
type boundedConn struct {
	net.Conn
	silence time.Duration

	mu      sync.Mutex // guards the fields below
	asked   time.Time
	answer  []byte
	granted grant
}

// SetReadDeadline implements net.Conn. The library waits for the answer to a connect request
// for many session time-outs, and for the body of a packet without a bound. A connect request that a server does not
// answer, since it has just begun to listen, gets half of the time: the next one must come before the session's end.
func (c *boundedConn) SetReadDeadline(t time.Time) error {
	silence := c.silence
	if c.connecting() {
		silence /= 2
	}
	if limit := time.Now().Add(silence); t.IsZero() || t.After(limit) {
		t = limit
	}
	return c.Conn.SetReadDeadline(t) //nolint:wrapcheck // a net.Conn as any other
}

// connecting reports whether the server has not answered the connect request yet.
func (c *boundedConn) connecting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.answer) < answerBytes
}

// SetWriteDeadline implements net.Conn.
func (c *boundedConn) SetWriteDeadline(t time.Time) error {
	if limit := time.Now().Add(c.silence); t.After(limit) {
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
				id:      int64(binary.BigEndian.Uint64(c.answer[12:])), //nolint:gosec // the bits of a signed number
				timeout: time.Duration(binary.BigEndian.Uint32(c.answer[8:])) * time.Millisecond,
				asked:   c.asked,
			}
		}
	}
	return n, err //nolint:wrapcheck // a net.Conn as any other
}
