// Package master writes: it consumes writeQ and the dead letters, gathers the operations that are
// waiting into one commit at persdb, broadcasts the entry on syncQ, and answers.
// It serves linearizable reads too, which come on linearQ. DESIGN.md beside this file has the reasons.
package master

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/frame"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
)

const (
	// prefetch is how many messages a master may hold. A message is a whole batch, and four keep persdb busy. One with a
	// slow operation waits here for its turn; eight of these keep nothing at the broker. Each may be as large as the
	// largest request: a worker's limit of memory has room for all (deploy/stack.sh).
	prefetch = 12
	// maxBatchOps bounds one commit: at 256 operations the cost of the commit itself is
	// 5 % of it (docs: performance, "Commit and apply"), more only adds delay.
	maxBatchOps = 512
	// maxBatchBytes bounds one commit's requests; one message that is larger goes alone.
	maxBatchBytes = 1 << 20
	// finishing is how many commits may wait to be broadcast and answered while the next
	// one is under way.
	finishing = 2

	defaultCommitTimeout = 10 * time.Second
	defaultSendTimeout   = time.Second
	defaultBackoff       = 10 * time.Millisecond
	maxBackoff           = 500 * time.Millisecond
)

// Store is what this package needs of persdb.
type Store interface {
	Commit(ctx context.Context, by dbaas.Mastership, ops []dbaas.Operation) (dbaas.Commit, error)
	Head(ctx context.Context) (dbaas.Head, error)
}

// Bus is what this package needs of the bus. mq.Conn implements it.
type Bus interface {
	Consume(ctx context.Context, c mq.ConsumeConfig, handle func(mq.Delivery)) error
	Broadcast(ctx context.Context, body []byte, onItsWay func()) error
	Reply(ctx context.Context, to string, m mq.Message) error
}

// Replica is what this package needs of the worker's own replica.
type Replica interface {
	// Offer hands a committed entry over, as syncQ does.
	Offer(e dbaas.Entry)
	// WaitApplied returns nil once the replica has applied want, else ctx's error.
	WaitApplied(ctx context.Context, want dbaas.Head) error
}

// Reads runs the reads of a message, answers and acknowledges it. *slave.Executor implements it.
type Reads interface {
	Serve(ctx context.Context, d mq.Delivery, req frame.ReadRequest)
}

// Config says how a Master works. The interfaces, Log and Epoch are required.
type Config struct {
	Store   Store
	Bus     Bus
	Replica Replica
	Reads   Reads
	Log     *slog.Logger
	Epoch   dbaas.Epoch
	// Stats, if set, goes on counting where an earlier Master stopped.
	Stats *Stats
	// CommitTimeout is how long one commit call may take before its outcome counts
	// as unknown and it is tried again. Default 10 s, twice the longest statement that persdb lets run.
	CommitTimeout time.Duration
	// SendTimeout bounds one broadcast and one reply. Default 1 s.
	SendTimeout time.Duration
	// Backoff is the first wait after a commit that persdb did not take; it doubles up to 500 ms. Default 10 ms.
	Backoff time.Duration
}

// Master holds one mastership.
type Master struct {
	Config

	done  chan finished // commits on their way to be broadcast and answered, in order
	quiet chan struct{} // see Quiet
	// confirming is the linearizable reads that have yet to confirm the mastership.
	confirming sync.WaitGroup

	// Of the committing goroutine: the operations of commits whose answer was lost, and whether it is the side lane's turn.
	lost  map[dbaas.OpID]struct{}
	aside bool

	mu    sync.Mutex // guards the fields below
	hand  []*message // messages with operations that have no answer yet, in order of arrival
	epoch dbaas.Epoch
	// cluster is the one that CatchUp met; another one ends the mastership.
	cluster dbaas.ClusterID
	wake    chan struct{} // has a token when hand grew
}

// New returns a Master of one mastership.
func New(c Config) *Master {
	c.CommitTimeout = cmp.Or(c.CommitTimeout, defaultCommitTimeout)
	c.SendTimeout = cmp.Or(c.SendTimeout, defaultSendTimeout)
	c.Backoff = cmp.Or(c.Backoff, defaultBackoff)
	if c.Stats == nil {
		c.Stats = &Stats{}
	}
	return &Master{
		Config: c,
		epoch:  c.Epoch,
		done:   make(chan finished, finishing),
		quiet:  make(chan struct{}),
		wake:   make(chan struct{}, 1),
		lost:   map[dbaas.OpID]struct{}{},
	}
}

// CatchUp returns nil once the replica has reached persdb's head of now. It tries until
// ctx ends and returns its error, or dbaas.ErrStaleEpoch when a newer master exists.
func (m *Master) CatchUp(ctx context.Context) error {
	backoff := m.newBackoff()
	for {
		head, err := m.Store.Head(ctx)
		switch {
		case err == nil && head.Epoch > m.Mastership():
			return dbaas.ErrStaleEpoch
		case err == nil:
			m.mu.Lock()
			m.cluster = head.Cluster
			m.mu.Unlock()
			return m.Replica.WaitApplied(ctx, head)
		}
		m.Log.DebugContext(ctx, "head not read", logkey.Error, err)
		if err := backoff.wait(ctx, time.Time{}); err != nil {
			return err
		}
	}
}

// Mastership returns the epoch that the next commit uses.
func (m *Master) Mastership() dbaas.Epoch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// by is what the next commit is made under.
func (m *Master) by() dbaas.Mastership {
	m.mu.Lock()
	defer m.mu.Unlock()
	return dbaas.Mastership{Cluster: m.cluster, Epoch: m.epoch}
}

// Raise goes on with a newer epoch: the same worker was chosen again. An older one changes nothing.
func (m *Master) Raise(epoch dbaas.Epoch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch = max(m.epoch, epoch)
}

// Quiet is closed once stop was closed and this mastership has no further use: every operation in
// hand was answered, nothing more is taken, and reads that are still in hand have confirmed
// the mastership already. Another master may begin from then on, though Run goes on until
// those reads are answered. It stays open when Run ends otherwise.
func (m *Master) Quiet() <-chan struct{} { return m.quiet }

// Run consumes writeQ until stop is closed and everything in hand was answered; then it returns nil.
//
// It returns dbaas.ErrStaleEpoch at once when persdb knows a newer master, and ctx's error
// when ctx ends. What is in hand then is neither answered nor acknowledged: the
// caller must close the bus connection, so that the broker gives it to the new master.
func (m *Master) Run(ctx context.Context, stop <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	consumeCtx, endConsume := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer endConsume()
	defer cancel(nil)
	parts.Go(func() {
		select {
		case <-stop:
			endConsume()
		case <-ctx.Done():
		}
	})
	var reads sync.WaitGroup // linearizable reads in hand
	var consumers sync.WaitGroup
	consume := func(q mq.Queue, prefetch int, handle func(mq.Delivery)) {
		consumers.Go(func() {
			err := m.Bus.Consume(consumeCtx, mq.ConsumeConfig{Queue: q, Prefetch: prefetch}, handle)
			if consumeCtx.Err() == nil {
				cancel(fmt.Errorf("consume %s: %w", q, err))
			}
		})
	}
	consume(mq.WriteQ, prefetch, func(d mq.Delivery) { m.receive(ctx, d) })
	consume(mq.LinearQ, readPrefetch, func(d mq.Delivery) { m.receiveRead(ctx, cancel, d, &reads) })
	consume(mq.DeadQ, deadPrefetch, func(d mq.Delivery) { m.receiveDead(ctx, d) })
	consumed := make(chan struct{})
	parts.Go(func() {
		consumers.Wait()
		close(consumed)
	})
	finisher := make(chan struct{})
	parts.Go(func() {
		defer close(finisher)
		m.finish(ctx)
	})
	err := m.commitAll(ctx, consumed)
	close(m.done)
	if err != nil {
		cancel(err)
	}
	<-finisher
	<-consumed // no read comes any more, also after an error: those in hand can be waited for
	m.confirming.Wait()
	if ctx.Err() == nil {
		close(m.quiet)
	}
	reads.Wait()
	return context.Cause(ctx)
}

// receive takes one delivery of operations into hand.
func (m *Master) receive(ctx context.Context, d mq.Delivery) {
	failpoint.Hit(failpoint.MasterTaken)
	req, err := frame.DecodeWriteRequest(d.Message().Body, time.Now())
	if err != nil {
		m.Log.WarnContext(ctx, "message rejected", logkey.Queue, mq.WriteQ, logkey.Error, err)
		m.reject(ctx, d)
		return
	}
	m.put(newMessage(d, req))
}

func (m *Master) put(msg *message) {
	m.Stats.Messages.Add(1)
	m.mu.Lock()
	if msg.delivery.Redelivered() { // what a lost connection brought can no longer be acknowledged
		m.hand = slices.DeleteFunc(m.hand, msg.replaces)
	}
	m.hand = append(m.hand, msg)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
