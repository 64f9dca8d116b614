package amqp

import (
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/mq"
)

const (
	// readTTL is the longest time that a read waits at the broker, whatever its own TTL: no caller waits that long for
	// an answer.
	readTTL = time.Minute
	// maxSyncBytes bounds the broadcasts that wait for one subscriber. They are small, because large entries stay in
	// the log.
	maxSyncBytes = 64 << 20
	// maxDead bounds the waiting dead letters. Further ones stay in writeQ, where they count towards its limits.
	maxDead = 10_000
	// deadLimit is how often a dead letter may be redelivered before it is dropped. RabbitMQ 4's own limit is 20.
	deadLimit = 100 * mq.DeliveryLimit
	// replyPrefix is the prefix of the queue names that the broker generates.
	replyPrefix = "amq.gen-"
)

// names are the broker's names of the queues and the exchange. The arguments of a queue cannot be changed, so each
// name has a version: new arguments need a new version.
type names struct {
	read, linear, write, dead, sync string
}

func newNames(prefix string) names {
	return names{
		read:   prefix + string(mq.ReadQ) + ".v2",
		linear: prefix + string(mq.LinearQ) + ".v2",
		write:  prefix + string(mq.WriteQ) + ".v3",
		dead:   prefix + "dead.write.v3",
		sync:   prefix + mq.SyncQ + ".v1",
	}
}

// at returns the broker's name of a queue, for clients of a node, or "" if there is no such queue.
func (n names) at(q mq.Queue, at node) string {
	switch q {
	case mq.ReadQ:
		return n.read + at.suffix
	case mq.LinearQ:
		return n.linear + at.suffix
	case mq.WriteQ:
		return n.write
	case mq.DeadQ:
		return n.dead
	}
	return ""
}

// queue is a shared queue, with the arguments it is declared with.
type queue struct {
	name string
	args amqp091.Table
}

// eachNode reports whether a queue is at each node of a cluster: a classic queue is lost with its node.
func eachNode(q mq.Queue) bool { return q == mq.ReadQ || q == mq.LinearQ }

// queues returns all shared queues, in the order to declare them.
func (n names) queues(c Config) []queue {
	all := n.quorum(c)
	for _, at := range c.nodes {
		all = append(all, n.reads(c, at)...)
	}
	return all
}

// reads returns the queues of reads at a node.
func (n names) reads(c Config, at node) []queue {
	return []queue{{n.read + at.suffix, readArgs(c)}, {n.linear + at.suffix, readArgs(c)}}
}

// quorum returns the queues that are on the disks of most nodes.
func (n names) quorum(c Config) []queue {
	all := []queue{
		// The dead letters first: a rejected or expired write needs its target.
		{n.dead, amqp091.Table{
			amqp091.QueueTypeArg:       amqp091.QueueTypeQuorum,
			"x-single-active-consumer": true,
			"x-delivery-limit":         int64(deadLimit),
			"x-max-length":             int64(maxDead),
			"x-max-length-bytes":       c.MaxBytes,
			// The broker's default drops the oldest, which may be an accepted write.
			"x-overflow": "reject-publish",
		}},
		{n.write, amqp091.Table{
			amqp091.QueueTypeArg:       amqp091.QueueTypeQuorum,
			"x-single-active-consumer": true,
			"x-delivery-limit":         int64(mq.DeliveryLimit),
			"x-max-length":             int64(c.MaxReady),
			"x-max-length-bytes":       c.MaxBytes,
			"x-overflow":               "reject-publish",
			// Through the default exchange, at least once; the broker's default is at most once.
			"x-dead-letter-exchange":    "",
			"x-dead-letter-routing-key": n.dead,
			"x-dead-letter-strategy":    "at-least-once",
		}},
	}
	if c.cluster() {
		for _, q := range all {
			q.args["x-quorum-initial-group-size"] = int64(len(c.nodes))
		}
	}
	return all
}

// readArgs are the arguments of a queue of reads. The queue is durable although its messages are not: RabbitMQ 4.3
// refuses transient queues that are not exclusive, and closes the whole connection.
func readArgs(c Config) amqp091.Table {
	return amqp091.Table{
		amqp091.QueueTypeArg: amqp091.QueueTypeClassic,
		"x-message-ttl":      readTTL.Milliseconds(),
		"x-max-length":       int64(c.MaxReady),
		"x-max-length-bytes": c.MaxBytes,
		"x-overflow":         "reject-publish",
	}
}

// find returns nil if the queues and the exchange all exist, regardless of which user created them. It needs no rights
// at the broker. Any error has closed ch.
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

// declare creates those of the queues, and the exchange, that are missing. Any error has closed ch.
func (n names) declare(ch *amqp091.Channel, queues []queue) error {
	if err := ch.ExchangeDeclare(n.sync, amqp091.ExchangeFanout, true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare exchange %s: %w", n.sync, err)
	}
	for _, q := range queues {
		if _, err := ch.QueueDeclare(q.name, true, false, false, false, q.args); err != nil {
			return fmt.Errorf("declare queue %s: %w", q.name, err)
		}
	}
	return nil
}

// declarePrivate creates a queue for this connection alone, and returns the name that the broker generated. A name
// chosen here would race, after a reconnect, with the broker's removal of the old queue. The queue is deleted when
// its consumer ends.
func declarePrivate(ch *amqp091.Channel, args amqp091.Table) (string, error) {
	q, err := ch.QueueDeclare("", false, true, true, false, args)
	if err != nil {
		return "", fmt.Errorf("declare a private queue: %w", err)
	}
	return q.Name, nil
}
