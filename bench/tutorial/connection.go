package tutorial

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// connection is what this package needs of a connection to the broker.
type connection interface {
	Channel() (channel, error)
	Close() error
}

// channel is what this package needs of *amqp.Channel, which implements it.
type channel interface {
	QueueDeclare(name string, durable, autoDelete, exclusive, noWait bool, args amqp.Table) (amqp.Queue, error)
	QueueBind(name, key, exchange string, noWait bool, args amqp.Table) error
	ExchangeDeclare(name, kind string, durable, autoDelete, internal, noWait bool, args amqp.Table) error
	Qos(count, size int, global bool) error
	Consume(queue, consumer string, autoAck, exclusive, noLocal, noWait bool, args amqp.Table) (<-chan amqp.Delivery, error)
	Confirm(noWait bool) error
	NotifyPublish(confirms chan amqp.Confirmation) chan amqp.Confirmation
	PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp.Publishing) error
}

// amqpConnection adapts *amqp.Connection to connection.
type amqpConnection struct{ *amqp.Connection }

func dial(url string) (connection, error) {
	conn, err := amqp.Dial(url)
	return amqpConnection{conn}, err
}

func (c amqpConnection) Channel() (channel, error) { return c.Connection.Channel() }

// Remove deletes what an RPC with this prefix leaves at the broker if it ends before its queues had consumers. A
// missing queue or exchange is not an error.
func Remove(ctx context.Context, bus, prefix string) error {
	conn, err := amqp.Dial(bus)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	// The library's calls take no context: the end of the connection ends them.
	defer context.AfterFunc(ctx, func() { _ = conn.CloseDeadline(time.Now()) })()
	ch, err := conn.Channel()
	if err == nil {
		n := newNames(prefix)
		_, readsErr := ch.QueueDelete(n.reads, false, false, false)
		_, writesErr := ch.QueueDelete(n.writes, false, false, false)
		err = errors.Join(readsErr, writesErr, ch.ExchangeDelete(n.sync, false, false))
	}
	return errors.Join(err, conn.Close())
}
