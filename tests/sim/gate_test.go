package sim_test

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"rideshare/internal/coord"
	coordinproc "rideshare/internal/coord/inproc"
	"rideshare/internal/mq"
	mqinproc "rideshare/internal/mq/inproc"
)

// errCut is returned by every call of a dead process.
var errCut = errors.New("the process is dead")

// gate simulates SIGSTOP and SIGKILL of a process: all calls from and to the process pass its gate. While the process
// is stopped they wait there; after it was killed they fail.
type gate struct {
	mu      sync.Mutex // guards the fields below
	stopped chan struct{}
	dead    chan struct{}
	killed  bool
}

func newGate() *gate { return &gate{dead: make(chan struct{})} }

// stop makes all calls wait at the gate until resume.
func (g *gate) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped == nil {
		g.stopped = make(chan struct{})
	}
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped != nil {
		close(g.stopped)
		g.stopped = nil
	}
}

func (g *gate) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.killed {
		g.killed = true
		close(g.dead)
	}
}

// pass waits while the process is stopped, and returns errCut if the process is dead. After resume the waiting calls go
// on, however late they are.
func (g *gate) pass() error {
	for {
		g.mu.Lock()
		stopped, killed := g.stopped, g.killed
		g.mu.Unlock()
		switch {
		case killed:
			return errCut
		case stopped == nil:
			return nil
		}
		select {
		case <-stopped:
		case <-g.dead:
		}
	}
}

// gatedBus is a worker's connection to the bus behind its gate. Messages are delayed by a random time and keep their
// order.
type gatedBus struct {
	*mqinproc.Conn
	gate *gate
	lag  *lag
}

func (b gatedBus) Reply(ctx context.Context, to string, m mq.Message) error {
	b.lag.message()
	if b.gate.pass() != nil {
		return mq.ErrClosed
	}
	return b.Conn.Reply(ctx, to, m)
}

func (b gatedBus) Broadcast(ctx context.Context, body []byte, onSent func()) error {
	if b.gate.pass() != nil {
		onSent()
		return mq.ErrClosed
	}
	return b.Conn.Broadcast(ctx, body, onSent)
}

func (b gatedBus) Consume(ctx context.Context, c mq.ConsumeConfig, handle func(mq.Delivery)) error {
	return b.Conn.Consume(ctx, c, func(d mq.Delivery) {
		b.lag.message()
		if b.gate.pass() == nil {
			handle(gatedDelivery{d, b.gate})
		}
	})
}

func (b gatedBus) Subscribe(ctx context.Context, s mq.Subscriber) error {
	entry := s.Entry
	s.Entry = func(body []byte) {
		b.lag.entry()
		if b.gate.pass() == nil {
			entry(body)
		}
	}
	return b.Conn.Subscribe(ctx, s)
}

func (b gatedBus) Close() error {
	_ = b.gate.pass() // the connection of a dead process is closed already
	return b.Conn.Close()
}

// gatedDelivery passes the gate before it is acknowledged.
type gatedDelivery struct {
	mq.Delivery
	gate *gate
}

func (d gatedDelivery) Ack() error {
	if d.gate.pass() != nil {
		return mq.ErrStale
	}
	return d.Delivery.Ack()
}

// gatedCoordinator is a worker's connection to the coordinator. Its sessions send no heartbeats while the process is
// stopped.
type gatedCoordinator struct {
	*coordinproc.Client
	gate *gate
}

func (c gatedCoordinator) Open(ctx context.Context) (coord.Session, error) {
	if c.gate.pass() != nil {
		return nil, coord.ErrUnavailable
	}
	return c.Client.Open(ctx)
}

// gated is the control API of a worker behind the worker's gate.
func (g *gate) gated(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.pass() == nil {
			h.ServeHTTP(w, r)
		}
	})
}
