// Package dispatch is the orchestrator's hot path. It takes single reads and writes, batches
// those that arrive while others are in flight into one message, and returns to each caller its
// own answer by its own deadline.
//
// DESIGN.md in this folder has the picture and the reasons.
package dispatch

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/orchestrator/admission"
)

// Caller is what this package needs for request and reply. *mq.Caller
// implements it.
type Caller interface {
	// Call publishes body to q and passes each reply to onReply until onReply returns
	// true. See mq.Caller for the meaning of its errors.
	Call(ctx context.Context, q mq.Queue, body []byte, onReply func(body []byte, repeated bool) bool) error
}

// Publisher is what this package needs for writes whose callers do not wait for the
// answer. mq.Conn implements it.
type Publisher interface {
	Publish(ctx context.Context, q mq.Queue, m mq.Message) error
	Durable() bool
}

// Availability reports which workers serve, as last known by the control loop. Before its first
// pass it reports that no worker has served since the start. Its methods are called for every
// request and must not block.
type Availability interface {
	// Slaves returns how many slaves serve reads and, if none does, since when.
	Slaves() (n int, since time.Time)
	// Master reports whether a master serves writes and, if none does, since when.
	Master() (present bool, since time.Time)
	// Gone reports whether a worker that was alive at since is confirmed dead.
	Gone(worker dbaas.WorkerID, since time.Time) bool
}

// Config is what New needs. The zero value of a setting is its default.
type Config struct {
	Caller       Caller
	Publisher    Publisher
	Availability Availability
	// Head asks persdb for its head. If Head is nil, the dispatcher assumes that it acknowledged every write itself.
	Head func(ctx context.Context) (dbaas.Head, error)
	// Looked, if set, is called with each head that persdb returned and the time at which persdb was asked. persdb is
	// asked twice a second, and when a read needs its head. Looked must not block.
	Looked func(head dbaas.Head, asked time.Time)
	// Gate, if set, returns an error while no message may be sent to a queue. It is called for each request, and
	// periodically while requests wait. It replaces ReadGrace and WriteGrace. It must not block.
	Gate func(q mq.Queue, now time.Time) error
	// Timeout is the deadline of a request that has none: 5 s.
	Timeout time.Duration
	// ReadLimit is how many reads of a class may wait or be in flight, WriteLimit how many writes: 1024. In a full lane
	// a new request is refused immediately, or displaces a waiting request of a user with more of them: further
	// requests would only wait until their deadlines.
	ReadLimit, WriteLimit admission.LaneSetting
	// UserWeights has the weights of the users whose weight is not 1. Users share a lane in proportion to their
	// weights.
	UserWeights map[string]int
	// RequestBytes bounds the total size of all requests that wait or are in flight: 128 MiB, which is two requests of
	// the largest size. The limit protects the broker, which holds each request more than once and blocks all
	// publishers when its memory runs low. Further requests are refused immediately. AnswerBytes does the same for
	// answers above 64 KiB to reads whose contexts have not ended: 256 MiB.
	RequestBytes, AnswerBytes int64
	// MaxBatch is the maximum number of requests in a message: 256. MaxBytes is its approximate
	// maximum size: 1 MiB. A larger request is sent alone.
	MaxBatch int
	MaxBytes int
	// MaxMessages is how many messages of a class may be unanswered at the same time: 128. A message does not count
	// once a worker has announced that it holds it (wire.ReadHeld).
	MaxMessages int
	// StaleAfter: once a message of reads has been unanswered for this long, it no longer keeps others from being sent.
	// 5 ms, a few times what a full message of point reads takes. WriteStaleAfter is the same for writes: 50 ms, since
	// the single master runs one commit at a time, and more, smaller messages would only cost more. Each message of
	// writes that is already stale adds another WriteStaleAfter, up to half a second in total.
	StaleAfter, WriteStaleAfter time.Duration
	// ReadGrace is how long there may be no slave before reads fail immediately: 1 s. WriteGrace is the same for the
	// master: 2 s. A fail-over is usually over before that.
	ReadGrace, WriteGrace time.Duration
	// HeldCheck is how often the dispatcher checks whether the worker that holds a message is still alive: 100 ms.
	HeldCheck time.Duration
	// ResendPause is the pause before a message whose outcome is not known is sent a
	// second time: 50 ms. If ResendPause is negative, no message is sent again.
	ResendPause time.Duration
	// Unbatched sends one message per request, for comparison in benchmarks.
	Unbatched bool
	// Observe, if set, is called once for each request that has ended, and ObserveMessage, if set,
	// for each message sent, with the number of requests in it. Neither may block.
	Observe        func(c Call)
	ObserveMessage func(lane string, requests int)
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

func (c *Config) setDefaults() {
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.RequestBytes = cmp.Or(c.RequestBytes, 128<<20)
	c.AnswerBytes = cmp.Or(c.AnswerBytes, 256<<20)
	c.MaxBatch = cmp.Or(c.MaxBatch, 256)
	c.MaxBytes = cmp.Or(c.MaxBytes, 1<<20)
	c.MaxMessages = cmp.Or(c.MaxMessages, 128)
	c.StaleAfter = cmp.Or(c.StaleAfter, 5*time.Millisecond)
	c.WriteStaleAfter = cmp.Or(c.WriteStaleAfter, 50*time.Millisecond)
	c.ReadGrace = cmp.Or(c.ReadGrace, time.Second)
	c.WriteGrace = cmp.Or(c.WriteGrace, 2*time.Second)
	c.HeldCheck = cmp.Or(c.HeldCheck, 100*time.Millisecond)
	c.ResendPause = cmp.Or(c.ResendPause, 50*time.Millisecond)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Unbatched {
		c.MaxBatch = 1
		c.MaxMessages = max(c.MaxMessages, 1024)
	}
}

// Dispatcher sends reads and writes to the workers. It is safe for concurrent use.
type Dispatcher struct {
	cfg      Config
	seed     maphash.Seed
	heads    *heads
	classes  classes
	requests budget // of requests that wait or are in flight
	answers  budget // of large answers

	points    *lane[dbaas.Read, dbaas.ReadResult]
	ranges    *lane[dbaas.Read, dbaas.ReadResult]
	linears   *lane[dbaas.Read, dbaas.ReadResult]
	writes    *lane[dbaas.Operation, dbaas.OperationResult]
	cancel    context.CancelFunc
	following sync.WaitGroup
}

// New returns a Dispatcher. The caller closes it.
func New(cfg Config) *Dispatcher {
	cfg.setDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	d := &Dispatcher{cfg: cfg, seed: maphash.MakeSeed(), heads: newHeads(ctx, cfg), cancel: cancel, classes: newClasses()}
	d.requests.limit, d.answers.limit = cfg.RequestBytes, cfg.AnswerBytes
	d.points = newLane(ctx, "point", d, d.readCodec(mq.ReadQ, pointWindows, d.slaveGate))
	d.ranges = newLane(ctx, "range", d, d.readCodec(mq.ReadQ, rangeWindows, d.slaveGate))
	d.linears = newLane(ctx, "linearizable", d, d.readCodec(mq.LinearQ, masterWindows, d.masterGate))
	d.writes = newLane(ctx, "write", d, d.writeCodec())
	if cfg.Head == nil {
		close(d.heads.known)
	} else {
		d.following.Go(func() { d.heads.follow(ctx) })
		d.following.Go(func() { d.followMaster(ctx) })
	}
	return d
}

// UseLanes sets the limits and the user weights of all lanes. A lane that holds more requests than its new limit keeps
// them.
func (d *Dispatcher) UseLanes(lanes admission.Lanes) {
	d.points.use(lanes.Read, lanes.Weights)
	d.ranges.use(lanes.Read, lanes.Weights)
	d.linears.use(lanes.Read, lanes.Weights)
	d.writes.use(lanes.Write, lanes.Weights)
}

// SeenSeq returns the highest position that this dispatcher knows, from the writes that it answered and from persdb's
// head as last seen. Shortly after a start that may be too low: see AwaitSeen.
func (d *Dispatcher) SeenSeq() dbaas.Seq { return dbaas.Seq(d.heads.seen.Load()) }

// Cluster returns the cluster id of the database, or zero if it is not known yet.
func (d *Dispatcher) Cluster() dbaas.ClusterID {
	if id := d.heads.cluster.Load(); id != nil {
		return *id
	}
	return dbaas.ClusterID{}
}

// SawSeq records that a client has learned of a write at seq other than from the result of Write.
func (d *Dispatcher) SawSeq(seq dbaas.Seq) { d.heads.saw(seq) }

// Close refuses new requests and waits until all waiting and in-flight requests have
// their answers. If ctx ends first, Close ends the remaining requests, reads with
// CodeUnavailable and writes that were handed over with CodeUnknown, and returns ctx's error.
func (d *Dispatcher) Close(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends with the last window, at the latest after cancel.
		defer close(done)
		d.points.drain()
		d.ranges.drain()
		d.linears.drain()
		d.writes.drain()
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	d.cancel()
	<-done
	d.following.Wait()
	return err
}

// notTaken reports whether err, returned by Call or Publish, means that the broker certainly
// does not have the message.
func notTaken(err error) bool {
	return errors.Is(err, mq.ErrUnavailable) || errors.Is(err, mq.ErrUnroutable) ||
		errors.Is(err, mq.ErrRefused) || errors.Is(err, mq.ErrClosed)
}

// ended returns the error of a request that ends without an answer. cause determines its Reason.
func ended(code dbaas.Code, message string, cause error) *dbaas.Error {
	err := dbaas.WrapError(code, message, cause)
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		err.Reason = dbaas.ReasonDeadline
	case errors.Is(cause, mq.ErrUnroutable):
		err.Reason = dbaas.ReasonUnroutable
	case errors.Is(cause, mq.ErrRefused):
		err.Reason = dbaas.ReasonQueueFull
	case errors.Is(cause, mq.ErrUnavailable):
		err.Reason = dbaas.ReasonBroker
	}
	return err
}
