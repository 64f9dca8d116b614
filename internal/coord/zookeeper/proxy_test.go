package zookeeper_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy is the network between one session and the server, with its faults.
type proxy struct {
	listener net.Listener
	target   string

	mu       sync.Mutex // guards the fields below
	released *sync.Cond // on mu: signals changes of the fields
	stalled  map[direction]bool
	refusing bool
	conns    map[net.Conn]bool
	running  sync.WaitGroup
}

// direction is the way of bytes through a proxy.
type direction int

const (
	toServer direction = iota
	toClient
)

// newProxy returns a proxy before the server of that URL.
func newProxy(tb testing.TB, service string) *proxy {
	tb.Helper()
	u, err := url.Parse(service)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{listener: listener, target: u.Host, stalled: map[direction]bool{}, conns: map[net.Conn]bool{}}
	p.released = sync.NewCond(&p.mu)
	p.running.Go(p.accept)
	tb.Cleanup(func() {
		p.abandon()
		_ = listener.Close()
		p.running.Wait()
	})
	return p
}

func (p *proxy) url() string { return "zk://" + p.listener.Addr().String() }

// cut stalls both ways: nothing arrives, nothing is refused, as on a network that
// loses every packet. heal lets go on what was sent meanwhile.
func (p *proxy) cut()  { p.stall(true, toServer, toClient) }
func (p *proxy) heal() { p.stall(false, toServer, toClient) }

func (p *proxy) stall(is bool, ways ...direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, way := range ways {
		p.stalled[way] = is
	}
	p.released.Broadcast()
}

// reset drops the connections of now.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}

// abandon drops the connections of now and to come, as the death of the session's process does.
func (p *proxy) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = true
	p.drop()
}

func (p *proxy) drop() {
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
	p.released.Broadcast()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.target)
		if err != nil || !p.keep(client, server) {
			_ = client.Close()
			continue
		}
		p.running.Go(func() { p.pump(server, client, toServer) })
		p.running.Go(func() { p.pump(client, server, toClient) })
	}
}

func (p *proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing {
		_ = server.Close()
		return false
	}
	p.conns[client], p.conns[server] = true, true
	return true
}

// pump copies until one side ends, and then ends the other one.
func (p *proxy) pump(to, from net.Conn, way direction) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && p.pass(from, way) {
			_, writeErr := to.Write(buffer[:n])
			if writeErr != nil {
				return
			}
		}
		if err != nil {
			// A lost end of a connection is lost as everything else is.
			if errors.Is(err, io.EOF) {
				p.pass(from, way)
			}
			return
		}
	}
}

// pass waits while the way is stalled, and reports whether the connection is still there.
func (p *proxy) pass(conn net.Conn, way direction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.stalled[way] && p.conns[conn] {
		p.released.Wait()
	}
	return p.conns[conn]
}
