package slave_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/frame"
	"rideshare/internal/mq"
	"rideshare/worker/slave"
)

// fakeSource is a replica whose position the test sets. A read's SQL says what
// it does: "slow 20ms" takes that long, "fail" fails, anything else is echoed.
type fakeSource struct {
	mu      sync.Mutex
	seq     dbaas.Seq
	ready   bool
	lost    chan struct{}
	changed chan struct{}
	open    int // readers
	most    int // most readers at once
}

func newSource(seq dbaas.Seq) *fakeSource {
	return &fakeSource{seq: seq, ready: true, lost: make(chan struct{}), changed: make(chan struct{})}
}

func (f *fakeSource) set(seq dbaas.Seq, ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ready && !ready {
		close(f.lost)
		f.lost = make(chan struct{})
	}
	f.seq, f.ready = seq, ready
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeSource) Applied() (dbaas.Seq, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seq, f.ready
}

func (f *fakeSource) wait(ctx context.Context, done func() bool) error {
	for {
		f.mu.Lock()
		ok, changed := done(), f.changed
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fakeSource) WaitApplied(ctx context.Context, seq dbaas.Seq) error {
	return f.wait(ctx, func() bool { return f.ready && f.seq >= seq })
}

func (f *fakeSource) Serving(ctx context.Context) (<-chan struct{}, error) {
	err := f.wait(ctx, func() bool { return f.ready })
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost, err
}

func (f *fakeSource) Reader() (slave.Reader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ready {
		return nil, dbaas.Errorf(dbaas.CodeNotCaughtUp, "not ready")
	}
	f.open++
	f.most = max(f.most, f.open)
	return &fakeReader{source: f, seq: f.seq}, nil
}

type fakeReader struct {
	source *fakeSource
	seq    dbaas.Seq
}

func (r *fakeReader) Seq() dbaas.Seq { return r.seq }

func (r *fakeReader) Close() {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.source.open--
}

func (r *fakeReader) Read(ctx context.Context, read *dbaas.Read) dbaas.ReadResult {
	sql := read.Statements[0].SQL
	var d time.Duration
	var unit string
	if n, _ := fmt.Sscanf(sql, "slow %d%s", &d, &unit); n == 2 {
		until, cancel := context.WithDeadline(ctx, read.Deadline)
		defer cancel()
		select {
		case <-time.After(d * time.Millisecond):
		case <-until.Done():
			return dbaas.ReadResult{Code: dbaas.CodeTimeout, Message: "interrupted"}
		}
	}
	if sql == "fail" {
		return dbaas.ReadResult{Code: dbaas.CodeInvalid, Message: "no such table"}
	}
	return dbaas.ReadResult{Body: []byte(sql)}
}

// fakeBus records what is answered, and when, and hands over deliveries.
type fakeBus struct {
	mu         sync.Mutex
	begin      time.Time
	replies    []sentReply
	err        error            // of Reply
	held       []dbaas.WorkerID // who said that they hold a message
	consumers  int
	deliveries chan mq.Delivery
}

type sentReply struct {
	frame.ReadReply
	at  time.Duration
	ttl time.Duration
	id  string
}

func newBus() *fakeBus { return &fakeBus{begin: time.Now(), deliveries: make(chan mq.Delivery)} }

func (b *fakeBus) Reply(_ context.Context, _ string, m mq.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if held, err := frame.DecodeReadHeld(m.Body); err == nil {
		b.held = append(b.held, held.Worker)
		return b.err
	}
	r, err := frame.DecodeReadReply(m.Body)
	if err != nil {
		return err
	}
	b.replies = append(b.replies, sentReply{ReadReply: r, at: time.Since(b.begin), ttl: m.TTL, id: m.ID})
	return b.err
}

func (b *fakeBus) Consume(ctx context.Context, _ mq.ConsumeConfig, handle func(mq.Delivery)) error {
	b.count(1)
	defer b.count(-1)
	for {
		select {
		case d := <-b.deliveries:
			handle(d)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *fakeBus) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.consumers += n
}

// holders returns who has said that they hold a message.
func (b *fakeBus) holders() []dbaas.WorkerID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.held)
}

func (b *fakeBus) consuming() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.consumers
}

// answers returns the answer to each read by its place, and when it was sent.
func (b *fakeBus) answers() (results map[int]dbaas.ReadResult, at map[int]time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	results, at = map[int]dbaas.ReadResult{}, map[int]time.Duration{}
	for _, r := range b.replies {
		for _, a := range r.Answers {
			results[a.Index], at[a.Index] = a.Result, r.at
		}
	}
	return results, at
}

// fakeDelivery counts what becomes of it.
type fakeDelivery struct {
	message         mq.Message
	mu              sync.Mutex
	acked, rejected int
}

func (d *fakeDelivery) Message() mq.Message { return d.message }
func (d *fakeDelivery) Redelivered() bool   { return false }

func (d *fakeDelivery) Ack() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acked++
	return nil
}

func (d *fakeDelivery) ackCount() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.acked
}

func (d *fakeDelivery) Reject() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rejected++
	return nil
}

// request makes a message of reads with these texts and deadlines from now.
func request(tb testing.TB, reads ...dbaas.Read) (*fakeDelivery, frame.ReadRequest) {
	tb.Helper()
	req := frame.ReadRequest{Reads: reads}
	body, err := req.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	return &fakeDelivery{message: mq.Message{Body: body, ID: "7", ReplyTo: "caller"}}, req
}

func read(sql string, within time.Duration) dbaas.Read {
	return dbaas.Read{Format: dbaas.FormatObjects, Deadline: time.Now().Add(within), Statements: []dbaas.Statement{{SQL: sql}}}
}

func readAt(seq dbaas.Seq, sql string, within time.Duration) dbaas.Read {
	r := read(sql, within)
	r.MinSeq = seq
	return r
}

func newExecutor(source slave.Source, bus slave.Replier) *slave.Executor {
	return slave.NewExecutor(slave.Config{Worker: "w7", Source: source, Bus: bus, Log: slog.New(slog.DiscardHandler), Fast: 2, Slow: 2})
}
