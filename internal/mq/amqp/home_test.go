package amqp //nolint:testpackage // links are not exported

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeLife is a connection to a node that does nothing.
type fakeLife struct {
	at     node
	ended  chan struct{}
	err    error
	leftAt time.Time
}

func (f *fakeLife) over() <-chan struct{} { return f.ended }
func (f *fakeLife) close()                { f.end(errOver) }
func (f *fakeLife) leave(context.Context) { f.leftAt = time.Now(); f.end(errMoved) }

func (f *fakeLife) reason() error {
	select {
	case <-f.ended:
		return f.err
	default:
		return nil
	}
}

func (f *fakeLife) end(reason error) {
	if f.reason() == nil {
		f.err = reason
		close(f.ended)
	}
}

// homing is a link to three nodes, of which the first refuses while it is down.
type homing struct {
	*link[*fakeLife]
	mu    sync.Mutex // guards the fields below
	down  bool
	lives []*fakeLife
	tries int // of the first node
}

// away starts a homing at another node than its first one.
func away(t *testing.T) *homing {
	t.Helper()
	config, err := Config{URL: "amqp://u:p@h1,h2,h3/", Log: slog.New(slog.DiscardHandler)}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	h := &homing{down: true}
	h.link = newLink("test", config, func(_ context.Context, at node) (*fakeLife, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if at == config.nodes[0] {
			if h.tries++; h.down {
				return nil, errors.New("connection refused")
			}
		}
		h.lives = append(h.lives, &fakeLife{at: at, ended: make(chan struct{})})
		return h.lives[len(h.lives)-1], nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { h.run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	synctest.Wait()
	h.wants(t, 1)
	return h
}

// counted counts the losses that end calls.
func (h *homing) counted(t *testing.T) *atomic.Int64 {
	t.Helper()
	var n atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { h.losses(ctx, func(*fakeLife) { n.Add(1) }) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return &n
}

// wants checks at which node the link is.
func (h *homing) wants(t *testing.T, index int) {
	t.Helper()
	synctest.Wait()
	now, _, err := h.get()
	if err != nil || now.at != h.nodes[index] {
		t.Fatalf("got a connection %+v, %v, want node %d", now, err, index)
	}
}

// comesBack lets the first node accept connections, and waits until it has the link's.
func (h *homing) comesBack() (first *fakeLife) {
	h.mu.Lock()
	h.down = false
	h.mu.Unlock()
	time.Sleep(DefaultHomeAfter / homeTries) // of the bubble
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lives[len(h.lives)-1]
}

// A link at another node tries the first one every 10 s. Once that has been up for HomeAfter, the link moves there, with a connection
// that is up already. The connection to the other node has been up until then.
func TestLink_OwnNodeUsableForLong_MovesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := away(t)
		losses := h.counted(t)
		time.Sleep(time.Minute) // of the bubble, as below
		h.wants(t, 1)
		if h.tries < 5 || h.tries > 7 {
			t.Errorf("the first node was tried %d times in a minute, want once each 10 s", h.tries)
		}
		own := h.comesBack()
		time.Sleep(DefaultHomeAfter - time.Millisecond)
		h.wants(t, 1)
		time.Sleep(DefaultHomeAfter/homeTries + 2*time.Millisecond)
		h.wants(t, 0)
		if now, _, _ := h.get(); now != own || h.lives[0].leftAt.IsZero() || !errors.Is(h.lives[0].reason(), errMoved) {
			t.Errorf("got another connection than the one that was tried, or the one before was not left: %+v", h.lives[0])
		}
		if _, _, lost := h.state(map[string]string{}); lost != 0 || losses.Load() != 0 {
			t.Errorf("the move counts as %d lost connections, and ends calls %d times", lost, losses.Load())
		}
		own.end(errSilent)
		h.wants(t, 1)
		if losses.Load() != 1 {
			t.Errorf("a loss after the move ends calls %d times, want once", losses.Load())
		}
	})
}

// A first node that is lost again before HomeAfter has passed must be usable for the whole time once more.
func TestLink_OwnNodeLostAgain_WaitsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := away(t)
		own := h.comesBack()
		time.Sleep(DefaultHomeAfter - time.Millisecond) // of the bubble, as below
		own.end(errSilent)
		time.Sleep(DefaultHomeAfter)
		h.wants(t, 1)
		if err := h.lives[0].reason(); err != nil {
			t.Errorf("the connection to the other node has ended: %v", err)
		}
		time.Sleep(2 * DefaultHomeAfter)
		h.wants(t, 0)
	})
}

// If the other node is lost while the first one is watched, the connection to the first one is used at once.
func TestLink_OtherNodeLost_OwnNodeAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := away(t)
		own := h.comesBack()
		h.lives[0].end(errSilent)
		h.wants(t, 0)
		if now, _, _ := h.get(); now != own {
			t.Errorf("got %+v, want the connection that was watched", now)
		}
		if _, _, lost := h.state(map[string]string{}); lost != 1 {
			t.Errorf("got %d lost connections, want 1", lost)
		}
	})
}
