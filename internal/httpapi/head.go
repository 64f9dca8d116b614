package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"rideshare/internal/logkey"
)

const (
	// headMemory limits the memory, in bytes, for the long heads (request line and headers) of all requests of a
	// server. A head is read before its route is known. With GOMEMLIMIT it is a quarter of that if that is less, but at
	// least leastHeadMemory.
	headMemory = 64 << 20
	// leastHeadMemory has room for one head of MaxHeaderBytes.
	leastHeadMemory = 16 << 20
	// shortHead is the memory in bytes up to which a head does not count towards headMemory: 4 KiB in 40 lines.
	shortHead = 32 << 10
	// headCopies is how many copies of a head are in memory: as received, parsed, and for decoding the path.
	headCopies = 3
	// lineMemory is the memory in bytes for a header besides its text: its places in the maps of the request, of the
	// request that the gateway sends, and of a map that grows.
	lineMemory = 512
	// headStep is how much room is taken in one step, in bytes.
	headStep = 64 << 10
	// readAhead is how many bytes net/http reads at once. So much of the next head may come with the end of a request.
	readAhead = 4 << 10
)

// noRoomForHead is sent if there is no room for a head. It is raw, because there is no request yet to answer.
const noRoomForHead = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: " + retryAfter + "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// plainToTLS is the answer to plain HTTP on a listener with TLS.
const plainToTLS = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"

var errNoRoomForHead = errors.New("too many long request heads at the moment")

// headListener limits the heads of requests on its connections.
type headListener struct {
	net.Listener
	room pool
	tls  *tls.Config // nil for plain HTTP
	log  *slog.Logger
}

func newHeadListener(l net.Listener, secure *tls.Config, log *slog.Logger) *headListener {
	size := max(leastHeadMemory, min(headMemory, memoryLimit()/4))
	return &headListener{Listener: l, tls: secure, log: log, room: pool{size: size, free: size}}
}

// Accept implements net.Listener.
func (l *headListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.tls == nil {
		return &headConn{Conn: conn, room: &l.room, log: l.log}, nil
	}
	secure := tls.Server(conn, l.tls)
	return &secureConn{headConn: &headConn{Conn: secure, room: &l.room, log: l.log}, tls: secure}, nil
}

// secureConn is a headConn on top of TLS, which must see the lines of a head. net/http therefore does not see the TLS.
type secureConn struct {
	*headConn

	tls *tls.Conn
}

// ConnectionState returns the state after the handshake, for Request.TLS. net/http calls it before it reads. If the
// handshake fails, Read returns the error.
func (c *secureConn) ConnectionState() tls.ConnectionState {
	if c.SetDeadline(time.Now().Add(readHeaderTimeout)) != nil {
		return tls.ConnectionState{}
	}
	if err := c.tls.HandshakeContext(context.Background()); err != nil {
		c.log.Debug("TLS handshake failed", logkey.Addr, c.RemoteAddr().String(), logkey.Error, err.Error())
		if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil {
			_, _ = io.WriteString(plain.Conn, plainToTLS)
		}
		return tls.ConnectionState{}
	}
	if c.SetDeadline(time.Time{}) != nil {
		return tls.ConnectionState{}
	}
	return c.tls.ConnectionState()
}

// headConn measures the bytes that arrive while no request is being served: they belong to a head.
type headConn struct {
	net.Conn

	room *pool
	log  *slog.Logger

	mu      sync.Mutex // guards the fields below
	serving bool
	head    headSize
	held    int64
}

// Read implements net.Conn. If there is no room for a head, Read answers 503 and closes the connection.
func (c *headConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.count(p[:n], len(p) == 1) {
		if c.SetWriteDeadline(time.Now().Add(time.Second)) == nil { // for a client that does not read
			_, _ = io.WriteString(c.Conn, noRoomForHead)
		}
		return 0, errNoRoomForHead
	}
	return n, err
}

// count reports whether there is room for the received bytes. single is as in headSize.add.
func (c *headConn) count(p []byte, single bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head.add(p, c.serving, single)
	return c.charge()
}

// charge takes room for what was received of the head, and reports whether there was room. The caller holds mu.
func (c *headConn) charge() bool {
	for need := c.head.memory(); need > shortHead && c.held < need; c.held += headStep {
		if !c.room.tryTake(headStep) {
			c.log.Debug("no room for a request's head", logkey.Addr, c.RemoteAddr().String(), logkey.Bytes, need)
			return false
		}
	}
	return true
}

// begin is called when serving of a request starts. body is the length of its body, -1 if it is not known.
func (c *headConn) begin(body int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving = true
	c.head.begin(body)
}

// end is called when serving of a request has ended. It returns the room of its head, and takes room for what was received
// of the next one. Without room it closes the connection. It does not answer 503, which says that nothing is done: net/http
// may have the whole next request already, and serves it.
func (c *headConn) end() {
	c.mu.Lock()
	c.release()
	c.serving, c.head = false, c.head.next()
	room := c.charge()
	c.mu.Unlock()
	if !room {
		_ = c.Close() // net/http sees it at its next read
	}
}

// release returns what is held. The caller holds mu.
func (c *headConn) release() {
	c.room.give(c.held)
	c.held = 0
}

// Close implements net.Conn.
func (c *headConn) Close() error {
	c.mu.Lock()
	c.release()
	c.mu.Unlock()
	return c.Conn.Close()
}

// servingConn is a headConn or a secureConn.
type servingConn interface {
	begin(body int64)
	end()
}

type headConnKey struct{}

// withHeadConn stores the connection in ctx, for boundHead.
func withHeadConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, headConnKey{}, conn)
}

// boundHead informs the connection when serving of a request starts. The end is headState's.
func boundHead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(headConnKey{}).(servingConn); ok {
			conn.begin(r.ContentLength)
		}
		next.ServeHTTP(w, r)
	})
}

// headState informs the connection when serving of a request has ended. That is later than the end of the handler:
// net/http first reads what the handler left of the body, which is no head.
func headState(conn net.Conn, state http.ConnState) {
	if head, ok := conn.(servingConn); ok && state == http.StateIdle {
		head.end()
	}
}
