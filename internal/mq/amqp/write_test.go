package amqp_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
)

// unwritable is a socket that can only be read once broken is set.
type unwritable struct {
	net.Conn
	broken *atomic.Bool
}

func (c unwritable) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}

// A message that cannot be written to the connection goes through the next node, although that connection still receives.
func TestPublish_WriteFails_GoesThroughTheNextNode(t *testing.T) {
	t.Parallel()
	b, _ := threeNodes(t)
	var broken atomic.Bool
	config, n := b.memberConfig("user", 0)
	config.HomeAfter = 5 * time.Second
	config.DialContext = func(ctx context.Context, kind, addr string) (net.Conn, error) {
		raw, err := n.dial(ctx, kind, addr)
		if err != nil || addr != hostOf(b.nodes[0]) {
			return raw, err
		}
		return unwritable{raw, &broken}, nil
	}
	c := b.open(t, config, n)
	t.Cleanup(func() { _ = c.Close() })
	wholly(t, c)
	testenv.Eventually(t, patience, func() error { return at(c, "writer", b.nodes[0]) })
	broken.Store(true)
	if err := c.Publish(t.Context(), mq.WriteQ, mq.Message{Body: []byte("x"), Persistent: true}); err != nil {
		t.Errorf("got %v, want the message confirmed", err)
	}
	if err := at(c, "writer", b.nodes[1], b.nodes[2]); err != nil {
		t.Error(err)
	}
}
