package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
	"rideshare/orchestrator/dispatch"
)

// callerFunc fakes dispatch.Caller with one function.
type callerFunc func(ctx context.Context, q mq.Queue, body []byte, onReply func([]byte, bool) bool) error

func (f callerFunc) Call(ctx context.Context, q mq.Queue, body []byte, onReply func([]byte, bool) bool) error {
	return f(ctx, q, body, onReply)
}

// cluster fakes dispatch.Availability.
type cluster struct {
	mu          sync.Mutex
	slaves      int
	master      bool
	slavesSince time.Time
	masterSince time.Time
	gone        map[dbaas.WorkerID]bool
}

func healthy() *cluster { return &cluster{slaves: 1, master: true} }

func (c *cluster) Slaves() (int, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slaves, c.slavesSince
}

func (c *cluster) Master() (bool, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.master, c.masterSince
}

func (c *cluster) Gone(worker dbaas.WorkerID, _ time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone[worker]
}

// lose makes Gone report true for a worker.
func (c *cluster) lose(worker dbaas.WorkerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone == nil {
		c.gone = map[dbaas.WorkerID]bool{}
	}
	c.gone[worker] = true
}

func (c *cluster) set(slaves int, master bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slaves, c.master = slaves, master
	c.slavesSince, c.masterSince = time.Now(), time.Now()
}

// message is one message that a test holds: it decides how it ends.
type message struct {
	ctx     context.Context
	queue   mq.Queue
	reads   []dbaas.Read
	cluster dbaas.ClusterID // that the reads' positions belong to
	again   bool
	ops     []dbaas.Operation
	end     chan error
	mu      sync.Mutex // held while onReply runs; guards over
	onReply func([]byte, bool) bool
	over    bool
}

// held returns a Caller whose messages go to a channel and end when the test
// ends them, or with their deadline.
func held() (callerFunc, chan *message) {
	messages := make(chan *message, 1024)
	return func(ctx context.Context, q mq.Queue, body []byte, onReply func([]byte, bool) bool) error {
		m := &message{ctx: ctx, queue: q, onReply: onReply, end: make(chan error, 1)}
		if err := m.decode(body); err != nil {
			return err
		}
		messages <- m
		select {
		case err := <-m.end:
			return err
		case <-ctx.Done():
			m.mu.Lock()
			defer m.mu.Unlock()
			m.over = true // Call passes on no reply once it has returned.
			return ctx.Err()
		}
	}, messages
}

func (m *message) decode(body []byte) error {
	kind, err := wire.KindOf(body)
	if err != nil {
		return err
	}
	if kind == wire.KindReadRequest {
		var r wire.ReadRequest
		r, err = wire.DecodeReadRequest(body, time.Now())
		m.reads, m.again, m.cluster = r.Reads, r.Again, r.Cluster
		return err
	}
	r, err := wire.DecodeWriteRequest(body, time.Now())
	m.ops = r.Operations
	return err
}

// reply answers the reads with the given indexes with their own SQL text.
func (m *message) reply(last bool, indexes ...int) {
	r := wire.ReadReply{Last: last}
	for _, i := range indexes {
		r.Answers = append(r.Answers, wire.ReadAnswer{Index: i, Result: dbaas.ReadResult{Body: []byte(m.reads[i].Statements[0].SQL)}})
	}
	m.send(r.Encode())
}

// commit answers all operations as applied at seq.
func (m *message) commit(seq dbaas.Seq) {
	r := wire.WriteReply{Last: true}
	for i := range m.ops {
		r.Answers = append(r.Answers, wire.WriteAnswer{Index: i, Result: dbaas.OperationResult{ID: m.ops[i].ID, Seq: seq}})
	}
	m.send(r.Encode())
}

// heldBy announces that a worker holds the message.
func (m *message) heldBy(worker dbaas.WorkerID) { m.send(wire.ReadHeld{Worker: worker}.Encode()) }

// runs announces that a worker runs the read at that index, and no other read.
func (m *message) runs(worker dbaas.WorkerID, place int) {
	m.send(wire.ReadHeld{Worker: worker, Running: &place}.Encode())
}

func (m *message) send(body []byte, err error) {
	if err != nil {
		m.end <- err
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.over && m.onReply(body, false) {
		m.end <- nil
	}
}

// all answers every read of the message.
func (m *message) all() {
	indexes := make([]int, len(m.reads))
	for i := range indexes {
		indexes[i] = i
	}
	m.reply(true, indexes...)
}

func read(sql string) dbaas.Read {
	return dbaas.Read{Format: dbaas.FormatObjects, Statements: []dbaas.Statement{{SQL: sql}}}
}

func operation(n byte) dbaas.Operation {
	return dbaas.Operation{ID: dbaas.OpID{n}, Statements: []dbaas.Statement{{SQL: fmt.Sprintf("INSERT %d", n)}}}
}

// newDispatcher returns a Dispatcher that is closed with the test.
func newDispatcher(tb testing.TB, cfg dispatch.Config) *dispatch.Dispatcher {
	tb.Helper()
	if cfg.Availability == nil {
		cfg.Availability = healthy()
	}
	d := dispatch.New(cfg)
	d.SawSeq(0)
	tb.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = d.Close(ctx) // only ends what the test has left.
	})
	return d
}

// answer is the outcome of one request.
type answer struct {
	name string
	read dbaas.ReadResult
	err  error
}

// ask sends a read in the background; its answer goes to the channel.
func ask(ctx context.Context, d *dispatch.Dispatcher, r dbaas.Read, answers chan<- answer) {
	go func() { // ends with the read's answer, at the latest at its deadline.
		result, err := d.Read(ctx, r)
		answers <- answer{name: r.Statements[0].SQL, read: result, err: err}
	}()
}

// together sends the reads of those names in one message, and returns the message unanswered.
func together(t *testing.T, d *dispatch.Dispatcher, messages <-chan *message, answers chan answer, names ...string) *message {
	t.Helper()
	ask(t.Context(), d, read("opener"), answers) // the others gather while it is in flight
	opener := <-messages
	for _, name := range names {
		ask(t.Context(), d, read(name), answers)
		synctest.Wait()
	}
	opener.all()
	<-answers
	return <-messages
}
