package amqp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
)

// Defaults of Config.
const (
	// DefaultHeartbeat is how often both sides show that they live. A silent broker is
	// given up after 1.5 times as long, a silent worker by the broker after twice
	// to three times. RabbitMQ's guide warns of false alarms below 5 s; here one costs a
	// failover that fencing makes harmless, and 10 s would cost half a minute without a master.
	DefaultHeartbeat = 3 * time.Second
	// DefaultConfirmTimeout is how long a confirm may take before the connection is
	// made anew. Persistent messages under load were seen to take some hundred ms.
	DefaultConfirmTimeout = 3 * time.Second
	// DefaultMaxReady bounds a work queue. Messages are batches: this many are
	// more than any deadline would let the workers finish.
	DefaultMaxReady = 10_000
	// DefaultSyncBuffer bounds what a slow subscriber may lag behind; what it
	// loses it reads from the log.
	DefaultSyncBuffer = 1_000
)

// Bounds of single steps. All are far above what a healthy broker needs, and
// add up to an end of Close within 5 s in any state.
const (
	// handshakeTimeout bounds TCP, TLS and AMQP handshakes together.
	handshakeTimeout = 5 * time.Second
	// callTimeout bounds a request to the broker that has an answer, such as a declare.
	callTimeout = 5 * time.Second
	// writeTimeout bounds a single write to the socket: the client library has
	// no bound, and a broker with an alarm does not read.
	writeTimeout = 3 * time.Second
	// closeTimeout bounds the polite end of a connection; then the socket is closed.
	closeTimeout = 2 * time.Second
	// buryTimeout bounds putting a rejected read aside.
	buryTimeout = time.Second
)

// maxNames bounds what stands before names: AMQP has 255 bytes for a whole one.
const maxNames = 200

// Config says which broker, and under which names. Zero values mean the defaults.
type Config struct {
	// URL is the broker: amqp://user:password@host:port/vhost, or amqps.
	URL string
	// Prefix stands before the name of every queue and exchange, so that
	// several systems can share a broker.
	Prefix string
	// Name is how the broker lists the connections.
	Name string
	Log  *slog.Logger
	// SeparateWrites gives what is published to writeQ a connection of its own, so that a writeQ
	// that ends its publisher, or does not confirm, leaves the other queues alone. It is for who publishes to both.
	SeparateWrites bool
	// Heartbeat is in whole seconds; see DefaultHeartbeat.
	Heartbeat      time.Duration
	ConfirmTimeout time.Duration
	// MaxReady is the most messages that wait in a work queue; further ones are
	// refused. What consumers hold does not count. The broker may overshoot by a few.
	// Queues keep the limit that they were made with: another one needs another prefix.
	MaxReady int
	// MaxBytes is how many bytes wait in a work queue, in the dead letters or for this connection as replies, in the
	// same way; mq.DefaultMaxBytes if zero.
	MaxBytes int64
	// SyncBuffer is the most broadcasts that wait at the broker for one
	// subscriber; the oldest are lost first.
	SyncBuffer int
	// DialContext opens the TCP connection; nil means net.Dialer's.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

// withDefaults returns c ready for use, or all that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	if _, err := amqp091.ParseURI(c.URL); err != nil {
		// Not wrapped and without the URL: it holds a password.
		errs = append(errs, errors.New("the URL is not like amqp://user:password@host:port/vhost"))
	}
	if c.MaxReady < 0 || c.MaxBytes < 0 || c.SyncBuffer < 0 || c.ConfirmTimeout < 0 {
		errs = append(errs, errors.New("a limit is negative"))
	}
	if len(c.Prefix)+len(c.Name) > maxNames {
		// The library would find out at the first use, and end the connection each time.
		errs = append(errs, fmt.Errorf("prefix and name together have more than %d bytes", maxNames))
	}
	if c.Heartbeat != 0 && c.Heartbeat < time.Second {
		errs = append(errs, fmt.Errorf("heartbeat %v is less than a second", c.Heartbeat))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.DialContext == nil {
		c.DialContext = new(net.Dialer).DialContext
	}
	orDefault(&c.Heartbeat, DefaultHeartbeat)
	orDefault(&c.ConfirmTimeout, DefaultConfirmTimeout)
	orDefault(&c.MaxReady, DefaultMaxReady)
	orDefault(&c.MaxBytes, mq.DefaultMaxBytes)
	orDefault(&c.SyncBuffer, DefaultSyncBuffer)
	return c, errors.Join(errs...)
}

func orDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
