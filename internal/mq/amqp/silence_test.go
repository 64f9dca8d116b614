package amqp_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/mq"
	"rideshare/internal/mq/amqp"
	"rideshare/internal/testkit/mqtest"
	"rideshare/internal/testkit/testenv"
)

// threeNodes returns a bus on three nodes, and the network in front of each. To its clients one broker behind three networks is
// a cluster.
func threeNodes(t *testing.T) (*bus, []*testenv.Network) {
	t.Helper()
	user, host, _ := strings.Cut(testenv.RabbitMQ(t), "@")
	networks, nodes := make([]*testenv.Network, 3), make([]*testenv.Service, 3)
	for i := range networks {
		networks[i] = testenv.NewNetwork(t, user+"@"+host)
		nodes[i] = &testenv.Service{URL: user + "@" + networks[i].Addr() + "/"}
	}
	return clusterBus(t, nodes, mqtest.Limits{}), networks
}

// The own node of a worker becomes silent. The worker takes reads from the queue of another node, whose callers are well:
// they get every answer, through another node.
func TestReply_OwnNodeSilent_GoesThroughAnotherNode(t *testing.T) {
	t.Parallel()
	b, networks := threeNodes(t)
	b.admins, b.silent = 1, 0
	log := &logBuffer{}
	worker, other := b.joined(t, "worker", 0), b.joinedLogging(t, "other", 1, log)
	running(t, func(ctx context.Context) error { return answering(ctx, worker, mq.ReadQ) })
	call := caller(t, other)
	testenv.Eventually(t, patience, func() error { return call(mq.ReadQ) })

	networks[0].Cut()
	const reads = 50
	ticker := time.NewTicker(time.Second / reads)
	defer ticker.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for i := range reads {
		calls.Go(func() {
			begun := time.Now()
			if err := steady(t, log, b.nodes[1:], func() error { return call(mq.ReadQ) }); err != nil {
				t.Errorf("read %d: got %v after %v, want an answer", i, err, time.Since(begun))
			}
		})
		<-ticker.C
	}
}

// steady is call. It repeats a call that fails because this process stood still: the caller's log tells that it took a node that
// is well for silent.
func steady(t *testing.T, log *logBuffer, well []*testenv.Service, call func() error) error {
	t.Helper()
	for begun := time.Now(); ; {
		err := call()
		if err == nil || time.Since(begun) > patience {
			return err
		}
		pass(t, time.Second) // the log may tell it a little later
		if !slices.ContainsFunc(well, func(n *testenv.Service) bool { return log.count(amqp.ErrSilent.Error(), hostOf(n)) > 0 }) {
			return err
		}
	}
}
