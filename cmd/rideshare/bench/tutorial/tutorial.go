// Package tutorial is request and reply over RabbitMQ as tutorials write it: each request is
// one message on one channel, a worker answers one at a time, a write is a commit of its own
// that is broadcast with a confirm. It is what the benchmark compares the
// product with, and nothing that the product uses.
package tutorial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/orchestrator/statement"
)

// Config is what New needs.
type Config struct {
	Bus    string // amqp://user:password@host:port/vhost
	Dir    string // for the databases
	Prefix string // stands before the names of queues
}

// RPC is the client's half with its workers. It is safe for concurrent use.
type RPC struct {
	names   names
	conns   []*amqp.Connection
	workers []*worker

	mu      sync.Mutex // guards the fields below: a channel is for one goroutine at a time
	channel *amqp.Channel
	next    uint64
	waiting map[string]chan answer
}

type names struct{ reads, writes, sync, replies string }

// answer is what a worker sends back.
type answer struct {
	Body  json.RawMessage `json:"body,omitempty"`
	Error string          `json:"error,omitempty"`
}

// New connects, and starts a worker for reads and one for writes. Close ends them.
func New(c Config) (*RPC, error) {
	r := &RPC{names: names{reads: c.Prefix + "tutorial-read", writes: c.Prefix + "tutorial-write", sync: c.Prefix + "tutorial-sync"}, waiting: map[string]chan answer{}}
	err := r.start(c)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *RPC) start(c Config) error {
	ch, err := r.dial(c.Bus)
	if err != nil {
		return err
	}
	r.channel = ch
	for _, queue := range []string{r.names.reads, r.names.writes} {
		if _, err = ch.QueueDeclare(queue, true, true, false, false, nil); err != nil {
			return fmt.Errorf("declare %s: %w", queue, err)
		}
	}
	if err = ch.ExchangeDeclare(r.names.sync, amqp.ExchangeFanout, true, true, false, false, nil); err != nil {
		return fmt.Errorf("declare %s: %w", r.names.sync, err)
	}
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return fmt.Errorf("declare the reply queue: %w", err)
	}
	r.names.replies = q.Name
	replies, err := ch.Consume(q.Name, "", true, true, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume replies: %w", err)
	}
	if err := r.work(c); err != nil {
		return err
	}
	go r.receive(replies) // ends with the connection
	return nil
}

// work starts the workers: the reader has a replica that is fed by the writer.
func (r *RPC) work(c Config) error {
	for _, start := range []struct {
		file string
		opts sqlite.Options
		run  func(*worker) error
	}{
		{"replica.db", sqlite.Options{}, func(w *worker) error { return w.serveReads(r.names) }},
		{"master.db", sqlite.Options{Durable: true}, func(w *worker) error { return w.serveWrites(r.names) }},
	} {
		ch, err := r.dial(c.Bus)
		if err != nil {
			return err
		}
		db, err := sqlite.Open(filepath.Join(c.Dir, start.file), start.opts)
		if err != nil {
			return fmt.Errorf("open %s: %w", start.file, err)
		}
		w := &worker{db: db, channel: ch}
		r.workers = append(r.workers, w)
		if err = start.run(w); err != nil {
			return err
		}
	}
	return nil
}

func (r *RPC) dial(url string) (*amqp.Channel, error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	r.conns = append(r.conns, conn)
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	return ch, nil
}

// Close ends the connections and the workers.
func (r *RPC) Close() error {
	var errs []error
	for _, c := range r.conns {
		errs = append(errs, c.Close())
	}
	for _, w := range r.workers {
		w.running.Wait()
		errs = append(errs, w.db.Close())
	}
	return errors.Join(errs...)
}

// Read answers the body of a structured read.
func (r *RPC) Read(ctx context.Context, body []byte) ([]byte, error) {
	return r.call(ctx, r.names.reads, "read", body)
}

// Write answers the body of a structured write once it is on disk and broadcast.
func (r *RPC) Write(ctx context.Context, body []byte) ([]byte, error) {
	return r.call(ctx, r.names.writes, "write", body)
}

// Execute answers the body of the SQL form, as Write does. It is there to make the table.
func (r *RPC) Execute(ctx context.Context, body []byte) ([]byte, error) {
	return r.call(ctx, r.names.writes, "execute", body)
}

func (r *RPC) call(ctx context.Context, queue, kind string, body []byte) ([]byte, error) {
	done := make(chan answer, 1)
	r.mu.Lock()
	r.next++
	id := strconv.FormatUint(r.next, 36)
	r.waiting[id] = done
	err := r.channel.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{
		ContentType: "application/json", Type: kind, CorrelationId: id, ReplyTo: r.names.replies, Body: body,
	})
	r.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	select {
	case a := <-done:
		if a.Error != "" {
			return nil, dbaas.Errorf(dbaas.CodeInvalid, "%s", a.Error)
		}
		return a.Body, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *RPC) receive(replies <-chan amqp.Delivery) {
	for d := range replies {
		var a answer
		if err := json.Unmarshal(d.Body, &a); err != nil {
			a.Error = err.Error()
		}
		r.mu.Lock()
		done := r.waiting[d.CorrelationId]
		delete(r.waiting, d.CorrelationId)
		r.mu.Unlock()
		if done != nil {
			done <- a
		}
	}
}

// parse reads the statements of a message.
func parse(kind string, body []byte) ([]dbaas.Statement, error) {
	var one dbaas.Statement
	var err error
	switch kind {
	case "read":
		one, err = statement.ParseRead(body)
	case "write":
		one, err = statement.ParseWrite(body)
	default:
		return statement.ParseSQL(body)
	}
	return []dbaas.Statement{one}, err
}
