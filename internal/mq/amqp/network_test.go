package amqp_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
)

// errNoNetwork is the error of dialing over a cut network.
var errNoNetwork = errors.New("network is cut")

// network holds the sockets of one Conn, and can cause faults on them. It is safe for concurrent use.
type network struct {
	mu      sync.Mutex // guards the fields below
	sockets []net.Conn
	isCut   bool
	dials   int
	written int // bytes
	// hold, if not nil, delays writes that contain held until hold is closed; holds counts them.
	hold  chan struct{}
	held  string
	holds int
}

// counted is a socket that counts the bytes written, and may delay them.
type counted struct {
	net.Conn
	network *network
}

func (c counted) Write(p []byte) (int, error) {
	if c.network.hold != nil && bytes.Contains(p, []byte(c.network.held)) {
		c.network.mu.Lock()
		c.network.holds++
		c.network.mu.Unlock()
		<-c.network.hold
	}
	n, err := c.Conn.Write(p)
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.network.written += n
	return n, err
}

// dial is an amqp.Config.DialContext.
func (n *network) dial(ctx context.Context, kind, addr string) (net.Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, kind, addr)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials++
	switch {
	case err != nil:
		return nil, err
	case n.isCut:
		_ = raw.Close()
		return nil, errNoNetwork
	}
	n.sockets = append(n.sockets, raw)
	return counted{raw, n}, nil
}

// cut closes every socket.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.sockets {
		_ = s.Close()
	}
	n.sockets = nil
}

// disconnect cuts, and prevents new connections: for the broker that is the death of the process.
func (n *network) disconnect() {
	n.mu.Lock()
	n.isCut = true
	n.mu.Unlock()
	n.cut()
}

// dialed returns how often it connected, or tried to.
func (n *network) dialed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

// holding returns an error until a write is delayed.
func (n *network) holding() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.holds == 0 {
		return errors.New("no write is delayed")
	}
	return nil
}

// sent returns how many bytes were written to any socket.
func (n *network) sent() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.written
}
