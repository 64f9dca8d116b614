package slave_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
	"rideshare/worker/slave"
)

// fakeSource is a replica whose position the test sets. A read's SQL selects its behaviour: "slow 20 ms" takes that
// long, "busy 20 ms" works that long, "busy ?" works as many milliseconds as its argument says, "large 9" returns so many bytes, "fail" fails, anything else is echoed.
type fakeSource struct {
	mu      sync.Mutex
	seq     dbaas.Seq
	cluster dbaas.ClusterID
	ready   bool
	lost    chan struct{}
	changed wait.Signal
	open    int             // readers
	most    int             // most readers at the same time
	working int             // busy reads that are running
	busiest int             // most busy reads at the same time
	stuck   <-chan struct{} // if set, no reader is opened before it is closed
	broken  bool            // no reader can be opened
	tries   int             // calls of Reader
	begun   map[string]int  // reads that began, by their text
}

func newSource(seq dbaas.Seq) *fakeSource {
	return &fakeSource{seq: seq, ready: true, lost: make(chan struct{}), begun: map[string]int{}}
}

func (f *fakeSource) set(seq dbaas.Seq, ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ready && !ready {
		close(f.lost)
		f.lost = make(chan struct{})
	}
	f.seq, f.ready = seq, ready
	f.changed.Notify()
}

// stick makes the readers that are opened from now on wait until then; nil opens them at once.
func (f *fakeSource) stick(until <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stuck = until
}

func (f *fakeSource) setBroken(broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = broken
}

func (f *fakeSource) Applied() (dbaas.Head, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return dbaas.Head{Cluster: f.cluster, Seq: f.seq}, f.ready
}

func (f *fakeSource) wait(ctx context.Context, done func() bool) error {
	for {
		f.mu.Lock()
		ok, changed := done(), f.changed.Next()
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

func (f *fakeSource) WaitApplied(ctx context.Context, want dbaas.Head) error {
	return f.wait(ctx, func() bool {
		return f.ready && f.seq >= want.Seq && (want.Cluster.IsZero() || want.Cluster == f.cluster)
	})
}

func (f *fakeSource) Serving(ctx context.Context) (<-chan struct{}, error) {
	err := f.wait(ctx, func() bool { return f.ready })
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost, err
}

func (f *fakeSource) Reader() (slave.Reader, error) {
	f.mu.Lock()
	stuck := f.stuck
	f.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries++
	switch {
	case !f.ready:
		return nil, dbaas.Errorf(dbaas.CodeNotCaughtUp, "not ready")
	case f.broken:
		return nil, errors.New("too many open files")
	}
	f.open++
	f.most = max(f.most, f.open)
	return &fakeReader{source: f, cluster: f.cluster, seq: f.seq}, nil
}

func (f *fakeSource) work(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.working += n
	f.busiest = max(f.busiest, f.working)
}

func (f *fakeSource) begin(sql string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun[sql]++
}

type fakeReader struct {
	source  *fakeSource
	cluster dbaas.ClusterID
	seq     dbaas.Seq
	pace    func()
}

func (r *fakeReader) Pace(pace func()) { r.pace = pace }

func (r *fakeReader) Cluster() dbaas.ClusterID { return r.cluster }

func (r *fakeReader) Seq() dbaas.Seq { return r.seq }

func (r *fakeReader) Close() {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.source.open--
}

func (r *fakeReader) Read(ctx context.Context, read *dbaas.Read) dbaas.ReadResult {
	sql := read.Statements[0].SQL
	r.source.begin(sql)
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
	n, _ := fmt.Sscanf(sql, "busy %d%s", &d, &unit)
	if sql == "busy ?" {
		n, d = 2, time.Duration(read.Statements[0].Args[0].Int)
	}
	if n == 2 {
		for range d {
			r.pace()
			if ctx.Err() != nil {
				return dbaas.ReadResult{Code: dbaas.CodeTimeout, Message: "interrupted"}
			}
			r.source.work(1)
			<-time.After(time.Millisecond)
			r.source.work(-1)
		}
	}
	var size int
	if n, _ := fmt.Sscanf(sql, "large %d", &size); n == 1 {
		return dbaas.ReadResult{Body: make([]byte, size)}
	}
	if sql == "fail" {
		return dbaas.ReadResult{Code: dbaas.CodeInvalid, Message: "no such table"}
	}
	return dbaas.ReadResult{Body: []byte(sql)}
}

// fakeBus records which answers are sent, and when, and delivers messages.
type fakeBus struct {
	mu         sync.Mutex
	begin      time.Time
	replies    []sentReply
	err        error               // of Reply
	silent     time.Duration       // how long a confirm is waited for, in vain; none is sent once its context is over
	takes      time.Duration       // how long a Reply takes
	others     map[string]*fakeBus // receive the replies to their names
	held       []dbaas.WorkerID    // the workers that announced that they hold a message
	running    []int               // the reads that were announced as running alone, in order
	consumers  int
	deliveries chan mq.Delivery
}

type sentReply struct {
	wire.ReadReply
	at  time.Duration
	ttl time.Duration
	id  string
}

func newBus() *fakeBus { return &fakeBus{begin: time.Now(), deliveries: make(chan mq.Delivery)} }

func (b *fakeBus) Reply(ctx context.Context, to string, m mq.Message) error {
	if other := b.others[to]; other != nil {
		return other.Reply(ctx, to, m)
	}
	if b.takes > 0 {
		<-time.After(b.takes)
	}
	held, noHeld := wire.DecodeReadHeld(m.Body)
	if b.silent > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", mq.ErrUnavailable, ctx.Err())
		}
		wait.For(ctx, b.silent)
		return mq.ErrUnconfirmed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if noHeld == nil {
		b.held = append(b.held, held.Worker)
		if held.Running != nil {
			b.running = append(b.running, *held.Running)
		}
		return b.err
	}
	r, err := wire.DecodeReadReply(m.Body)
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

// holders returns the workers that announced that they hold a message.
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

// answers returns the answer to each read by its index, and when it was sent.
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

// fakeDelivery counts its acknowledgements and rejections.
type fakeDelivery struct {
	message         mq.Message
	redelivered     bool
	mu              sync.Mutex
	acked, rejected int
}

func (d *fakeDelivery) Message() mq.Message { return d.message }
func (d *fakeDelivery) Forget()             {}
func (d *fakeDelivery) Redelivered() bool   { return d.redelivered }

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
func request(tb testing.TB, reads ...dbaas.Read) (*fakeDelivery, wire.ReadRequest) {
	tb.Helper()
	req := wire.ReadRequest{Reads: reads}
	body, err := req.Encode(time.Now())
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
