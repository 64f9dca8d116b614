package amqp

import (
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
)

const (
	// readTTL is the longest that a read waits at the broker, whatever its own TTL: nobody
	// waits for an answer that long.
	readTTL = time.Minute
	// maxSyncBytes bounds the broadcasts that wait for one subscriber, which are small: large entries stay in the log.
	maxSyncBytes = 64 << 20
	// maxDead bounds the dead letters that wait; the oldest go first.
	maxDead = 10_000
	// deadLimit is how often a dead letter may come back before it is dropped. RabbitMQ 4's own limit is 20.
	deadLimit = 100 * mq.DeliveryLimit
	// replyPrefix is how the broker begins the names that it gives to queues.
	replyPrefix = "amq.gen-"
)

// names are the broker's names of the queues and the exchange. Arguments of a queue
// cannot be changed, so each name has a version: other arguments, another version.
type names struct {
	read, linear, write, dead, sync string
}

func newNames(prefix string) names {
	return names{
		read:   prefix + string(mq.ReadQ) + ".v2",
		linear: prefix + string(mq.LinearQ) + ".v2",
		write:  prefix + string(mq.WriteQ) + ".v2",
		dead:   prefix + "dead.write.v2",
		sync:   prefix + mq.SyncQ + ".v1",
	}
}

// of returns the broker's name of a queue, empty for one that does not exist.
func (n names) of(q mq.Queue) string {
	switch q {
	case mq.ReadQ:
		return n.read
	case mq.LinearQ:
		return n.linear
	case mq.WriteQ:
		return n.write
	case mq.DeadQ:
		return n.dead
	}
	return ""
}

// queue is a queue that the system shares, with the arguments that it is made with.
type queue struct {
	name string
	args amqp091.Table
}

// queues are all of them, in the order to make them.
func (n names) queues(c Config) []queue {
	return []queue{
		// The dead letters first: a write that dies must have a place to go.
		{n.dead, amqp091.Table{
			amqp091.QueueTypeArg:       amqp091.QueueTypeQuorum,
			"x-single-active-consumer": true,
			"x-delivery-limit":         int64(deadLimit),
			"x-max-length":             int64(maxDead),
			"x-max-length-bytes":       c.MaxBytes,
		}},
		{n.write, amqp091.Table{
			amqp091.QueueTypeArg:       amqp091.QueueTypeQuorum,
			"x-single-active-consumer": true,
			"x-delivery-limit":         int64(mq.DeliveryLimit),
			"x-max-length":             int64(c.MaxReady),
			"x-max-length-bytes":       c.MaxBytes,
			"x-overflow":               "reject-publish",
			// Through the default exchange, and not by the broker's default of at most once.
			"x-dead-letter-exchange":    "",
			"x-dead-letter-routing-key": n.dead,
			"x-dead-letter-strategy":    "at-least-once",
		}},
		{n.read, readArgs(c)},
		{n.linear, readArgs(c)},
	}
}

// readArgs are the arguments of a queue of reads. It is durable although its messages are not: RabbitMQ 4.3
// refuses transient queues that are not exclusive, with the end of the whole connection.
func readArgs(c Config) amqp091.Table {
	return amqp091.Table{
		amqp091.QueueTypeArg: amqp091.QueueTypeClassic,
		"x-message-ttl":      readTTL.Milliseconds(),
		"x-max-length":       int64(c.MaxReady),
		"x-max-length-bytes": c.MaxBytes,
		"x-overflow":         "reject-publish",
	}
}

// find returns nil if the queues and the exchange are all there, whoever made
// them. It needs no right at the broker. Any error has closed ch.
func (n names) find(ch *amqp091.Channel, c Config) error {
	if err := ch.ExchangeDeclarePassive(n.sync, amqp091.ExchangeFanout, true, false, false, false, nil); err != nil {
		return fmt.Errorf("find exchange %s: %w", n.sync, err)
	}
	for _, q := range n.queues(c) {
		if _, err := ch.QueueDeclarePassive(q.name, true, false, false, false, q.args); err != nil {
			return fmt.Errorf("find queue %s: %w", q.name, err)
		}
	}
	return nil
}

// declare makes what is missing of the queues and the exchange. Any error has closed ch.
func (n names) declare(ch *amqp091.Channel, c Config) error {
	if err := ch.ExchangeDeclare(n.sync, amqp091.ExchangeFanout, true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare exchange %s: %w", n.sync, err)
	}
	for _, q := range n.queues(c) {
		if _, err := ch.QueueDeclare(q.name, true, false, false, false, q.args); err != nil {
			return fmt.Errorf("declare queue %s: %w", q.name, err)
		}
	}
	return nil
}

// declarePrivate makes a queue for this connection alone, and returns the name that the
// broker gave it. A name of our own would race, after a reconnect, with the
// broker's removal of the old one. It is gone when its consumer is.
func declarePrivate(ch *amqp091.Channel, args amqp091.Table) (string, error) {
	q, err := ch.QueueDeclare("", false, true, true, false, args)
	if err != nil {
		return "", fmt.Errorf("declare a private queue: %w", err)
	}
	return q.Name, nil
}
