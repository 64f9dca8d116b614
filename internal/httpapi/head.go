package httpapi

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// headMemory bounds what the long heads (request line and headers) of all requests of a server take, in bytes. The head of
	// a request is read before any route is known.
	headMemory = 64 << 20
	// shortHead is up to where a head takes nothing of that.
	shortHead = 64 << 10
	// headCopies is how often a head is in memory: as it came, parsed, and as the path is decoded.
	headCopies = 3
	// headStep is how much room is taken at once, in bytes.
	headStep = 1 << 20
)

// noRoomForHead is the answer to a head for which there is no room. There is no request yet that could be answered.
const noRoomForHead = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: " + retryAfter + "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

var errNoRoomForHead = errors.New("too many long request heads at the moment")

// headListener bounds the heads of requests on its connections.
type headListener struct {
	net.Listener
	room pool
}

func newHeadListener(l net.Listener) *headListener {
	return &headListener{Listener: l, room: pool{size: headMemory, free: headMemory}}
}

// Accept implements net.Listener.
func (l *headListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &headConn{Conn: conn, room: &l.room}, nil
}

// headConn is a connection that counts what comes while no request is being served: that is a head.
type headConn struct {
	net.Conn
	room *pool

	mu      sync.Mutex // guards the fields below
	serving bool
	read    int64 // of the head that is coming
	held    int64
}

// Read implements net.Conn. Where a head finds no room the connection ends with 503.
func (c *headConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.count(int64(n)) {
		if c.SetWriteDeadline(time.Now().Add(time.Second)) == nil { // for a client that does not read
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

// serve says whether a request is being served. What its head held is given back after it.
func (c *headConn) serve(serving bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serving = serving; !serving {
		c.release()
	}
}

// release gives back what is held. Its caller holds mu.
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

// withHeadConn lets boundHead find the connection of a request.
func withHeadConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, headConnKey{}, conn)
}

// boundHead tells the connection when a request is being served.
func boundHead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(headConnKey{}).(*headConn); ok {
			conn.serve(true)
			defer conn.serve(false)
		}
		next.ServeHTTP(w, r)
	})
}
