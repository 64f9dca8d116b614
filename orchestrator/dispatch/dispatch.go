// Package dispatch is the orchestrator's hot path: it takes single reads and
// writes, lets those that arrive while others are in flight travel together as
// one message, and hands every caller its own answer at its own deadline.
//
// DESIGN.md beside this file has the picture and the reasons.
package dispatch

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
)

// Caller is what this package needs for request and reply. *mq.Caller
// implements it.
type Caller interface {
	// Call publishes body to q and hands each reply to onReply until that returns
	// true; see mq.Caller for what its errors mean.
	Call(ctx context.Context, q mq.Queue, body []byte, onReply func(body []byte) bool) error
}

// Publisher is what this package needs for writes that nobody waits for. mq.Conn
// implements it.
type Publisher interface {
	Publish(ctx context.Context, q mq.Queue, m mq.Message) error
	Durable() bool
}

// Availability tells who serves, as the control loop last knew it; until it knows
// anything, nobody serves since the start. Its methods are called for every request
// and must not block.
type Availability interface {
	// Slaves returns how many slaves serve reads and since when there are so many.
	Slaves() (n int, since time.Time)
	// Master reports whether a master serves writes and since when that is so.
	Master() (present bool, since time.Time)
	// Gone reports whether a worker that lived at since has surely ended.
	Gone(worker dbaas.WorkerID, since time.Time) bool
}

// Config is what New needs. The zero value of a setting is its default.
type Config struct {
	Caller       Caller
	Publisher    Publisher
	Availability Availability
	// Head asks persdb for its head. Without it what this Dispatcher has acknowledged counts as all there is.
	Head func(ctx context.Context) (dbaas.Head, error)
	// Timeout is the deadline of a request that brings none: 5 s.
	Timeout time.Duration
	// QueueLimit is how many requests of a class may wait to be sent: 4096. More
	// are refused at once, since they would only wait for their deadline.
	QueueLimit int
	// RequestBytes bounds the requests that wait or are in flight, of all classes together: 128 MiB, two of the largest, since the broker holds each
	// more than once and stops all publishers when its memory is short. More
	// are refused at once. AnswerBytes bounds, in the same way, the answers above 64 KiB to reads whose
	// contexts have not ended: 256 MiB.
	RequestBytes, AnswerBytes int64
	// MaxBatch is how many requests a message holds at most: 256, and MaxBytes
	// about how many bytes: 1 MiB. A request that is bigger travels alone.
	MaxBatch int
	MaxBytes int
	// MaxMessages is how many messages of a class may be unanswered at once: 128. Messages that a worker
	// holds for itself do not count.
	MaxMessages int
	// StaleAfter is when an unanswered message of reads no longer keeps others from being
	// sent: 5 ms, a few times what a full message of point reads takes. WriteStaleAfter is that of
	// writes: 50 ms, since the one master takes one commit at a time, and more and smaller messages
	// would only cost more while they wait for it. Each message of writes that is stale already adds as much, up to half a second.
	StaleAfter, WriteStaleAfter time.Duration
	// ReadGrace and WriteGrace are how long no slave (1 s), no master (2 s) may
	// be there before requests fail at once. A fail-over is usually over before.
	ReadGrace, WriteGrace time.Duration
	// HeldCheck is how often is looked whether the worker that holds a message still lives: 100 ms.
	HeldCheck time.Duration
	// ResendPause is the pause before a message whose fate is not known is sent a
	// second time: 50 ms. Negative means that none is.
	ResendPause time.Duration
	// Unbatched sends one message a request, for comparison in benchmarks.
	Unbatched bool
	// Observe, if set, is called once for each request that has ended, and ObserveMessage
	// for each message sent, with the number of requests in it. Neither may block.
	Observe        func(c Call)
	ObserveMessage func(lane string, requests int)
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

func (c *Config) setDefaults() {
	setDefault(&c.Timeout, 5*time.Second)
	setDefault(&c.QueueLimit, 4096)
	setDefault(&c.RequestBytes, 128<<20)
	setDefault(&c.AnswerBytes, 256<<20)
	setDefault(&c.MaxBatch, 256)
	setDefault(&c.MaxBytes, 1<<20)
	setDefault(&c.MaxMessages, 128)
	setDefault(&c.StaleAfter, 5*time.Millisecond)
	setDefault(&c.WriteStaleAfter, 50*time.Millisecond)
	setDefault(&c.ReadGrace, time.Second)
	setDefault(&c.WriteGrace, 2*time.Second)
	setDefault(&c.HeldCheck, 100*time.Millisecond)
	setDefault(&c.ResendPause, 50*time.Millisecond)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Unbatched {
		c.MaxBatch = 1
		c.MaxMessages = max(c.MaxMessages, 1024)
	}
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
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

// New returns a Dispatcher. Close ends it.
func New(cfg Config) *Dispatcher {
	cfg.setDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	d := &Dispatcher{cfg: cfg, seed: maphash.MakeSeed(), heads: newHeads(ctx, cfg.Head), cancel: cancel, classes: newClasses()}
	d.requests.limit, d.answers.limit = cfg.RequestBytes, cfg.AnswerBytes
	d.points = newLane(ctx, "point", d, d.readCodec(mq.ReadQ, pointWindows, d.slaveGate))
	d.ranges = newLane(ctx, "range", d, d.readCodec(mq.ReadQ, rangeWindows, d.slaveGate))
	d.linears = newLane(ctx, "linearizable", d, d.readCodec(mq.LinearQ, masterWindows, d.masterGate))
	d.writes = newLane(ctx, "write", d, d.writeCodec())
	if cfg.Head == nil {
		close(d.heads.known)
	} else {
		d.following.Go(func() { d.heads.follow(ctx) })
	}
	return d
}

// SeenSeq returns the highest position among the writes that were answered here, or that persdb's head was
// seen at; see AwaitSeen for what holds after a start.
func (d *Dispatcher) SeenSeq() dbaas.Seq { return dbaas.Seq(d.heads.seen.Load()) }

// Cluster returns the cluster id of the database, zero while it was never seen.
func (d *Dispatcher) Cluster() dbaas.ClusterID {
	if id := d.heads.cluster.Load(); id != nil {
		return *id
	}
	return dbaas.ClusterID{}
}

// SawSeq says that a client was told of a write at seq by another way than Write's answer.
func (d *Dispatcher) SawSeq(seq dbaas.Seq) { d.heads.saw(seq) }

// Close refuses new requests, waits until those that wait or are in flight have
// their answers, or ctx ends, and then ends what is left: reads with
// CodeUnavailable, writes that were handed over with CodeUnknown. It returns
// ctx's error if it had to.
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

// notTaken reports whether err of a Call or Publish says that the broker surely
// does not have the message.
func notTaken(err error) bool {
	return errors.Is(err, mq.ErrUnavailable) || errors.Is(err, mq.ErrUnroutable) ||
		errors.Is(err, mq.ErrRefused) || errors.Is(err, mq.ErrClosed)
}
