package master_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
)

// fakeStore commits in memory, with persdb's de-duplication and fencing. The test can set functions that decide a
// commit's outcome.
type fakeStore struct {
	mu      sync.Mutex
	head    dbaas.Head
	known   map[dbaas.OpID]dbaas.OperationResult
	batches [][]dbaas.OpID // the operations of each call that reached the store
	// fail, if set, is called with each batch, before it is stored; an error is the answer.
	fail func(ops []dbaas.Operation) error
	// classify, if set, may decide the result of an unknown operation; if it returns false the operation is run.
	classify func(op dbaas.Operation, batch int) (dbaas.OperationResult, bool)
	// lose, if set, is called after a batch was stored; an error is the answer.
	lose func() error
	// frame, if set, is the frame of every entry.
	frame []byte
	took  time.Duration
	gone  error // of a persdb that cannot be reached
	// silent: Head is never answered.
	silent bool
}

// away is the error of an unreachable persdb.
var away = dbaas.WrapError(dbaas.CodeUnavailable, "persdb cannot be reached", dbaas.ErrUnreachable)

// asked returns the operations of each call so far that reached the store.
func (s *fakeStore) asked() [][]dbaas.OpID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

func (s *fakeStore) setAway(gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone = nil; gone {
		s.gone = away
	}
}

func newStore(epoch dbaas.Epoch) *fakeStore {
	return &fakeStore{head: dbaas.Head{Epoch: epoch}, known: map[dbaas.OpID]dbaas.OperationResult{}}
}

func (s *fakeStore) Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	if s.took > 0 {
		select {
		case <-time.After(s.took):
		case <-ctx.Done():
			return dbaas.Commit{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !by.Cluster.IsZero() && by.Cluster != s.head.Cluster {
		return dbaas.Commit{}, dbaas.Errorf(dbaas.CodeStaleEpoch, "the database is cluster %s", s.head.Cluster)
	}
	if by.Epoch < s.head.Epoch {
		return dbaas.Commit{}, dbaas.ErrStaleEpoch
	}
	if s.gone != nil {
		return dbaas.Commit{}, s.gone
	}
	if s.fail != nil {
		if err := s.fail(ops); err != nil {
			return dbaas.Commit{}, err
		}
	}
	var ids []dbaas.OpID
	var c dbaas.Commit
	for _, op := range ops {
		ids = append(ids, op.ID)
		r, ok := s.known[op.ID]
		switch {
		case ok:
		case !op.Deadline.IsZero() && !op.Deadline.After(time.Now()):
			r = dbaas.OperationResult{ID: op.ID, Code: dbaas.CodeUnavailable}
		default:
			r = s.run(op, len(ops), by.Epoch, &c)
		}
		c.Results = append(c.Results, r)
	}
	s.batches = append(s.batches, ids)
	if s.lose != nil {
		if err := s.lose(); err != nil {
			return dbaas.Commit{}, err
		}
	}
	return c, nil
}

// run runs an unknown operation.
func (s *fakeStore) run(op dbaas.Operation, batch int, epoch dbaas.Epoch, c *dbaas.Commit) dbaas.OperationResult {
	if s.classify != nil {
		if r, judged := s.classify(op, batch); judged {
			return r
		}
	}
	if c.Entry == nil {
		s.head.Seq++
		c.Entry = s.encoded(dbaas.Head{Cluster: s.head.Cluster, Seq: s.head.Seq, Epoch: epoch})
	}
	r := dbaas.OperationResult{ID: op.ID, Seq: s.head.Seq}
	if op.GiveUp != "" {
		r.Statements = []dbaas.StatementResult{{Code: dbaas.CodeUnavailable, Message: op.GiveUp}}
	}
	s.known[op.ID] = r
	return r
}

// encoded returns an entry without changes.
func (s *fakeStore) encoded(at dbaas.Head) *dbaas.EncodedEntry {
	frame, err := s.frame, error(nil)
	if frame == nil {
		frame, err = wire.EncodeEntry(dbaas.Entry{Cluster: at.Cluster, Seq: at.Seq, Epoch: at.Epoch})
	}
	if err != nil {
		panic(err) // it fits every frame.
	}
	return &dbaas.EncodedEntry{Head: at, Frame: frame}
}

// stored returns the stored result of an operation.
func (s *fakeStore) stored(id dbaas.OpID) (dbaas.OperationResult, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.known[id]
	return r, ok
}

func (s *fakeStore) Head(ctx context.Context) (dbaas.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return dbaas.Head{}, ctx.Err()
	}
	return s.head, s.gone
}

// fakeBus delivers messages and records what is sent, in order.
type fakeBus struct {
	deliveries chan mq.Delivery // of writeQ
	dead       chan mq.Delivery // of the dead letters
	linear     chan mq.Delivery // of linearQ
	hang       bool             // Broadcast does not send before its context ends
	slow       bool             // Broadcast sends immediately, but is not confirmed before its context ends

	mu      sync.Mutex
	begin   time.Time
	events  []string // "entry 1", "reply x", "ack x"
	frames  [][]byte // that were broadcast
	results map[dbaas.OpID]dbaas.OperationResult
	at      map[dbaas.OpID]time.Duration
	reads   []wire.ReadReply
}

func newBus() *fakeBus {
	return &fakeBus{
		deliveries: make(chan mq.Delivery, 100), linear: make(chan mq.Delivery, 100), dead: make(chan mq.Delivery, 100), begin: time.Now(),
		results: map[dbaas.OpID]dbaas.OperationResult{}, at: map[dbaas.OpID]time.Duration{},
	}
}

func (b *fakeBus) note(event string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, event)
}

// without returns all events except one.
func (b *fakeBus) without(event string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.events), func(e string) bool { return e == event })
}

func (b *fakeBus) Consume(ctx context.Context, c mq.ConsumeConfig, handle func(mq.Delivery)) error {
	from := b.deliveries
	switch c.Queue {
	case mq.LinearQ:
		from = b.linear
	case mq.DeadQ:
		from = b.dead
	case mq.ReadQ, mq.WriteQ:
	}
	for {
		select {
		case d := <-from:
			handle(d)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *fakeBus) Broadcast(ctx context.Context, body []byte, onSent func()) error {
	onSent = sync.OnceFunc(onSent)
	defer onSent()
	if b.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	b.mu.Lock()
	b.frames = append(b.frames, body)
	b.mu.Unlock()
	at, err := wire.CheckEntry(body)
	if err == nil {
		b.note("entry " + string(rune('0'+at.Seq)))
	}
	if b.slow {
		onSent()
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (b *fakeBus) Reply(_ context.Context, _ string, m mq.Message) error {
	b.note("reply " + m.ID)
	if r, err := wire.DecodeReadReply(m.Body); err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.reads = append(b.reads, r)
		return nil
	}
	r, err := wire.DecodeWriteReply(m.Body)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range r.Answers {
		b.results[a.Result.ID] = a.Result
		b.at[a.Result.ID] = time.Since(b.begin)
	}
	return nil
}

func (b *fakeBus) code(id dbaas.OpID) dbaas.Code {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.results[id]
	if !ok {
		return "no answer"
	}
	return r.Code
}

type fakeDelivery struct {
	bus         *fakeBus
	message     mq.Message
	kept        []byte // the body after Forget
	redelivered bool
	stale       bool
}

func (d *fakeDelivery) Message() mq.Message { return d.message }
func (d *fakeDelivery) Redelivered() bool   { return d.redelivered }
func (d *fakeDelivery) Forget()             { d.message.Body, d.kept = nil, d.message.Body }

func (d *fakeDelivery) Ack() error {
	if d.stale {
		return mq.ErrStale
	}
	d.bus.note("ack " + d.message.ID)
	return nil
}

func (d *fakeDelivery) Reject() error {
	d.bus.note("reject " + d.message.ID)
	d.bus.dead <- &fakeDelivery{bus: d.bus, message: mq.Message{Body: slices.Concat(d.message.Body, d.kept), ID: "dead " + d.message.ID}}
	return nil
}

// send puts a message with these operations into writeQ.
func (b *fakeBus) send(tb testing.TB, id string, ops ...dbaas.Operation) *fakeDelivery {
	tb.Helper()
	d := b.message(tb, id, ops...)
	b.deliveries <- d
	return d
}

func (b *fakeBus) message(tb testing.TB, id string, ops ...dbaas.Operation) *fakeDelivery {
	tb.Helper()
	body, err := wire.WriteRequest{Operations: ops}.Encode(time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	return &fakeDelivery{bus: b, message: mq.Message{Body: body, ID: id, ReplyTo: "caller"}}
}

func op(n byte, within time.Duration) dbaas.Operation {
	o := dbaas.Operation{ID: dbaas.OpID{n}, Statements: []dbaas.Statement{{SQL: "INSERT"}}}
	if within != 0 {
		o.Deadline = time.Now().Add(within)
	}
	return o
}

// fakeReplica records the entries it is offered; every position counts as applied once caughtUp is closed.
type fakeReplica struct {
	mu       sync.Mutex
	offered  []dbaas.Seq
	frames   [][]byte
	caughtUp chan struct{}
	stuck    <-chan struct{} // if set, Offer does not return before it is closed
}

func (r *fakeReplica) Offer(frame []byte) {
	if r.stuck != nil {
		<-r.stuck
	}
	at, err := wire.CheckEntry(frame)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frames = append(r.frames, frame)
	if err == nil {
		r.offered = append(r.offered, at.Seq)
	}
}

func (r *fakeReplica) WaitApplied(ctx context.Context, _ dbaas.Head) error {
	select {
	case <-r.caughtUp:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
