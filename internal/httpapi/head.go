package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// headMemory limits the memory, in bytes, for the long heads (request line and headers) of all requests of a
	// server. A head is read before its route is known.
	headMemory = 64 << 20
	// shortHead is the size in bytes up to which a head does not count towards headMemory.
	shortHead = 64 << 10
	// headCopies is how many copies of a head are in memory: as received, parsed, and for decoding the path.
	headCopies = 3
	// headStep is how much room is taken in one step, in bytes.
	headStep = 1 << 20
)

// noRoomForHead is sent if there is no room for a head. It is raw, because there is no request yet to answer.
const noRoomForHead = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: " + retryAfter + "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

var errNoRoomForHead = errors.New("too many long request heads at the moment")

// headListener limits the heads of requests on its connections.
type headListener struct {
	net.Listener
	room pool
	// plain reports whether the connections carry plain HTTP. With TLS, each head counts a few bytes more.
	plain bool
}

func newHeadListener(l net.Listener, plain bool) *headListener {
	return &headListener{Listener: l, plain: plain, room: pool{size: headMemory, free: headMemory}}
}

// Accept implements net.Listener.
func (l *headListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &headConn{Conn: conn, room: &l.room, plain: l.plain}, nil
}

// headConn counts the bytes that arrive while no request is being served: they belong to a head.
type headConn struct {
	net.Conn
	room  *pool
	plain bool // as in headListener

	mu      sync.Mutex // guards the fields below
	serving bool
	read    int64 // bytes received of the current head
	held    int64
}

// Read implements net.Conn. If there is no room for a head, Read answers 503, or nothing in TLS, and closes the
// connection.
func (c *headConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.count(int64(n)) {
		if c.plain && c.SetWriteDeadline(time.Now().Add(time.Second)) == nil { // for a client that does not read
			_, _ = io.WriteString(c.Conn, noRoomForHead)
		}
		return 0, errNoRoomForHead
	}
	return n, err
}

// count reports whether there is room for n more bytes.
func (c *headConn) count(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serving {
		return true
	}
	if c.read += n; c.read <= shortHead {
		return true
	}
	for c.held < headCopies*c.read {
		if !c.room.tryTake(headStep) {
			return false
		}
		c.held += headStep
	}
	return true
}

// serve sets whether a request is being served. At its end the room of its head is returned.
func (c *headConn) serve(serving bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serving = serving; !serving {
		c.release()
	}
}

// release returns what is held. The caller holds mu.
func (c *headConn) release() {
	c.room.give(c.held)
	c.read, c.held = 0, 0
}

// Close implements net.Conn.
func (c *headConn) Close() error {
	c.mu.Lock()
	c.release()
	c.mu.Unlock()
	return c.Conn.Close()
}

type headConnKey struct{}

// withoutTLS returns the connection that carries conn's bytes.
func withoutTLS(conn net.Conn) net.Conn {
	if secure, ok := conn.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return conn
}

// withHeadConn stores the connection in ctx, for boundHead.
func withHeadConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, headConnKey{}, withoutTLS(conn))
}

// boundHead informs the connection when serving of a request starts. The end is headState's.
func boundHead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(headConnKey{}).(*headConn); ok {
			conn.serve(true)
		}
		next.ServeHTTP(w, r)
	})
}

// headState informs the connection when serving of a request has ended. That is later than the end of the handler:
// net/http first reads what the handler left of the body, which is no head.
func headState(conn net.Conn, state http.ConnState) {
	if head, ok := withoutTLS(conn).(*headConn); ok && state == http.StateIdle {
		head.serve(false)
	}
}
