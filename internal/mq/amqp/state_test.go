package amqp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
)

// The connections to each node, which receive the reads and the replies, are part of the state: without any of them the part
// serves nothing, however well it is connected otherwise.
func TestState_ConnectionsToEachNodeCount(t *testing.T) {
	t.Parallel()
	b, _ := threeNodes(t)
	config, n := b.memberConfig("worker", 0)
	var over atomic.Pointer[network] // nil: no connection is made
	over.Store(n)
	config.DialContext = func(ctx context.Context, kind, addr string) (net.Conn, error) {
		if through := over.Load(); through != nil {
			return through.dial(ctx, kind, addr)
		}
		return nil, errNoNetwork
	}
	c := b.open(t, config, n)
	t.Cleanup(func() { _ = c.Close() })
	wholly(t, c)

	over.Store(nil)
	consume(t, c, mq.ReadQ, 1)
	testenv.Eventually(t, patience, func() error {
		if c.State().Connected {
			return errors.New("connected, although no reads can be received")
		}
		return nil
	})
	receiving := &network{}
	over.Store(receiving)
	testenv.Eventually(t, patience, func() error {
		s := c.State()
		for _, node := range b.nodes {
			if host := s.Hosts["consumer at "+hostOf(node)]; !s.Connected || host != hostOf(node) {
				return fmt.Errorf("got %+v, want connected, with a consumer at each node", s)
			}
		}
		return nil
	})
	receiving.cut()
	testenv.Eventually(t, patience, func() error {
		if s := c.State(); !s.Connected || s.Lost < 3 {
			return fmt.Errorf("got %+v, want connected after at least 3 losses", s)
		}
		return nil
	})
}
