package amqp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
	"rideshare/internal/mq/amqp"
	"rideshare/internal/testkit/mqtest"
	"rideshare/internal/testkit/testenv"
)

// hostOf is the host and port of a node.
func hostOf(n *testenv.Service) string {
	_, rest, _ := strings.Cut(n.URL, "@")
	return strings.TrimSuffix(rest, "/")
}

// clusterURL lists all nodes, with one of them first.
func clusterURL(nodes []*testenv.Service, own int) string {
	user, _, _ := strings.Cut(nodes[0].URL, "@")
	hosts := []string{hostOf(nodes[own])}
	for i, n := range nodes {
		if i != own {
			hosts = append(hosts, hostOf(n))
		}
	}
	return user + "@" + strings.Join(hosts, ",") + "/"
}

// undeclaredBus returns a bus of the test's own on a cluster, whose queues do not exist.
func undeclaredBus(tb testing.TB, nodes []*testenv.Service, l mqtest.Limits) *bus {
	tb.Helper()
	b := newBus(tb, nil, clusterURL(nodes, 0), l)
	b.nodes = nodes
	return b
}

// clusterBus is undeclaredBus with its queues. writeQ has its leader at node 0.
func clusterBus(tb testing.TB, nodes []*testenv.Service, l mqtest.Limits) *bus {
	tb.Helper()
	b := undeclaredBus(tb, nodes, l)
	b.declare(tb)
	return b
}

func (b *bus) declare(tb testing.TB) []string {
	tb.Helper()
	config, _ := b.config("queues")
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	declared, err := amqp.Declare(ctx, config)
	if err != nil {
		tb.Fatalf("declare: got %v, want nil", err)
	}
	return declared
}

// member opens a connection of a part on the host of a node, with the settings of a real one. It is closed after the test.
func (b *bus) member(tb testing.TB, name string, own int, log *logBuffer) *amqp.Conn {
	tb.Helper()
	config, n := b.memberConfig(name, own)
	if log != nil {
		config.Log = log.logger()
	}
	c := b.open(tb, config, n)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func (b *bus) memberConfig(name string, own int) (amqp.Config, *network) {
	config, n := b.config(name)
	config.URL, config.ConfirmTimeout, config.Heartbeat = clusterURL(b.nodes, own), 0, 0
	return config, n
}

// homing is member with a short HomeAfter.
func (b *bus) homing(tb testing.TB, name string, own int) *amqp.Conn {
	tb.Helper()
	config, n := b.memberConfig(name, own)
	config.HomeAfter = 5 * time.Second
	c := b.open(tb, config, n)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// joined is member, and waits until it is up at its own node.
func (b *bus) joined(tb testing.TB, name string, own int) *amqp.Conn {
	tb.Helper()
	return b.joinedLogging(tb, name, own, nil)
}

// joinedLogging is joined with a log. A connection whose node did not answer in time is at another one: then the part is opened
// again.
func (b *bus) joinedLogging(tb testing.TB, name string, own int, log *logBuffer) (c *amqp.Conn) {
	tb.Helper()
	testenv.Eventually(tb, patience, func() error {
		c = b.member(tb, name, own, log)
		wholly(tb, c)
		for connection, host := range c.State().Hosts {
			if host != hostOf(b.nodes[own]) {
				_ = c.Close()
				return fmt.Errorf("%s: %s is at %s, want its own node %s", name, connection, host, hostOf(b.nodes[own]))
			}
		}
		return nil
	})
	return c
}

// TestCluster is about three nodes. The subtests share them, one after the other. The last leaves them cut off from each
// other.
func TestCluster(t *testing.T) {
	nodes := testenv.StartRabbitMQCluster(t)
	for _, one := range []struct {
		name string
		run  func(t *testing.T, nodes []*testenv.Service)
	}{
		{"QueuesMissing_LogTellsWhatToDo", testQueuesMissing},
		{"Declare_Twice_AndRemove", testDeclareRemove},
		{"Declare_NodeAway_NamesIt", testDeclareAway},
		{"ReturnedRead_GoesToNextQueue", testReturnedRead},
		{"ReturnedWrite_IsNotAccepted", testReturnedWrite},
		{"FullWriteQ_IsUnknown_FullReadQIsRefused", testFullInCluster},
		{"Conformance", testClusterConformance},
		{"NodeKilled_WritesAndReadsGoOn", testNodeKilled},
		{"NodeBack_ConnectionsReturn", testNodeBack},
		{"NodePaused_AnswersComeAgain", testNodePaused},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(t, nodes) })
	}
}

// A cluster keeps every promise of mq.Conn that does not depend on a single node.
func testClusterConformance(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	for _, n := range nodes {
		n.Ctl(t, "eval", "application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 500).")
	}
	own := 0
	mqtest.Run(t, mqtest.Features{Durable: true, Cluster: true, Patience: patience}, func(tb testing.TB, l mqtest.Limits) mqtest.Bus {
		tb.Helper()
		own = (own + 1) % len(nodes)
		b := undeclaredBus(tb, nodes, l)
		b.url, b.admins = clusterURL(nodes, own), own
		b.declare(tb)
		return b
	})
}

// A part that finds no queues is not ready, and its log says what to do. It goes on by itself once they are declared.
func testQueuesMissing(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	b, log := undeclaredBus(t, nodes, mqtest.Limits{}), &logBuffer{}
	c := b.member(t, "early", 0, log)
	testenv.Eventually(t, patience, func() error {
		if log.count("not connected", "run `rideshare queues`") == 0 {
			return errors.New("the log does not tell that the queues must be declared")
		}
		return is(c.Ready(), mq.ErrUnavailable)
	})
	b.declare(t)
	testenv.Eventually(t, patience, c.Ready)
	publish(t, c, mq.WriteQ, 1)
}

// Declaring is repeatable, and Remove leaves nothing.
func testDeclareRemove(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	b := clusterBus(t, nodes, mqtest.Limits{})
	publish(t, b.joined(t, "user", 1), mq.WriteQ, 1)
	declared := b.declare(t)
	if got, want := len(declared), 2*len(nodes)+3; got != want { // readQ and linearQ of each node, writeQ, dead.write, syncQ
		t.Errorf("declared %v: got %d names, want %d", declared, got, want)
	}
	if got := b.waiting(t, b.queue(mq.WriteQ)); got != 1 {
		t.Errorf("declared twice: got %d messages, want the one that was there", got)
	}
	members := nodes[0].Ctl(t, "list_queues", "--quiet", "--no-table-headers", "name", "members")
	for _, name := range []string{b.queue(mq.WriteQ), b.dead()} {
		for i := range nodes {
			if !strings.Contains(lineOf(members, name), fmt.Sprintf("n%d@localhost", i)) {
				t.Errorf("%s: got %q, want all nodes as members", name, lineOf(members, name))
			}
		}
	}
	for _, c := range b.conns() {
		closeInTime(t, c)
	}
	if err := amqp.Remove(t.Context(), amqp.Config{URL: b.url, Prefix: b.prefix, Name: "test"}); err != nil {
		t.Errorf("remove: got %v, want nil", err)
	}
	if left := nodes[0].Ctl(t, "list_queues", "--quiet", "name"); strings.Contains(left, b.prefix) {
		t.Errorf("left after the removal: %s", left)
	}
}

func lineOf(text, word string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, word+"\t") {
			return line
		}
	}
	return ""
}

// conns returns the connections that the test has opened.
func (b *bus) conns() []*amqp.Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*amqp.Conn
	for c := range b.networks {
		if conn, ok := c.(*amqp.Conn); ok {
			all = append(all, conn)
		}
	}
	return all
}

// Declaring waits for every node, and then names the one that is away. A different argument is an error at once.
func testDeclareAway(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	b := clusterBus(t, nodes, mqtest.Limits{})
	config, _ := b.config("queues")
	missing := testenv.FreeAddress(t)
	config.URL = strings.TrimSuffix(b.url, "/") + "," + missing + "/"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dial, tries := config.DialContext, 0
	config.DialContext = func(ctx context.Context, kind, addr string) (net.Conn, error) {
		if addr == missing {
			if tries++; tries == 2 {
				cancel()
			}
		}
		return dial(ctx, kind, addr)
	}
	if _, err := amqp.Declare(ctx, config); err == nil || !strings.Contains(err.Error(), "node "+missing) || tries < 2 {
		t.Errorf("got %v after %d tries, want node %s named after 2", err, tries, missing)
	}
	config.URL, config.MaxReady = b.url, 7
	if _, err := amqp.Declare(t.Context(), config); err == nil || !strings.Contains(err.Error(), "x-max-length") {
		t.Errorf("got %v, want the argument named", err)
	}
}

// A read whose queue is gone goes to the queue of another node; only when there is none is it unroutable. A consumer of
// all queues gets it.
func testReturnedRead(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	b := clusterBus(t, nodes, mqtest.Limits{})
	c := b.joined(t, "one", 1)
	h := consume(t, b.joined(t, "worker", 2), mq.ReadQ, 8)
	publish(t, c, mq.ReadQ, 1)
	ack(t, h.next(t, 1)[0])
	b.admin(t, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDelete(b.atNodes(mq.ReadQ)[1], false, false, false)
		return err
	})
	publish(t, c, mq.ReadQ, 3)
	for range 3 {
		ack(t, h.next(t, 1)[0])
	}
	b.DeleteQueue(t, mq.ReadQ)
	if err := c.Publish(t.Context(), mq.ReadQ, mq.Message{}); !errors.Is(err, mq.ErrUnroutable) {
		t.Errorf("publish without any queue: got %v, want ErrUnroutable", err)
	}
}

// A write that the broker confirms and returns is not accepted.
func testReturnedWrite(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	b := clusterBus(t, nodes, mqtest.Limits{})
	c := b.joined(t, "one", 1)
	b.DeleteQueue(t, mq.WriteQ)
	if err := c.Publish(t.Context(), mq.WriteQ, mq.Message{Persistent: true}); !errors.Is(err, mq.ErrUnroutable) {
		t.Errorf("publish to the deleted writeQ: got %v, want ErrUnroutable", err)
	}
}

// A refusal of writeQ may come from a queue without a leader, which may have the message; or from a channel that was opened
// while there was no leader, and is refused for ever: the connection is replaced. A classic queue refuses for certain.
func testFullInCluster(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	b, log := clusterBus(t, nodes, mqtest.Limits{MaxReady: 5}), &logBuffer{}
	c := b.member(t, "one", 1, log)
	wholly(t, c)
	for q, want := range map[mq.Queue]error{mq.ReadQ: mq.ErrRefused, mq.WriteQ: mq.ErrMaybeRefused} {
		var err error
		for i := 0; err == nil && i < 100; i++ {
			err = c.Publish(t.Context(), q, mq.Message{Body: []byte("x"), Persistent: true})
		}
		if !errors.Is(err, want) {
			t.Errorf("publish to a full %s: got %v, want %v", q, err, want)
		}
	}
	asked := 0
	again := func() bool { asked++; return asked < 2 }
	if err := c.Publish(t.Context(), mq.WriteQ, mq.Message{Persistent: true, Again: again}); !errors.Is(err, mq.ErrUnconfirmed) || asked != 2 {
		t.Errorf("got %v, and %d questions whether to repeat, want %v and 2", err, asked, mq.ErrUnconfirmed)
	}
	testenv.Eventually(t, patience, func() error {
		_ = c.Publish(t.Context(), mq.WriteQ, mq.Message{Persistent: true}) // refused
		if log.count("bus writer", "writeQ refuses messages") == 0 {
			return errors.New("the connection that is refused is not replaced")
		}
		return nil
	})
	b.admin(t, func(ch *amqp091.Channel) error {
		_, err := ch.QueuePurge(b.queue(mq.WriteQ), false)
		return err
	})
	testenv.Eventually(t, patience, func() error { return c.Publish(t.Context(), mq.WriteQ, mq.Message{Persistent: true}) })
}
