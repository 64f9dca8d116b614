package amqp_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
)

// A read waits in the queue of another node than that of the reply queue, and that node is lost. The caller learns it at once,
// so that it can send the read again, and need not wait for its deadline.
func TestCall_NodeOfTheReadLost_ReplyLost(t *testing.T) {
	t.Parallel()
	b, networks := threeNodes(t)
	config, n := b.memberConfig("user", 0)
	var ownUp atomic.Bool
	config.DialContext = func(ctx context.Context, kind, addr string) (net.Conn, error) {
		if addr == hostOf(b.nodes[0]) && !ownUp.Load() {
			return nil, errNoNetwork
		}
		return n.dial(ctx, kind, addr)
	}
	c := b.open(t, config, n)
	t.Cleanup(func() { _ = c.Close() })
	wholly(t, c)
	ownUp.Store(true) // the connection that publishes stays, the reply queue is at the own node

	ready, caller := make(chan string, 100), mq.NewCaller(c)
	running(t, func(ctx context.Context) error {
		return c.Replies(ctx, func(name string) { ready <- name }, func(mq.Message) {})
	})
	receive(t, ready)
	running(t, caller.Run)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	called := make(chan error, 1)
	go func() {
		called <- caller.Call(ctx, mq.ReadQ, []byte("read"), func([]byte, bool) bool { return true })
	}()
	publisher := slices.IndexFunc(b.nodes, func(n *testenv.Service) bool { return hostOf(n) == c.State().Hosts["publisher"] })
	testenv.Eventually(t, patience, func() error {
		if b.waiting(t, b.atNodes(mq.ReadQ)[publisher]) == 0 {
			return errors.New("the read is not in the queue")
		}
		return nil
	})
	networks[publisher].Abandon()
	if err := receive(t, called); !errors.Is(err, mq.ErrReplyLost) {
		t.Errorf("got %v, want %v", err, mq.ErrReplyLost)
	}
}
