// Package master serves writes: it consumes writeQ and the dead letters, gathers the pending operations into one commit
// at persdb, broadcasts the entry on syncQ, and answers. It also serves the linearizable reads of linearQ. DESIGN.md
// gives the reasons.
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
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
)

const (
	// prefetch is how many messages a master may hold. A message is a whole batch, and four keep persdb busy. The other
	// eight are for messages that wait here with a slow operation, so that they do not block the queue. Each message may
	// be as large as the largest request; a worker's memory limit has room for all of them (deploy/stack.sh).
	prefetch = 12
	// maxBatchOps bounds one commit. At 256 operations the fixed cost of a commit was measured as 5 % of its time, so
	// larger batches only add delay.
	maxBatchOps = 512
	// maxBatchBytes bounds one commit's requests; a single larger message is committed alone.
	maxBatchBytes = 1 << 20
	// askTime bounds one request of CatchUp to persdb, and askFor all of them. A worker that does not reach persdb cannot serve
	// writes, but another worker may reach it: persdb answered a moment ago, when the epoch was claimed.
	askTime = 2 * time.Second
	askFor  = 5 * time.Second
	// finishing is how many finished commits may wait to be broadcast and answered while the next commit is in flight.
	finishing = 2

	defaultCommitTimeout = 10 * time.Second
	// defaultSendTimeout leaves time for a second attempt in a broker cluster: the missing confirm, the connection to another
	// node, and the confirm there. A shorter timeout would end a reply before its second attempt.
	defaultSendTimeout = 4 * time.Second
	defaultBackoff     = 10 * time.Millisecond
	maxBackoff         = 500 * time.Millisecond
)

// Store is the part of persdb that this package needs.
type Store interface {
	Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error)
	Head(ctx context.Context) (dbaas.Head, error)
}

// Bus is the part of the bus that this package needs. mq.Conn implements it.
type Bus interface {
	Consume(ctx context.Context, c mq.ConsumeConfig, handle func(mq.Delivery)) error
	Broadcast(ctx context.Context, body []byte, onSent func()) error
	Reply(ctx context.Context, to string, m mq.Message) error
}

// Replica is the part of the worker's own replica that this package needs.
type Replica interface {
	// Offer passes the frame of a committed entry to the replica, as syncQ does.
	Offer(frame []byte)
	// WaitApplied returns nil once the replica has applied want, else ctx's error.
	WaitApplied(ctx context.Context, want dbaas.Head) error
}

// Reads runs and answers the reads of a message, and acknowledges the message. *slave.Executor implements it.
type Reads interface {
	Serve(ctx context.Context, d mq.Delivery, req wire.ReadRequest)
}

// Config configures a Master. The interfaces, Log and Epoch are required.
type Config struct {
	Store   Store
	Bus     Bus
	Replica Replica
	Reads   Reads
	Log     *slog.Logger
	Epoch   dbaas.Epoch
	// Stats, if set, continues the counts of an earlier Master. Pulse, if set, shows the progress of this Master.
	Stats *Stats
	Pulse *Pulse
	// CommitTimeout is how long one commit call may take before its outcome counts as unknown and it is retried.
	// Default 10 s, more than twice the longest time that persdb can be set to allow an operation (4 s).
	CommitTimeout time.Duration
	// SendTimeout bounds one broadcast and one reply. Default 4 s.
	SendTimeout time.Duration
	// Backoff is the first wait after a commit that persdb did not accept; it doubles up to 500 ms. Default 10 ms.
	Backoff time.Duration
}

// Master serves writes during one leadership.
type Master struct {
	Config

	done    chan finished // commits to be broadcast and answered, in order
	drained chan struct{} // see Drained
	// confirming counts the linearizable reads that have yet to confirm the leadership.
	confirming sync.WaitGroup

	// lost and aside belong to the committing goroutine. lost holds the operations of commits whose answer was lost;
	// aside reports whether the side lane is next.
	lost  map[dbaas.OpID]struct{}
	aside bool

	mu      sync.Mutex // guards the fields below
	pending []*message // messages with operations that have no answer yet, in order of arrival
	epoch   dbaas.Epoch
	// cluster is the cluster that CatchUp found; a different cluster ends the leadership.
	cluster dbaas.ClusterID
	wake    wait.Token // pending has grown
}

// New returns a Master for one leadership.
func New(c Config) *Master {
	c.CommitTimeout = cmp.Or(c.CommitTimeout, defaultCommitTimeout)
	c.SendTimeout = cmp.Or(c.SendTimeout, defaultSendTimeout)
	c.Backoff = cmp.Or(c.Backoff, defaultBackoff)
	c.Stats = cmp.Or(c.Stats, &Stats{})
	c.Pulse = cmp.Or(c.Pulse, &Pulse{})
	return &Master{
		Config:  c,
		epoch:   c.Epoch,
		done:    make(chan finished, finishing),
		drained: make(chan struct{}),
		wake:    wait.NewToken(),
		lost:    map[dbaas.OpID]struct{}{},
	}
}

// CatchUp returns nil once the replica has reached persdb's current head, or ctx's error. It returns dbaas.ErrStaleEpoch when
// a newer master exists, and another error when persdb does not answer for askFor.
func (m *Master) CatchUp(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	backoff := m.newBackoff()
	for {
		head, err := m.ask(asking)
		switch {
		case err == nil && head.Epoch > m.Epoch():
			return dbaas.ErrStaleEpoch
		case err == nil:
			m.mu.Lock()
			m.cluster = head.Cluster
			m.mu.Unlock()
			return m.Replica.WaitApplied(ctx, head)
		}
		m.Log.DebugContext(ctx, "head not read", logkey.Error, err)
		if !backoff.Wait(asking) {
			return cmp.Or(context.Cause(ctx), fmt.Errorf("persdb does not answer: %w", err))
		}
	}
}

// ask returns persdb's head, or an error after askTime.
func (m *Master) ask(ctx context.Context) (dbaas.Head, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return m.Store.Head(ctx)
}

// Epoch returns the epoch that the next commit uses.
func (m *Master) Epoch() dbaas.Epoch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// by returns the cluster and epoch of the next commit.
func (m *Master) by() dbaas.Leadership {
	m.mu.Lock()
	defer m.mu.Unlock()
	return dbaas.Leadership{Cluster: m.cluster, Epoch: m.epoch}
}

// AdvanceEpoch continues with a newer epoch, because the same worker was chosen again. An older epoch changes nothing.
func (m *Master) AdvanceEpoch(epoch dbaas.Epoch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch = max(m.epoch, epoch)
}

// Drained returns a channel that is closed once stop was closed and this leadership is no longer needed: every pending
// operation was answered, no more messages are taken, and all pending reads have confirmed the leadership. From then on
// another master may begin, although Run continues until those reads are answered. If Run ends in any other way, the
// channel stays open.
func (m *Master) Drained() <-chan struct{} { return m.drained }

// Run consumes writeQ until stop is closed and all pending work was answered; then it returns nil.
//
// Run returns dbaas.ErrStaleEpoch immediately when persdb knows a newer master, and ctx's error when ctx ends. The
// pending messages are then neither answered nor acknowledged: the caller must close the bus connection, so that the
// broker redelivers them to the new master.
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
	var reads sync.WaitGroup // pending linearizable reads
	var consumers sync.WaitGroup
	consume := func(q mq.Queue, prefetch int, handle func(mq.Delivery)) {
		consumers.Go(func() {
			err := m.Bus.Consume(consumeCtx, mq.ConsumeConfig{Queue: q, Prefetch: prefetch}, m.taken(handle))
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
	<-consumed // no more reads arrive, even after an error, so the pending reads can be awaited
	m.confirming.Wait()
	if ctx.Err() == nil {
		close(m.drained)
	}
	reads.Wait()
	return context.Cause(ctx)
}

// taken wraps handle so that the pulse counts it as work of the part "taking".
func (m *Master) taken(handle func(mq.Delivery)) func(mq.Delivery) {
	return func(d mq.Delivery) {
		m.Pulse.taking.Work()
		defer m.Pulse.taking.Rest()
		handle(d)
	}
}

// receive takes one delivery of operations.
func (m *Master) receive(ctx context.Context, d mq.Delivery) {
	failpoint.Hit(failpoint.MasterTaken)
	req, err := wire.DecodeWriteRequest(d.Message().Body, time.Now())
	if err != nil {
		m.Log.WarnContext(ctx, "message rejected", logkey.Queue, mq.WriteQ, logkey.Error, err)
		m.reject(ctx, d)
		return
	}
	m.put(newMessage(d, req))
}

// put adds a message. It replaces a pending copy of the same message. Usually the older delivery was lost with its
// connection. But a message whose confirm was lost is published again, so both deliveries may belong to this connection,
// and neither is marked as redelivered. Each copy counts its deadline from its own arrival: the older copy must not be
// answered as not done while the newer one may still run. persdb may have the older copy's operations, so the newer copy
// is answered as not done only after persdb has said so. put acknowledges the older delivery: otherwise it
// would occupy a slot of the prefetch, and after the end of the leadership keep writeQ from the next master. The newer
// delivery stays unacknowledged until its operations are answered.
func (m *Master) put(msg *message) {
	m.Stats.Messages.Add(1)
	var older []*settlement
	m.mu.Lock()
	m.pending = slices.DeleteFunc(m.pending, func(old *message) bool {
		is := msg.replaces(old)
		if is {
			older = append(older, old.end)
		}
		return is
	})
	for i := range msg.ops {
		msg.ops[i].maybe = msg.ops[i].maybe || len(older) > 0
	}
	m.pending = append(m.pending, msg)
	m.mu.Unlock()
	for _, end := range older {
		if end.claim(replaced) {
			_ = end.delivery.Ack() // it fails if the connection is lost, and then nothing is left to settle
		}
	}
	m.wake.Give()
}
