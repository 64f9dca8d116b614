// Package tutorial is request and reply over RabbitMQ with one message per request. The benchmark compares the product
// with it; the product does not use it. Tutorial has the settings of RabbitMQ's tutorial, Best the fastest known.
package tutorial

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/orchestrator/sqlbody"
)

// Settings say how the workers consume messages. All acknowledge each message manually, after its answer.
type Settings struct {
	Readers  int // consumers of reads, each with its own connection to the broker and to the database
	Prefetch int // messages that a consumer may hold before it has acknowledged them
}

// Tutorial returns the settings of RabbitMQ's own RPC tutorial: one consumer, which gets a message when it has
// acknowledged the previous one.
func Tutorial() Settings { return Settings{Readers: 1, Prefetch: 1} }

// Best returns the settings at which one message per request is fastest.
func Best() Settings { return Settings{Readers: 2, Prefetch: 16} }

// Config is what New needs.
type Config struct {
	Settings

	Bus    string // amqp://user:password@host:port/vhost
	Dir    string // for the databases
	Prefix string // prefix of the queue names
}

// RPC is the client's side with its workers. It is safe for concurrent use.
type RPC struct {
	names   names
	dial    func(url string) (connection, error)
	conns   []connection
	workers []*worker

	mu      sync.Mutex // guards the fields below: only one goroutine at a time may use a channel
	channel channel
	next    uint64
	waiting map[string]chan amqp.Delivery
}

type names struct{ reads, writes, sync, replies string }

func newNames(prefix string) names {
	return names{reads: prefix + "tutorial-read", writes: prefix + "tutorial-write", sync: prefix + "tutorial-sync"}
}

// failed is the type of a reply whose body is an error text.
const failed = "error"

// New connects, and starts the workers. Close ends them.
func New(c Config) (*RPC, error) { return newRPC(c, dial) }

func newRPC(c Config, dial func(string) (connection, error)) (*RPC, error) {
	r := &RPC{
		names: newNames(c.Prefix), dial: dial, waiting: map[string]chan amqp.Delivery{},
	}
	if err := r.start(c); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *RPC) start(c Config) error {
	conn, err := r.connect(c.Bus)
	if err != nil {
		return err
	}
	if r.channel, err = conn.Channel(); err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	ch := r.channel
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

// work starts the workers: a writer, an applier of the writes to the replica, and the readers of the replica.
func (r *RPC) work(c Config) error {
	const master, replica = "master.db", "replica.db"
	if err := r.startWorker(c, master, sqlite.Options{Durable: true}, (*worker).serveWrites); err != nil {
		return err
	}
	if err := r.startWorker(c, replica, sqlite.Options{}, (*worker).follow); err != nil {
		return err
	}
	for range c.Readers {
		if err := r.startWorker(c, replica, sqlite.Options{ReadOnly: true}, (*worker).serveReads); err != nil {
			return err
		}
	}
	return nil
}

func (r *RPC) startWorker(c Config, file string, opts sqlite.Options, serve func(*worker, names) error) error {
	conn, err := r.connect(c.Bus)
	if err != nil {
		return err
	}
	db, err := sqlite.Open(filepath.Join(c.Dir, file), opts)
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	w := &worker{db: db, conn: conn, prefetch: c.Prefetch}
	r.workers = append(r.workers, w)
	if w.channel, err = conn.Channel(); err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	return serve(w, r.names)
}

func (r *RPC) connect(url string) (connection, error) {
	conn, err := r.dial(url)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	r.conns = append(r.conns, conn)
	return conn, nil
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

// Execute answers the body of the SQL form, as Write does. It is used to create the table.
func (r *RPC) Execute(ctx context.Context, body []byte) ([]byte, error) {
	return r.call(ctx, r.names.writes, "execute", body)
}

func (r *RPC) call(ctx context.Context, queue, kind string, body []byte) ([]byte, error) {
	done := make(chan amqp.Delivery, 1)
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
	case d := <-done:
		if d.Type == failed {
			return nil, dbaas.Errorf(dbaas.CodeInvalid, "%s", d.Body)
		}
		return d.Body, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *RPC) receive(replies <-chan amqp.Delivery) {
	for d := range replies {
		r.mu.Lock()
		done := r.waiting[d.CorrelationId]
		delete(r.waiting, d.CorrelationId)
		r.mu.Unlock()
		if done != nil {
			done <- d
		}
	}
}

// parse reads the statements of a message.
func parse(kind string, body []byte) ([]dbaas.Statement, error) {
	var one dbaas.Statement
	var err error
	switch kind {
	case "read":
		one, err = sqlbody.ParseRead(body)
	case "write":
		one, err = sqlbody.ParseWrite(body)
	default:
		return sqlbody.ParseSQL(body)
	}
	return []dbaas.Statement{one}, err
}
