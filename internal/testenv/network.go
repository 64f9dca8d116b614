package testenv

import (
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

// Network is the network between its clients and one TCP service, with its faults. It is safe for concurrent use.
//
// It faults streams, not packets: a lost packet shows to both ends as a delay, which Slow makes.
// It is our own because a fault here can be one process's alone, and toxiproxy as a library has not had a
// release with its module path since 2022 and brings six modules.
type Network struct {
	listener net.Listener
	target   string

	mu       sync.Mutex // guards the fields below
	changed  *sync.Cond // on mu: signals changes of the fields
	stalled  map[Direction]bool
	refusing bool
	slowness Slowness
	limited  map[Direction]int     // bytes that still pass before connections are dropped
	conns    map[net.Conn]net.Conn // the client's end of each connection, by both ends
	victim   int                   // pid; 0 for everybody
	spared   map[net.Conn]bool     // those of conns that are not the victim's
	running  sync.WaitGroup
}

// Direction is the way of bytes through a Network.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// Slowness is how bytes travel; the zero value is as fast as the machine.
type Slowness struct {
	// Latency delays what is sent, Jitter adds up to as much again at random. The order stays.
	Latency, Jitter time.Duration
	// Slice, if not zero, is the most bytes that arrive at once.
	Slice int
}

// chunk is bytes on their way.
type chunk struct {
	data []byte
	at   time.Time // when they were sent
	end  bool      // the sender has closed
}

// maxChunks bounds what is on its way in one direction of one connection.
const maxChunks = 256

// NewNetwork returns a network before the service of that URL, for this test.
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
		spared: map[net.Conn]bool{},
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

// Addr is where clients connect instead of to the service.
func (n *Network) Addr() string { return n.listener.Addr().String() }

// Cut stalls both ways: nothing arrives, nothing is refused, as on a network that
// loses every packet. Heal lets go on what was sent meanwhile.
func (n *Network) Cut() { n.Stall(ToServer, ToClient) }

// Stall is Cut for some ways.
func (n *Network) Stall(ways ...Direction) {
	n.set(func() {
		for _, way := range ways {
			n.stalled[way] = true
		}
	})
}

// Only makes stalls and slowness concern the connections of one process alone, those to come too, until Heal.
func (n *Network) Only(pid int) {
	var present map[net.Conn]net.Conn
	n.set(func() {
		n.victim = pid
		clear(n.spared)
		present = maps.Clone(n.conns)
	})
	mine := owns(pid) // slow on a busy machine, so nobody waits for it
	n.set(func() {
		for conn, client := range present {
			n.spared[conn] = !mine(client)
		}
	})
}

// Slow makes connections slow, those of now too.
func (n *Network) Slow(s Slowness) { n.set(func() { n.slowness = s }) }

// Limit lets that many more bytes pass one way, all connections together; then every connection is
// dropped, and each new one with its first byte.
func (n *Network) Limit(way Direction, bytes int) { n.set(func() { n.limited[way] = bytes }) }

// Heal ends every fault but Abandon.
func (n *Network) Heal() {
	n.set(func() {
		clear(n.stalled)
		clear(n.limited)
		clear(n.spared)
		n.slowness, n.victim = Slowness{}, 0
	})
}

// Reset drops the connections of now.
func (n *Network) Reset() { n.set(n.drop) }

// Abandon drops the connections of now and to come, as the death of every client does.
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

// drop is called with mu.
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

// pump copies one way of a connection until one side ends, and then ends the other one.
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
			// The end of a connection gets lost as everything else does.
			if !n.deliver(to, from, way, c) {
				return
			}
		}
	})
}

// deliver writes a chunk as the network is now, and reports whether the connection is still there.
func (n *Network) deliver(to, from net.Conn, way Direction, c chunk) bool {
	for first := true; first || len(c.data) > 0; first = false {
		slow, there := n.pass(from, way)
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
			time.Sleep(left) // the network's own time; bounded by the test's faults
		}
		passed := n.spend(way, len(piece))
		if _, err := to.Write(piece[:passed]); err != nil || passed < len(piece) {
			return false
		}
		c.data = c.data[len(piece):]
	}
	return !c.end
}

// pass waits while the way is stalled, and reports whether the connection is still there.
func (n *Network) pass(conn net.Conn, way Direction) (Slowness, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.stalled[way] && n.conns[conn] != nil && !n.spared[conn] {
		n.changed.Wait()
	}
	if n.spared[conn] {
		return Slowness{}, n.conns[conn] != nil
	}
	return n.slowness, n.conns[conn] != nil
}

// spend takes bytes off the limit, if there is one, and returns how many may pass.
func (n *Network) spend(way Direction, bytes int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	left, limited := n.limited[way]
	if !limited {
		return bytes
	}
	n.limited[way] = max(0, left-bytes)
	if bytes > left {
		defer n.drop()
	}
	return min(bytes, left)
}
