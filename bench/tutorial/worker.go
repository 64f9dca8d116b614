package tutorial

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
)

// maxRows is how many rows a write may return; the benchmark's writes return none.
const maxRows = 1

// writes lets clients write everything that they may write in the product.
var writes = replication.WriteGuard(nil)

// worker consumes the messages of one queue.
type worker struct {
	db       *sqlite.Conn // used by the goroutine that consumes
	conn     connection
	channel  channel
	prefetch int
	running  sync.WaitGroup
}

// serveReads answers reads from the replica until the connection ends.
func (w *worker) serveReads(n names) error {
	messages, err := w.consume(n.reads)
	if err != nil {
		return err
	}
	w.running.Go(func() {
		for d := range messages {
			body, err := w.read(d)
			if w.answer(d, body, err) != nil {
				return // the connection is gone; the caller will time out
			}
		}
	})
	return nil
}

// follow applies broadcast writes to the replica until the connection ends.
func (w *worker) follow(n names) error {
	q, err := w.channel.QueueDeclare("", false, true, true, false, nil)
	if err == nil {
		err = w.channel.QueueBind(q.Name, "", n.sync, false, nil)
	}
	if err != nil {
		return fmt.Errorf("bind to %s: %w", n.sync, err)
	}
	messages, err := w.consume(q.Name)
	if err != nil {
		return err
	}
	w.running.Go(func() {
		for d := range messages {
			if w.apply(d) != nil || d.Ack(false) != nil {
				return
			}
		}
	})
	return nil
}

// written is a write that is on disk and broadcast, or failed with err.
type written struct {
	amqp.Delivery

	err error
}

// serveWrites commits each write and broadcasts it, until the connection ends.
func (w *worker) serveWrites(n names) error {
	broadcasts, err := w.conn.Channel() // a separate channel, since answers need no confirm
	if err == nil {
		err = broadcasts.Confirm(false)
	}
	if err != nil {
		return fmt.Errorf("confirms: %w", err)
	}
	confirms := broadcasts.NotifyPublish(make(chan amqp.Confirmation, w.prefetch))
	messages, err := w.consume(n.writes)
	if err != nil {
		return err
	}
	done := make(chan written, w.prefetch)
	w.running.Go(func() { w.answerWrites(done, confirms) })
	w.running.Go(func() {
		defer close(done)
		for d := range messages {
			err := w.apply(d)
			if err == nil {
				err = broadcasts.PublishWithContext(context.Background(), n.sync, "", false, false, amqp.Publishing{Type: d.Type, Body: d.Body, DeliveryMode: amqp.Persistent})
			}
			done <- written{d, err}
		}
	})
	return nil
}

// answerWrites answers each write once the broker has confirmed its broadcast. While it waits, the next write can be
// committed, if the prefetch allows it.
func (w *worker) answerWrites(done <-chan written, confirms <-chan amqp.Confirmation) {
	for d := range done {
		if d.err == nil {
			if c := <-confirms; !c.Ack {
				d.err = errors.New("broadcast: not confirmed")
			}
		}
		_ = w.answer(d.Delivery, []byte("{}"), d.err) // the connection is gone; the caller will time out.
	}
}

// consume returns the messages of a queue.
func (w *worker) consume(queue string) (<-chan amqp.Delivery, error) {
	if err := w.channel.Qos(w.prefetch, 0, false); err != nil {
		return nil, fmt.Errorf("prefetch: %w", err)
	}
	messages, err := w.channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("consume %s: %w", queue, err)
	}
	return messages, nil
}

func (w *worker) read(d amqp.Delivery) ([]byte, error) {
	statements, err := parse(d.Type, d.Body)
	if err != nil {
		return nil, err
	}
	return w.db.AppendRead(nil, &dbaas.Read{Format: dbaas.FormatObjects, Statements: statements}, replication.ReadGuard)
}

// apply runs the statements of one message in one transaction.
func (w *worker) apply(d amqp.Delivery) error {
	statements, err := parse(d.Type, d.Body)
	if err != nil {
		return err
	}
	if err = w.db.BeginWrite(); err != nil {
		return err
	}
	for i := range statements {
		s, err := w.db.Prepare(statements[i].SQL, writes)
		if err == nil {
			_, err = s.Run(&statements[i], maxRows)
		}
		if err != nil {
			return errors.Join(err, w.db.End())
		}
	}
	return w.db.Commit()
}

// answer replies, and acknowledges the message.
func (w *worker) answer(d amqp.Delivery, body []byte, err error) error {
	reply := amqp.Publishing{ContentType: "application/json", CorrelationId: d.CorrelationId, Body: body}
	if err != nil {
		reply.Type, reply.Body = failed, []byte(err.Error())
	}
	if err = w.channel.PublishWithContext(context.Background(), "", d.ReplyTo, false, false, reply); err != nil {
		return fmt.Errorf("reply: %w", err)
	}
	return d.Ack(false)
}
