// Package slave answers reads: it consumes readQ, runs the reads of a message on the worker's replica, and sends the
// answers to the caller's reply queue.
package slave

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
)

// prefetch is how many messages a slave may hold. A message is a whole batch, so a few keep the cores busy; more would
// wait here while another slave is idle.
const prefetch = 8

// Source is the part of the replica that this package needs. It is safe for concurrent use.
type Source interface {
	// Applied returns the replica's position, and whether the replica may be read at all.
	Applied() (dbaas.Head, bool)
	// WaitApplied returns nil once the replica may be read and has applied want, otherwise ctx's error. If want has no
	// cluster, the replica may have any cluster.
	WaitApplied(ctx context.Context, want dbaas.Head) error
	// Reader returns a reader at the present position without waiting, or an error when the replica may not be read
	// now.
	Reader() (Reader, error)
	// Serving waits until the replica may be read. It returns a channel that is closed when the replica may no longer
	// be read, or ctx's error.
	Serving(ctx context.Context) (lost <-chan struct{}, err error)
}

// Reader is one read transaction. It is used by one goroutine at a time.
type Reader interface {
	// Cluster returns the cluster that Seq belongs to.
	Cluster() dbaas.ClusterID
	// Seq returns the position that every read of this Reader sees.
	Seq() dbaas.Seq
	// Pace registers pace. A long read calls it periodically on its own goroutine; pace may block.
	Pace(pace func())
	// Read runs one read until its deadline or the end of ctx.
	Read(ctx context.Context, r *dbaas.Read) dbaas.ReadResult
	// Close ends the transaction.
	Close()
}

// Replier is the part of the bus that sends answers. mq.Conn implements it.
type Replier interface {
	Reply(ctx context.Context, to string, m mq.Message) error
}

// Bus is the part of the bus that a Slave needs. mq.Conn implements it.
type Bus interface {
	Replier
	Consume(ctx context.Context, c mq.ConsumeConfig, handle func(mq.Delivery)) error
}

// Slave consumes readQ.
type Slave struct {
	bus    Bus
	source Source
	exec   *Executor
	log    *slog.Logger
}

// New returns a Slave whose reads run on exec.
func New(bus Bus, source Source, exec *Executor, log *slog.Logger) *Slave {
	return &Slave{bus: bus, source: source, exec: exec, log: log}
}

// Run consumes readQ while the replica may be read, and calls serving whenever that begins or ends. It returns nil
// after stop was closed and all pending reads were answered. When ctx ends, Run returns ctx's error and leaves the
// pending messages unacknowledged; the broker redelivers them. Any other error is an error of the bus.
func (s *Slave) Run(ctx context.Context, stop <-chan struct{}, serving func(bool)) error {
	var pending sync.WaitGroup
	defer pending.Wait()
	stopCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	pending.Go(func() {
		select {
		case <-stop:
			cancel()
		case <-stopCtx.Done():
		}
	})
	for stopCtx.Err() == nil {
		lost, err := s.source.Serving(stopCtx)
		if err != nil {
			break
		}
		serving(true)
		err = s.consume(ctx, stopCtx, lost, &pending)
		serving(false)
		if err != nil {
			return err
		}
	}
	pending.Wait()
	return ctx.Err()
}

// consume serves reads until lost is closed or stopCtx ends; then it returns nil.
func (s *Slave) consume(ctx, stopCtx context.Context, lost <-chan struct{}, pending *sync.WaitGroup) error {
	consumeCtx, cancel := context.WithCancel(stopCtx)
	defer cancel()
	pending.Go(func() {
		select {
		case <-lost: // let other slaves take the reads
			cancel()
		case <-consumeCtx.Done():
		}
	})
	err := s.bus.Consume(consumeCtx, mq.ConsumeConfig{Queue: mq.ReadQ, Prefetch: prefetch}, func(d mq.Delivery) {
		s.exec.vital.taking.Work()
		defer s.exec.vital.taking.Rest()
		req, err := wire.DecodeReadRequest(d.Message().Body, time.Now())
		if err != nil {
			s.exec.vital.taking.Wait(func() { s.reject(ctx, d, err) }) // the broker must confirm a copy
			return
		}
		pending.Go(func() { s.exec.Serve(ctx, d, req) })
	})
	if consumeCtx.Err() != nil {
		return nil
	}
	return fmt.Errorf("consume %s: %w", mq.ReadQ, err)
}

func (s *Slave) reject(ctx context.Context, d mq.Delivery, err error) {
	s.exec.Stats.Rejected.Add(1)
	s.log.WarnContext(ctx, "message rejected", logkey.Queue, mq.ReadQ, logkey.Error, err)
	if err := d.Reject(); err != nil {
		s.log.DebugContext(ctx, "reject came too late", logkey.Queue, mq.ReadQ, logkey.Error, err)
	}
}

// Config configures an Executor. Zero values mean the defaults.
type Config struct {
	// Worker is the id of the worker that answers.
	Worker dbaas.WorkerID
	Source Source
	Bus    Replier
	Log    *slog.Logger
	// Fast bounds how many read transactions run at the same time, apart from slow ones. Default: the number of cores,
	// since a read only uses CPU.
	Fast int
	// Slow is the number of slow slots: it bounds how many runs continue although a read took longer than slowAfter. Each
	// has a connection of its own. Default 16.
	Slow int
	// AnswerBytes bounds the total size of the answers that are rendered but not sent. A read whose answer exceeds the
	// bound is refused, but a single answer always has room. While answers are sent, they take up to three times that
	// memory. Default DefaultAnswerBytes.
	AnswerBytes int64
}

// DefaultAnswerBytes has room for the largest answer and some others.
const DefaultAnswerBytes = 96 << 20

const (
	defaultSlow = 16
	// slowAfter is how long one read may delay the rest of its message: 1000 point reads.
	slowAfter = 5 * time.Millisecond
	// maxWait is the deadline of a read that came without one, so that no read waits for ever.
	maxWait = 30 * time.Second
)
