package amqp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	config, n := b.config(name)
	config.URL, config.ConfirmTimeout, config.Heartbeat = clusterURL(b.nodes, own), 0, 0
	if log != nil {
		config.Log = log.logger()
	}
	c := b.open(tb, config, n)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// joined is member, and waits until it is up at its own node.
func (b *bus) joined(tb testing.TB, name string, own int) *amqp.Conn {
	tb.Helper()
	c := b.member(tb, name, own, nil)
	wholly(tb, c)
	for connection, host := range c.State().Hosts {
		if host != hostOf(b.nodes[own]) {
			tb.Fatalf("%s: %s is at %s, want its own node %s", name, connection, host, hostOf(b.nodes[own]))
		}
	}
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
	nobody := testenv.FreeAddress(t)
	config.URL = strings.TrimSuffix(b.url, "/") + "," + nobody + "/"
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := amqp.Declare(ctx, config); err == nil || !strings.Contains(err.Error(), "node "+nobody) {
		t.Errorf("got %v, want node %s named", err, nobody)
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
	for q, want := range map[mq.Queue]error{mq.ReadQ: mq.ErrRefused, mq.WriteQ: mq.ErrUnconfirmed} {
		var err error
		for i := 0; err == nil && i < 100; i++ {
			err = c.Publish(t.Context(), q, mq.Message{Body: []byte("x"), Persistent: true})
		}
		if !errors.Is(err, want) {
			t.Errorf("publish to a full %s: got %v, want %v", q, err, want)
		}
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

// Two parts publish while the node of one of them, which leads writeQ, is killed. Every acknowledged write arrives, reads
// go on, and the depths are those of the nodes that are there. The node's own queue is used again when it is back.
func testNodeKilled(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	b := clusterBus(t, nodes, mqtest.Limits{})
	b.admins = 1
	victim, other := b.joined(t, "victim", 0), b.joined(t, "other", 1)
	worker := b.joined(t, "worker", 2)
	seen := newSeen()
	running(t, func(ctx context.Context) error {
		return worker.Consume(ctx, mq.ConsumeConfig{Queue: mq.WriteQ, Prefetch: 100}, seen.take)
	})
	reads := consume(t, worker, mq.ReadQ, 100)
	publish(t, victim, mq.WriteQ, 1)
	pass(t, 5*time.Second) // see testKilled
	var acked acknowledged
	publishing, end := context.WithCancel(context.Background())
	var publishers sync.WaitGroup
	for i, c := range []*amqp.Conn{victim, other, victim, other} {
		publishers.Go(func() { acked.publish(publishing, c, fmt.Sprintf("p%d", i)) })
	}
	defer func() { end(); publishers.Wait() }()
	testenv.Eventually(t, patience, acked.more(100))
	nodes[0].Kill(t)
	testenv.Eventually(t, patience, acked.more(200))
	testenv.Eventually(t, patience, func() error { return at(victim, "writer", nodes[1], nodes[2]) })
	end()
	publishers.Wait()
	testenv.Eventually(t, patience, func() error { return seen.all(acked.ids) })
	t.Logf("%d writes acknowledged, %d messages delivered, longest pause %v", len(acked.ids), seen.count(), acked.longest)

	testenv.Eventually(t, patience, func() error { return victim.Publish(t.Context(), mq.ReadQ, mq.Message{}) })
	ack(t, reads.next(t, 1)[0])
	_ = reads.end() // its context's error
	publish(t, other, mq.ReadQ, 2)
	m := b.DialMeter(t)
	defer func() { _ = m.Close() }()
	testenv.Eventually(t, patience, func() error { return depth(t, m, 2) })

	nodes[0].Start(t)
	back := b.member(t, "back", 0, nil)
	testenv.Eventually(t, patience, func() error { return at(back, "publisher", nodes[0]) })
	testenv.Eventually(t, patience, back.Ready)
	publish(t, back, mq.ReadQ, 1)
	testenv.Eventually(t, patience, func() error { return depth(t, m, 3) })
	consume(t, worker, mq.ReadQ, 100).next(t, 3)
}

// depth returns nil if that many messages wait in all read queues.
func depth(t *testing.T, m mq.Meter, want int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := m.Depths(ctx)
	if err != nil || got[mq.ReadQ] != want {
		return fmt.Errorf("depths: got %v, %w, want %d reads", got, err, want)
	}
	return nil
}

// at returns nil if a connection is at one of the nodes.
func at(c mq.Conn, connection string, nodes ...*testenv.Service) error {
	host := c.State().Hosts[connection]
	for _, n := range nodes {
		if host == hostOf(n) {
			return nil
		}
	}
	return fmt.Errorf("%s is at %q", connection, host)
}

// A part whose node is paused gets its answers through another one, although nothing tells it of the pause. A part at
// another node has answers to its reads all the time, although the paused node leads writeQ; it stays ready. A node that
// was paused for so long that the others gave it up is not used before it is one of them again.
func testNodePaused(t *testing.T, nodes []*testenv.Service) {
	t.Helper()
	b := clusterBus(t, nodes, mqtest.Limits{})
	b.abandoned = true
	paused := nodes[0]
	worker := b.joined(t, "worker", 1)
	for _, q := range mq.WorkQueues() {
		running(t, func(ctx context.Context) error { return answering(ctx, worker, q) })
	}
	victim, other := b.joined(t, "victim", 0), b.joined(t, "other", 2)
	fromVictim, fromOther := caller(t, victim), caller(t, other)
	for _, call := range []func(mq.Queue) error{fromVictim, fromOther} {
		for _, q := range mq.WorkQueues() {
			testenv.Eventually(t, patience, func() error { return call(q) })
		}
	}
	asker, names := b.joined(t, "asker", 0), make(chan string, 10)
	running(t, func(ctx context.Context) error {
		return asker.Replies(ctx, func(name string) { names <- name }, func(mq.Message) {})
	})
	gone := receive(t, names)
	paused.Pause(t)
	defer paused.Resume(t)
	began := time.Now()
	answered := make(chan struct{}, 3)
	for q, call := range map[mq.Queue]func(mq.Queue) error{mq.ReadQ: fromVictim, mq.LinearQ: fromVictim, mq.WriteQ: fromOther} {
		running(t, func(context.Context) error {
			testenv.Eventually(t, patience, func() error { return call(q) })
			t.Logf("%s: answered after %v", q, time.Since(began))
			answered <- struct{}{}
			return nil
		})
	}
	testenv.Eventually(t, patience, func() error {
		err := worker.Reply(t.Context(), gone, mq.Message{})
		if err == nil || !strings.Contains(err.Error(), "has not confirmed an earlier one") {
			return fmt.Errorf("got %w, want replies to the paused node not waited for", err)
		}
		return nil
	})
	for left := cap(answered); left > 0; {
		if err := errors.Join(fromOther(mq.ReadQ), other.Ready()); err != nil {
			t.Errorf("a read at another node, after %v: got %v, want nil", time.Since(began), err)
		}
		select {
		case <-answered:
			left--
		default:
		}
	}
	testenv.Eventually(t, time.Minute, func() error {
		if up := nodes[1].Ctl(t, "eval", "rabbit_nodes:all_running()."); strings.Contains(up, "n0@") {
			return fmt.Errorf("the paused node counts as running: %s", up)
		}
		return nil
	})
	testenv.Eventually(t, patience, func() error { return fromVictim(mq.WriteQ) })
	for _, connection := range []string{"publisher", "writer", "consumer"} {
		testenv.Eventually(t, patience, func() error { return at(victim, connection, nodes[1], nodes[2]) })
	}
	paused.Resume(t)
	late := b.member(t, "late", 0, nil)
	testenv.Eventually(t, patience, func() error { return late.Publish(t.Context(), mq.WriteQ, mq.Message{Persistent: true}) })
	testenv.Eventually(t, patience, func() error {
		if found := paused.Ctl(t, "eval", "rabbit_nodes:all_running()."); !strings.Contains(found, "n1@") && at(late, "writer", paused) == nil {
			return fmt.Errorf("a part stays at a node that finds only %s", found)
		}
		return nil
	})
}

// caller returns a function that sends a request to a queue and waits for its answer.
func caller(t *testing.T, c mq.Conn) func(mq.Queue) error {
	t.Helper()
	caller := mq.NewCaller(c)
	running(t, caller.Run)
	return func(q mq.Queue) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return caller.Call(ctx, q, []byte("request"), func([]byte) bool { return true })
	}
}

// answering answers each message of a queue.
func answering(ctx context.Context, c mq.Conn, q mq.Queue) error {
	return c.Consume(ctx, mq.ConsumeConfig{Queue: q, Prefetch: 8}, func(d mq.Delivery) {
		request := d.Message()
		go func() { // not waited for: it has its own bound
			replying, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			_ = c.Reply(replying, request.ReplyTo, mq.Message{Body: []byte("answer"), ID: request.ID}) // a caller without an answer asks again
			_ = d.Ack()
		}()
	})
}

// seenIDs are the messages that a consumer got.
type seenIDs struct {
	mu  sync.Mutex // guards ids
	ids map[string]int
}

func newSeen() *seenIDs { return &seenIDs{ids: map[string]int{}} }

func (s *seenIDs) take(d mq.Delivery) {
	s.mu.Lock()
	s.ids[d.Message().ID]++
	s.mu.Unlock()
	_ = d.Ack() // ErrStale: it is redelivered
}

func (s *seenIDs) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.ids {
		n += times
	}
	return n
}

func (s *seenIDs) all(ids []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.ids[id] == 0 {
			return fmt.Errorf("write %s was acknowledged and is lost", id)
		}
	}
	return nil
}

// acknowledged are the writes that the broker confirmed.
type acknowledged struct {
	mu      sync.Mutex // guards the fields below
	ids     []string
	last    time.Time
	longest time.Duration
}

// publish publishes writes until ctx ends. A write whose outcome is unknown is repeated with its id.
func (a *acknowledged) publish(ctx context.Context, c mq.Conn, name string) {
	for i := 0; ctx.Err() == nil; i++ {
		m := mq.Message{Body: []byte("x"), ID: fmt.Sprintf("%s-%d", name, i), Persistent: true}
		err := c.Publish(ctx, mq.WriteQ, m)
		for err != nil && ctx.Err() == nil {
			err = c.Publish(ctx, mq.WriteQ, m)
		}
		if err != nil {
			return
		}
		a.mu.Lock()
		if now := time.Now(); !a.last.IsZero() {
			a.longest = max(a.longest, now.Sub(a.last))
		}
		a.last = time.Now()
		a.ids = append(a.ids, m.ID)
		a.mu.Unlock()
	}
}

// more returns a function that returns nil once n more writes are acknowledged.
func (a *acknowledged) more(n int) func() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := len(a.ids)
	return func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if got := len(a.ids) - before; got < n {
			return fmt.Errorf("%d writes acknowledged, want %d", got, n)
		}
		return nil
	}
}
