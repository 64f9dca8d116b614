package tutorial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// maxRows is how many rows a write may return: none are wanted here.
const maxRows = 1

// worker answers one message after the other.
type worker struct {
	channel *amqp.Channel
	running sync.WaitGroup

	mu sync.Mutex // guards db
	db *sqlite.Conn
}

// serveReads answers reads from a replica, which follows the broadcast.
func (w *worker) serveReads(n names) error {
	q, err := w.channel.QueueDeclare("", false, true, true, false, nil)
	if err == nil {
		err = w.channel.QueueBind(q.Name, "", n.sync, false, nil)
	}
	if err != nil {
		return fmt.Errorf("bind to %s: %w", n.sync, err)
	}
	err = w.consume(q.Name, func(d amqp.Delivery) error {
		_, applyErr := w.apply(d)
		return applyErr
	})
	if err != nil {
		return err
	}
	return w.consume(n.reads, func(d amqp.Delivery) error {
		body, readErr := w.read(d)
		return w.reply(d, body, readErr)
	})
}

// serveWrites commits each write, broadcasts it and waits for the broker's confirm.
func (w *worker) serveWrites(n names) error {
	if err := w.channel.Confirm(false); err != nil {
		return fmt.Errorf("confirms: %w", err)
	}
	return w.consume(n.writes, func(d amqp.Delivery) error {
		body, err := w.apply(d)
		if err == nil {
			err = w.broadcast(n.sync, d)
		}
		return w.reply(d, body, err)
	})
}

func (w *worker) consume(queue string, handle func(amqp.Delivery) error) error {
	if err := w.channel.Qos(1, 0, false); err != nil {
		return fmt.Errorf("prefetch: %w", err)
	}
	deliveries, err := w.channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume %s: %w", queue, err)
	}
	w.running.Go(func() { // ends with the connection
		for d := range deliveries {
			if handle(d) != nil {
				return // the connection is gone; who waits runs into its deadline
			}
			if d.Ack(false) != nil {
				return
			}
		}
	})
	return nil
}

func (w *worker) read(d amqp.Delivery) ([]byte, error) {
	statements, err := parse(d.Type, d.Body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.db.AppendRead(nil, &dbaas.Read{Format: dbaas.FormatObjects, Statements: statements})
}

// apply runs the statements of one message as one transaction.
func (w *worker) apply(d amqp.Delivery) ([]byte, error) {
	statements, err := parse(d.Type, d.Body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err = w.db.BeginWrite(); err != nil {
		return nil, err
	}
	for i := range statements {
		s, err := w.db.Prepare(statements[i].SQL, sqlite.GuardWrite)
		if err == nil {
			_, err = s.Run(&statements[i], maxRows)
		}
		if err != nil {
			return nil, errors.Join(err, w.db.End())
		}
	}
	return []byte("{}"), w.db.Commit()
}

func (w *worker) broadcast(exchange string, d amqp.Delivery) error {
	confirm, err := w.channel.PublishWithDeferredConfirmWithContext(context.Background(), exchange, "", false, false,
		amqp.Publishing{Type: d.Type, Body: d.Body, DeliveryMode: amqp.Persistent})
	if err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	if !confirm.Wait() {
		return errors.New("broadcast: not confirmed")
	}
	return nil
}

func (w *worker) reply(d amqp.Delivery, body []byte, err error) error {
	a := answer{Body: body}
	if err != nil {
		a = answer{Error: err.Error()}
	}
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	err = w.channel.PublishWithContext(context.Background(), "", d.ReplyTo, false, false,
		amqp.Publishing{ContentType: "application/json", CorrelationId: d.CorrelationId, Body: text})
	if err != nil {
		return fmt.Errorf("reply: %w", err)
	}
	return nil
}
