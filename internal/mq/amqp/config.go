package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"rideshare/internal/mq"
)

// Defaults of Config.
const (
	// DefaultHeartbeat is the heartbeat interval of both sides. The client gives up a silent broker after 1.5
	// intervals; the broker gives up a silent worker after two to three. RabbitMQ's guide warns of false alarms below
	// 5 s. Here a false alarm costs a failover that fencing makes harmless, while 10 s would cost half a minute
	// without a master.
	DefaultHeartbeat = 3 * time.Second
	// DefaultConfirmTimeout is how long a confirm may take before the client reconnects. Under load, confirms of
	// persistent messages were seen to take some hundred ms.
	DefaultConfirmTimeout = 3 * time.Second
	// DefaultClusterConfirmTimeout is that of a cluster: then the message goes through another node.
	DefaultClusterConfirmTimeout = time.Second
	// DefaultHomeAfter is longer than a cluster takes to settle when a node has returned, and short enough that the next loss of
	// another node finds the connections where they belong.
	DefaultHomeAfter = 30 * time.Second
	// DefaultMaxReady limits a work queue. Messages are batches: the workers could not finish this many before any
	// deadline.
	DefaultMaxReady = 10_000
	// DefaultSyncBuffer limits how many broadcasts a slow subscriber may lag behind. It reads the lost ones from the
	// log.
	DefaultSyncBuffer = 1_000
)

const (
	// bulkBytes is the size above which a message uses the connection for large messages. A batch of small requests is
	// smaller.
	bulkBytes = 2 << 20
	// bulkPatience is how many times ConfirmTimeout a large message may take.
	bulkPatience = 5
)

// Limits of single steps. All are far above what a healthy broker needs. Together they let Close end within 5 s in
// any state.
const (
	// handshakeTimeout bounds TCP, TLS and AMQP handshakes together.
	handshakeTimeout = 5 * time.Second
	// callTimeout bounds a request that the broker answers, such as a declare.
	callTimeout = 5 * time.Second
	// writeTimeout bounds a single write to the socket: the client library has
	// no bound, and a broker with an alarm does not read.
	writeTimeout = 3 * time.Second
	// closeTimeout bounds the orderly close of a connection; then the socket is closed.
	closeTimeout = 2 * time.Second
	// connectTimeout bounds the TCP connection to a node of a cluster, and memberTimeout the handshakes after it.
	connectTimeout = 2 * time.Second
	memberTimeout  = 3 * time.Second
	// memberCallTimeout replaces callTimeout for what involves the other nodes of a cluster.
	memberCallTimeout = 15 * time.Second
	// deadLetterTimeout bounds the copy of a rejected read to the dead letters.
	deadLetterTimeout = time.Second
)

// maxNames bounds the length of prefix and name together: AMQP allows 255 bytes for a whole name.
const maxNames = 200

// Config selects the broker and the names to use there. Zero values mean the defaults.
type Config struct {
	// URL is the broker: amqp://user:password@host:port/vhost, or amqps. More than one host:port, with commas in between,
	// is a cluster: its own host first, the others in any order.
	URL string
	// Prefix is put before the name of every queue and exchange, so that several systems can share a broker.
	Prefix string
	// Name is the name under which the broker lists the connections.
	Name string
	Log  *slog.Logger
	// SeparateWrites gives publishes to writeQ their own connection. If writeQ then closes its connection, or does
	// not confirm, the other queues are not affected. It is meant for a Conn that publishes to writeQ and other
	// queues.
	SeparateWrites bool
	// Heartbeat is in whole seconds; see DefaultHeartbeat.
	Heartbeat      time.Duration
	ConfirmTimeout time.Duration
	// HomeAfter is how long the first node of a cluster must have been usable before a connection at another node returns to it.
	// Up to a third is added at random.
	HomeAfter time.Duration
	// MaxReady is how many messages may wait in a work queue. The broker refuses more, though it may overshoot by a
	// few. Unacknowledged messages do not count. A queue keeps the limit it was created with: a new limit needs a new
	// prefix.
	MaxReady int
	// MaxBytes limits, in the same way, the bytes that wait in a work queue, in the dead letters or as replies for
	// this connection; mq.DefaultMaxBytes if zero.
	MaxBytes int64
	// SyncBuffer is how many broadcasts may wait at the broker for one subscriber. When it is exceeded, the broker
	// drops the oldest first.
	SyncBuffer int
	// GiveUp, if set, is called when the broker can never be used: it refuses the user, the password or the vhost, or its
	// host name does not resolve, for longer than a start of the broker takes. It is called concurrently, more than once,
	// and not for a connection that was up before. The connections go on trying until Close.
	GiveUp func(error)
	// DialContext opens the TCP connection; if nil, net.Dialer does.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)

	nodes       []node        // of URL, in the order to try them
	silent      *silences     // of nodes; nil unless it is a cluster
	silentLimit time.Duration // see the constant of this name
}

// cluster reports whether the broker has more than one node.
func (c Config) cluster() bool { return len(c.nodes) > 1 }

// confirmTimeouts is how many confirm time-outs a message waits while others on its connection are confirmed.
func (c Config) confirmTimeouts() int {
	if c.cluster() {
		return int(DefaultConfirmTimeout / DefaultClusterConfirmTimeout)
	}
	return 1
}

// Check returns an error that lists everything wrong with the settings.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults returns c with the defaults filled in, or an error that lists everything wrong with it.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	nodes, err := parseNodes(c.URL)
	if err != nil {
		errs = append(errs, err)
	} else {
		c.nodes = shuffled(nodes)
	}
	if c.MaxReady < 0 || c.MaxBytes < 0 || c.SyncBuffer < 0 || c.ConfirmTimeout < 0 || c.HomeAfter < 0 {
		errs = append(errs, errors.New("a limit is negative"))
	}
	longest := 0
	for _, at := range c.nodes {
		longest = max(longest, len(at.suffix))
	}
	if len(c.Prefix)+len(c.Name)+longest > maxNames {
		// The library would fail at the first use, and close the connection each time.
		errs = append(errs, fmt.Errorf("prefix, name and, in a cluster, host together have more than %d bytes", maxNames))
	}
	if c.Heartbeat != 0 && c.Heartbeat < time.Second {
		errs = append(errs, fmt.Errorf("heartbeat %v is less than a second", c.Heartbeat))
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.GiveUp == nil {
		c.GiveUp = func(error) {}
	}
	if c.DialContext == nil {
		c.DialContext = new(net.Dialer).DialContext
	}
	c.Heartbeat = cmp.Or(c.Heartbeat, DefaultHeartbeat)
	if c.cluster() {
		c.silent = &silences{until: map[node]time.Time{}}
		c.ConfirmTimeout = cmp.Or(c.ConfirmTimeout, DefaultClusterConfirmTimeout)
	}
	c.ConfirmTimeout = cmp.Or(c.ConfirmTimeout, DefaultConfirmTimeout)
	c.HomeAfter = cmp.Or(c.HomeAfter, DefaultHomeAfter)
	c.silentLimit = cmp.Or(c.silentLimit, silentLimit)
	c.MaxReady = cmp.Or(c.MaxReady, DefaultMaxReady)
	c.MaxBytes = cmp.Or(c.MaxBytes, mq.DefaultMaxBytes)
	c.SyncBuffer = cmp.Or(c.SyncBuffer, DefaultSyncBuffer)
	return c, errors.Join(errs...)
}
