package amqp_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
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

// patience limits the wait for what must happen.
const patience = 30 * time.Second

// roomy is more than any test without limits publishes.
const roomy = 20_000

// bus is the set of names with one prefix on a broker, for one test.
type bus struct {
	service   *testenv.Service   // nil when the broker is shared
	nodes     []*testenv.Service // of a cluster, else nil
	admins    int                // the node that admin uses
	abandoned bool               // the queues stay, because the broker ends with the test
	url       string
	prefix    string
	limits    mqtest.Limits
	// silent is how long a node of a cluster may send nothing; zero for the default. Only tests about silence use that: a process
	// that stands still for so long takes every node for silent.
	silent time.Duration

	mu       sync.Mutex       // guards networks
	networks map[any]*network // by their Conn or Meter
}

// newBus returns a bus of the test's own. service is nil for a broker that is shared.
func newBus(tb testing.TB, service *testenv.Service, url string, l mqtest.Limits) *bus {
	tb.Helper()
	if l.MaxReady == 0 {
		l.MaxReady = roomy
	}
	if l.SyncBuffer == 0 {
		l.SyncBuffer = roomy
	}
	b := &bus{
		service: service, url: url, limits: l, silent: 10 * time.Second,
		prefix: "test." + rand.Text() + ".", networks: map[any]*network{},
	}
	tb.Cleanup(func() {
		if !b.abandoned {
			b.remove(tb)
		}
	})
	return b
}

// sharedBus returns a bus on the broker that all tests share.
func sharedBus(t *testing.T, l mqtest.Limits) *bus {
	t.Helper()
	return newBus(t, nil, testenv.RabbitMQ(t), l)
}

// names of the bus as the broker lists them. They are spelled out here, because operators see them.
func (b *bus) queue(q mq.Queue) string {
	if q == mq.DeadQ || q == mq.WriteQ {
		return b.prefix + string(q) + ".v3"
	}
	return b.prefix + string(q) + ".v2"
}
func (b *bus) dead() string     { return b.queue(mq.DeadQ) }
func (b *bus) exchange() string { return b.prefix + "syncQ.v1" }

// atNodes returns the names of a work queue: one, or for reads in a cluster one for each node.
func (b *bus) atNodes(q mq.Queue) []string {
	if b.nodes == nil || q == mq.WriteQ || q == mq.DeadQ {
		return []string{b.queue(q)}
	}
	var all []string
	for _, n := range b.nodes {
		all = append(all, b.queue(q)+"."+hostOf(n))
	}
	return all
}

// remove deletes everything of the bus at the broker.
func (b *bus) remove(tb testing.TB) {
	tb.Helper()
	b.admin(tb, func(ch *amqp091.Channel) error {
		for _, name := range slices.Concat(b.atNodes(mq.ReadQ), b.atNodes(mq.LinearQ), []string{b.queue(mq.WriteQ), b.dead()}) {
			if _, err := ch.QueueDelete(name, false, false, false); err != nil {
				return err
			}
		}
		return ch.ExchangeDelete(b.exchange(), false, false)
	})
}

// admin does something at the broker that users of the bus have no right to do.
func (b *bus) admin(tb testing.TB, do func(ch *amqp091.Channel) error) {
	tb.Helper()
	at := b.url
	if b.nodes != nil {
		at = b.nodes[b.admins].URL
	}
	conn, err := amqp091.Dial(at)
	if err != nil {
		tb.Fatalf("administrator's connection: %v", err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err == nil {
		err = do(ch)
	}
	if err != nil {
		tb.Fatalf("administrator: %v", err)
	}
}

// waiting returns how many messages of a queue wait for a consumer.
func (b *bus) waiting(tb testing.TB, name string) int {
	tb.Helper()
	n := 0
	b.admin(tb, func(ch *amqp091.Channel) error {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n
}

// config is the settings of a connection to the bus, over its own network.
func (b *bus) config(name string) (amqp.Config, *network) {
	n := &network{}
	config := amqp.Config{
		URL: b.url, Prefix: b.prefix, Name: name, Heartbeat: 10 * time.Second, ConfirmTimeout: 10 * time.Second,
		SeparateWrites: true, MaxReady: b.limits.MaxReady, MaxBytes: b.limits.MaxBytes, SyncBuffer: b.limits.SyncBuffer, DialContext: n.dial,
	}
	config.SetSilentLimit(b.silent)
	return config, n
}

// open dials with settings. The test closes the connection.
func (b *bus) open(tb testing.TB, config amqp.Config, n *network) *amqp.Conn {
	tb.Helper()
	c, err := amqp.Dial(config)
	if err != nil {
		tb.Fatalf("dial: got %v, want nil", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.networks[c] = n
	return c
}

func (b *bus) Dial(tb testing.TB, name string) mq.Conn {
	tb.Helper()
	config, n := b.config(name)
	return b.open(tb, config, n)
}

func (b *bus) DialMeter(tb testing.TB) mq.Meter {
	tb.Helper()
	config, n := b.config("meter")
	return b.openMeter(tb, config, n)
}

// openMeter dials with settings. The test closes the meter.
func (b *bus) openMeter(tb testing.TB, config amqp.Config, n *network) *amqp.Meter {
	tb.Helper()
	m, err := amqp.DialMeter(config)
	if err != nil {
		tb.Fatalf("dial: got %v, want nil", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.networks[m] = n
	return m
}

// connected returns a connection that is up, and closed after the test.
func (b *bus) connected(tb testing.TB, name string) mq.Conn {
	tb.Helper()
	c := b.Dial(tb, name)
	tb.Cleanup(func() { _ = c.Close() })
	wholly(tb, c)
	return c
}

// wholly waits until a connection is up, also for large messages.
func wholly(tb testing.TB, c mq.Conn) {
	tb.Helper()
	testenv.Eventually(tb, patience, func() error {
		if s := c.State(); !s.Connected || s.Blocked {
			return fmt.Errorf("got state %+v, want connected", s)
		}
		return c.Ready()
	})
}

func (b *bus) network(c mq.Conn) *network {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.networks[c]
}

func (b *bus) Crash(_ testing.TB, c mq.Conn) { b.network(c).disconnect() }

func (b *bus) Disconnect(testing.TB) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.networks {
		n.cut()
	}
}

func (b *bus) Block(tb testing.TB) {
	tb.Helper()
	b.ctl(tb, "set_vm_memory_high_watermark", "0.0000001")
}

func (b *bus) Unblock(tb testing.TB) {
	tb.Helper()
	b.ctl(tb, "set_vm_memory_high_watermark", "0.4")
}

// ctl runs rabbitmqctl on the bus's own broker; an alarm of one node of a cluster is one of all.
func (b *bus) ctl(tb testing.TB, args ...string) {
	tb.Helper()
	if b.nodes != nil {
		b.nodes[b.admins].Ctl(tb, args...)
		return
	}
	b.service.Ctl(tb, args...)
}

func (b *bus) DeleteQueue(tb testing.TB, q mq.Queue) {
	tb.Helper()
	b.admin(tb, func(ch *amqp091.Channel) error {
		for _, name := range b.atNodes(q) {
			if _, err := ch.QueueDelete(name, false, false, false); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgetQueue removes a quorum queue without notice to its consumers.
func (b *bus) forgetQueue(tb testing.TB, q mq.Queue) {
	tb.Helper()
	name := b.queue(q)
	b.service.Ctl(tb, "eval", fmt.Sprintf(`
		ok = ra:force_delete_server(quorum_queues, {list_to_atom("%%2F_%[1]s"), node()}),
		rabbit_amqqueue:internal_delete(rabbit_misc:r(<<"/">>, queue, <<"%[1]s">>), <<"test">>).`, name))
}

// suspendQueue stops a quorum queue until resumeQueue: it accepts messages and does nothing with them.
func (b *bus) suspendQueue(tb testing.TB, q mq.Queue) {
	tb.Helper()
	b.service.Ctl(tb, "eval", fmt.Sprintf(`sys:suspend(list_to_atom("%%2F_%s")).`, b.queue(q)))
}

func (b *bus) resumeQueue(tb testing.TB, q mq.Queue) {
	tb.Helper()
	b.service.Ctl(tb, "eval", fmt.Sprintf(`sys:resume(list_to_atom("%%2F_%s")).`, b.queue(q)))
}

func (b *bus) DeadLetters(tb testing.TB) int {
	tb.Helper()
	return b.waiting(tb, b.dead())
}

// logBuffer keeps log lines. It is safe for concurrent use.
type logBuffer struct {
	mu    sync.Mutex // guards lines
	lines bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count returns how many lines contain all of these words.
func (l *logBuffer) count(words ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.lines.String()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			n++
		}
	}
	return n
}
