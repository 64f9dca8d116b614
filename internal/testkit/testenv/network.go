package testenv

import (
	"bytes"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Network simulates the network between the clients and one TCP service, with faults. It is safe for concurrent use.
//
// Its faults affect streams, not packets: a lost packet appears to both ends as a delay, which Slow simulates. The
// project has its own implementation because a fault here can affect a single process, and because toxiproxy as a
// library has had no release with its module path since 2022 and brings six modules.
type Network struct {
	listener net.Listener
	target   string

	mu       sync.Mutex // guards the fields below
	changed  *sync.Cond // on mu: signals changes of the fields
	stalled  map[Direction]bool
	refusing bool
	slowness Slowness
	limited  map[Direction]int     // bytes that may still pass before connections are dropped
	conns    map[net.Conn]net.Conn // the client's end of each connection, keyed by both ends
	victim   int                   // pid; 0 for all processes
	spared   map[net.Conn]bool     // connections in conns that are not the victim's
	held     map[net.Conn][]byte   // the next bytes from each end that a stall holds back
	running  sync.WaitGroup
}

// Direction is the direction in which bytes pass through a Network.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// Slowness is how fast bytes travel; zero means as fast as the machine allows.
type Slowness struct {
	// Latency delays all data; Jitter adds a random delay of up to Jitter. The order is preserved.
	Latency, Jitter time.Duration
	// Slice, if not zero, is the most bytes that arrive in one piece.
	Slice int
}

// chunk is data in flight.
type chunk struct {
	data []byte
	at   time.Time // when they were sent
	end  bool      // the sender has closed
}

// maxChunks limits the data in flight in one direction of one connection.
const maxChunks = 256

// NewNetwork returns a network in front of the service at that URL, for this test.
func NewNetwork(tb testing.TB, service string) *Network {
	tb.Helper()
	u, err := url.Parse(service)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	n := &Network{
		listener: listener, target: u.Host,
		stalled: map[Direction]bool{}, limited: map[Direction]int{}, conns: map[net.Conn]net.Conn{},
		spared: map[net.Conn]bool{}, held: map[net.Conn][]byte{},
	}
	n.changed = sync.NewCond(&n.mu)
	n.running.Go(n.accept)
	tb.Cleanup(func() {
		n.Abandon()
		_ = listener.Close()
		n.running.Wait()
	})
	return n
}

// Addr is the address to which clients connect instead of to the service.
func (n *Network) Addr() string { return n.listener.Addr().String() }

// Cut stalls both directions: no data arrives, and no connection is refused, as on a network that loses every packet.
// Heal releases what was sent in that time.
func (n *Network) Cut() { n.Stall(ToServer, ToClient) }

// Stall is Cut for some directions only.
func (n *Network) Stall(ways ...Direction) {
	n.set(func() {
		for _, way := range ways {
			n.stalled[way] = true
		}
	})
}

// Holds reports whether the next bytes that a stall holds back on some connection have this text.
func (n *Network) Holds(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, data := range n.held {
		if bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}

// Only restricts stalls and slowness to the current and future connections of one process, until Heal.
func (n *Network) Only(pid int) {
	var present map[net.Conn]net.Conn
	n.set(func() {
		n.victim = pid
		clear(n.spared)
		present = maps.Clone(n.conns)
	})
	mine := owns(pid) // slow on a busy machine, so called without the lock
	n.set(func() {
		for conn, client := range present {
			n.spared[conn] = !mine(client)
		}
	})
}

// Slow makes current and future connections slow.
func (n *Network) Slow(s Slowness) { n.set(func() { n.slowness = s }) }

// Limit lets that many more bytes pass in one direction, counted over all connections. After that it drops every
// connection, and each new one at its first byte.
func (n *Network) Limit(way Direction, most int) { n.set(func() { n.limited[way] = most }) }

// Heal ends every fault but Abandon.
func (n *Network) Heal() {
	n.set(func() {
		clear(n.stalled)
		clear(n.limited)
		clear(n.spared)
		n.slowness, n.victim = Slowness{}, 0
	})
}

// Reset drops the current connections.
func (n *Network) Reset() { n.set(n.drop) }

// Abandon drops current and future connections, as if every client had died.
func (n *Network) Abandon() {
	n.set(func() {
		n.refusing = true
		n.drop()
	})
}

func (n *Network) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	n.changed.Broadcast()
}

// drop is called with mu held.
func (n *Network) drop() {
	for conn := range n.conns {
		_ = conn.Close()
	}
	clear(n.conns)
	n.changed.Broadcast()
}

func (n *Network) accept() {
	for {
		client, err := n.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", n.target)
		if err != nil || !n.keep(client, server) {
			_ = client.Close()
			continue
		}
		n.pump(server, client, ToServer)
		n.pump(client, server, ToClient)
	}
}

func (n *Network) keep(client, server net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	spared := false
	for looked := 0; n.victim != looked; {
		looked = n.victim
		n.mu.Unlock()
		spared = !owns(looked)(client)
		n.mu.Lock()
	}
	if n.refusing {
		_ = server.Close()
		return false
	}
	n.conns[client], n.conns[server] = client, client
	if n.victim != 0 && spared {
		n.spared[client], n.spared[server] = true, true
	}
	return true
}

// pump copies one direction of a connection until one side closes, and then closes the other side.
func (n *Network) pump(to, from net.Conn, way Direction) {
	chunks, over := make(chan chunk, maxChunks), make(chan struct{})
	n.running.Go(func() {
		defer close(chunks)
		for {
			data := make([]byte, 64<<10)
			size, err := from.Read(data)
			c := chunk{data: data[:size], at: time.Now(), end: err == io.EOF} //nolint:errorlint // a net.Conn wraps no io.EOF
			select {
			case chunks <- c:
			case <-over:
				return
			}
			if err != nil {
				return
			}
		}
	})
	n.running.Go(func() {
		defer close(over)
		defer func() { _, _ = to.Close(), from.Close() }()
		for c := range chunks {
			// The end of a connection can get lost too.
			if !n.deliver(to, from, way, c) {
				return
			}
		}
	})
}

// deliver writes a chunk under the current faults, and reports whether the connection still exists.
func (n *Network) deliver(to, from net.Conn, way Direction, c chunk) bool {
	for first := true; first || len(c.data) > 0; first = false {
		slow, there := n.pass(from, way, c.data)
		if !there {
			return false
		}
		piece := c.data
		if slow.Slice > 0 {
			piece = piece[:min(slow.Slice, len(piece))]
		}
		delay := slow.Latency
		if slow.Jitter > 0 {
			delay += rand.N(slow.Jitter) //nolint:gosec // a fault is no secret
		}
		if left := time.Until(c.at.Add(delay)); left > 0 {
			time.Sleep(left) // the simulated network's own delay; bounded by the test's faults
		}
		passed := n.spend(way, len(piece))
		if _, err := to.Write(piece[:passed]); err != nil || passed < len(piece) {
			return false
		}
		c.data = c.data[len(piece):]
	}
	return !c.end
}

// pass waits while the direction is stalled, and reports whether the connection still exists.
func (n *Network) pass(conn net.Conn, way Direction, data []byte) (Slowness, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer delete(n.held, conn)
	for n.stalled[way] && n.conns[conn] != nil && !n.spared[conn] {
		n.held[conn] = data
		n.changed.Wait()
	}
	if n.spared[conn] {
		return Slowness{}, n.conns[conn] != nil
	}
	return n.slowness, n.conns[conn] != nil
}

// spend subtracts bytes from the limit, if there is one, and returns how many may pass.
func (n *Network) spend(way Direction, size int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	left, limited := n.limited[way]
	if !limited {
		return size
	}
	n.limited[way] = max(0, left-size)
	if size > left {
		defer n.drop()
	}
	return min(size, left)
}
