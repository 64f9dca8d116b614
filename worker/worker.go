// Package worker implements a worker process: it prepares a replica, receives a role through its control API, registers
// with the coordinator, and serves readQ as a slave or writeQ as the master, until it is drained, killed or loses its
// leadership.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/wait"
	"rideshare/internal/workerapi"
	"rideshare/worker/master"
	"rideshare/worker/replica"
	"rideshare/worker/slave"
	"rideshare/worker/workercontrol"
)

// Errors that Run returns.
var (
	// ErrLeadershipLost means that a newer master exists, or that the coordination session is suspended. It wraps the
	// reason. The broker redelivers the pending messages.
	ErrLeadershipLost = errors.New("leadership lost")
	// ErrKilled means that Kill was called.
	ErrKilled = errors.New("worker killed")
	// errSuspended is a possible reason of ErrLeadershipLost.
	errSuspended = errors.New("coordination session suspended")
	// errDrainTimeout means that the pending work did not end within Config.DrainTimeout. Run logs it and returns nil.
	errDrainTimeout = errors.New("drain took too long")
)

// Store is the part of persdb that a worker needs.
type Store interface {
	// Commit makes one commit; see persdb/commitlog.
	Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error)
	Head(ctx context.Context) (dbaas.Head, error)
	Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error)
	Snapshot(ctx context.Context) (*dbaas.Snapshot, error)
	HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error)
}

// Crasher is optionally implemented by Bus, Coordinator and Store. Crash drops the connection without closing it in
// order, as the death of the process would. Kill calls Crash; a Bus that does not implement Crasher is closed instead.
type Crasher interface {
	Crash()
}

// Config configures a Worker. ID, Dir, Control, Bus, Coordinator, Store and Log are required; zero values of the other
// fields mean their defaults.
type Config struct {
	ID dbaas.WorkerID
	// Dir holds the replica's file. Files left there by an earlier Worker are removed.
	Dir string
	// Control is the base URL at which other processes reach Handler.
	Control string
	// Bus is owned by the worker: Run closes it.
	Bus         mq.Conn
	Coordinator coord.Coordinator
	Store       Store
	Log         *slog.Logger
	// DrainTimeout bounds how long a leaving worker finishes its pending work. Default 5 s, the longest call.
	DrainTimeout time.Duration
	// HandOver bounds how long a master continues to write after Run's ctx has ended, while it waits for another worker
	// to become master. Default 2 s, a few times what a running control loop needs.
	HandOver time.Duration
	// RegisterRetry is the wait between attempts to register. Default 200 ms.
	RegisterRetry time.Duration
	// RegisterRefresh is how often the registered position is updated. Default 3 s.
	RegisterRefresh time.Duration
	// Replica, Reads and Writes configure the parts. New fills in the fields that the worker itself provides.
	Replica replica.Config
	Reads   slave.Config
	Writes  master.Config
}

const (
	defaultDrainTimeout    = 5 * time.Second
	defaultHandOver        = 2 * time.Second
	defaultRegisterRetry   = 200 * time.Millisecond
	defaultRegisterRefresh = 3 * time.Second
)

// Worker is one run of a worker, from start to end. It is safe for concurrent use; Run must be called only once.
type Worker struct {
	config    Config
	store     *watchedStore // Config.Store
	replica   *replica.Replica
	exec      *slave.Executor
	registrar *registrar
	writes    master.Stats
	pulse     master.Pulse
	kill      sync.Once
	killing   atomic.Bool   // Kill has begun
	killed    chan struct{} // closed when Kill has dropped all connections

	mu       sync.Mutex // guards the fields below
	assigned workerapi.Assignment
	cluster  dbaas.ClusterID // the cluster that newest belongs to
	newest   dbaas.Epoch     // the newest epoch that this worker was ever assigned
	renewed  time.Time       // when the present assignment was last repeated
	turn     int             // how often the role has changed
	yields   int             // how often Yield was called
	taken    int             // the turn that serve has reached; it has finished all earlier turns
	turned   wait.Signal     // notified at each change of turn or taken
	drain    chan struct{}   // closed by Drain
	draining bool
	leaving  bool // draining, or waiting for another worker to become master before draining
	serving  map[dbaas.Role]bool
	master   *master.Master
}

// New returns a Worker. Its Handler can be served immediately; Run starts the worker.
func New(c Config) *Worker {
	c.DrainTimeout = cmp.Or(c.DrainTimeout, defaultDrainTimeout)
	c.HandOver = cmp.Or(c.HandOver, defaultHandOver)
	c.RegisterRetry = cmp.Or(c.RegisterRetry, defaultRegisterRetry)
	c.RegisterRefresh = cmp.Or(c.RegisterRefresh, defaultRegisterRefresh)
	c.Log = c.Log.With(logkey.Worker, c.ID)
	store := &watchedStore{Store: c.Store}
	c.Replica.Dir, c.Replica.Store, c.Replica.Log = c.Dir, store, c.Log
	w := &Worker{
		config:  c,
		store:   store,
		killed:  make(chan struct{}),
		drain:   make(chan struct{}),
		serving: map[dbaas.Role]bool{},
	}
	w.registrar = newRegistrar(&c, func() dbaas.Seq {
		head, _ := w.replica.Applied()
		return head.Seq
	})
	c.Replica.Ahead = w.registrar.ahead
	w.replica = replica.New(c.Replica)
	c.Reads.Worker, c.Reads.Source, c.Reads.Bus, c.Reads.Log = c.ID, source{w.replica}, c.Bus, c.Log
	w.exec = slave.NewExecutor(c.Reads)
	return w
}

// Handler returns the control API.
func (w *Worker) Handler() http.Handler { return workercontrol.Handler(w) }

// Kill stops the worker as the death of its process would: the worker no longer answers, acknowledges or unregisters
// anything. Run returns soon afterwards. Kill is safe to call twice.
func (w *Worker) Kill() {
	w.kill.Do(func() {
		// Drop the outgoing connections before any part of the worker notices the end. Otherwise a part could still
		// acknowledge a message that it no longer answers.
		w.killing.Store(true)
		defer close(w.killed)
		if s, ok := w.config.Bus.(Crasher); ok {
			s.Crash()
		} else if err := w.config.Bus.Close(); err != nil {
			w.config.Log.Debug("bus not closed", logkey.Error, err)
		}
		if s, ok := w.config.Coordinator.(Crasher); ok {
			s.Crash()
		}
		if s, ok := w.config.Store.(Crasher); ok {
			s.Crash()
		}
	})
}

// Run runs the worker until it ends, and returns
//   - nil if ctx ended or Drain was called, and all pending work was answered or, after Config.DrainTimeout, left to
//     the broker,
//   - ErrLeadershipLost or ErrKilled, as documented there,
//   - any other error if the bus was closed or the directory cannot be used.
//
// A Worker cannot be run again; the caller creates a new one. When ctx ends, a master first waits up to Config.HandOver
// to be replaced; Drain does not wait.
//
// A master that loses its leadership ends instead of waiting for another role: the next master receives the writeQ
// messages that this master holds only when its connection is closed, and a new Worker starts without any old state. A
// master that is demoted to slave has no pending writes, and Run continues.
func (w *Worker) Run(ctx context.Context) error {
	w.config.Log.InfoContext(ctx, "worker started", logkey.Addr, w.config.Control)
	abortCtx, cut := context.WithCancelCause(context.WithoutCancel(ctx)) // ends everything immediately
	defer cut(nil)
	drainCtx, stop := context.WithCancel(abortCtx) // ends the consumption of new work
	defer stop()
	leaving, leave := context.WithCancel(context.WithoutCancel(ctx)) // ends the registration, as the last step
	defer leave()

	var parts, registration sync.WaitGroup
	parts.Go(func() { w.watch(ctx, abortCtx, stop, cut) })
	parts.Go(func() { w.part(abortCtx, cut, "replica", w.replica.Run) })
	parts.Go(func() {
		w.part(abortCtx, cut, "subscription", func(ctx context.Context) error {
			return w.config.Bus.Subscribe(ctx, w.replica.Subscriber())
		})
	})
	parts.Go(func() { w.watchCutOff(abortCtx) })
	parts.Go(func() { w.watchReplica(abortCtx) })
	registration.Go(func() { w.registrar.run(leaving) })

	err := w.serve(abortCtx, drainCtx)
	if err == nil {
		err = context.Cause(abortCtx)
	}
	if w.isKilled() {
		err = ErrKilled // whatever failed first, Kill caused it
	}
	cut(err)
	if closed := w.config.Bus.Close(); closed != nil {
		w.config.Log.DebugContext(ctx, "bus not closed", logkey.Error, closed)
	}
	w.registrar.goodbye(!w.isKilled())
	leave()
	parts.Wait()
	w.exec.Wait()
	registration.Wait()
	if errors.Is(err, errDrainTimeout) { // the worker was asked to end, and nothing is lost
		w.config.Log.WarnContext(ctx, "left with pending messages, which the broker redelivers", logkey.Error, err)
		err = nil
	}
	w.ended(ctx, err)
	return err
}

func (w *Worker) ended(ctx context.Context, err error) {
	if err != nil && !errors.Is(err, ErrKilled) {
		w.config.Log.ErrorContext(ctx, "worker ended", logkey.Error, err)
		return
	}
	w.config.Log.InfoContext(ctx, "worker ended")
}

// watch cancels drainCtx (by stop) when the worker must leave, and abortCtx (by cut) when it must drop all work.
func (w *Worker) watch(ctx, abortCtx context.Context, stop context.CancelFunc, cut context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
		w.awaitSuccessor(abortCtx)
	case <-w.drain:
	case <-w.killed:
	case <-abortCtx.Done():
	}
	switch {
	case w.isKilled():
		cut(ErrKilled)
		return
	case abortCtx.Err() != nil:
		return
	}
	w.Drain() // from here on Assign accepts no role
	stop()
	timer := time.NewTimer(w.config.DrainTimeout)
	defer timer.Stop()
	select {
	case <-timer.C:
		cut(errDrainTimeout)
	case <-w.killed:
		cut(ErrKilled)
	case <-abortCtx.Done():
	}
}

// cutOffLook is how often watchCutOff checks the connections to the bus and persdb.
const cutOffLook = 500 * time.Millisecond

// watchCutOff records in the registration whether the worker has lost the bus or persdb, so that the control loop sees it: a live
// session at the coordinator does not show that the worker can reach the others.
func (w *Worker) watchCutOff(ctx context.Context) {
	ticker := time.NewTicker(cutOffLook)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.registrar.cutOff(!w.config.Bus.State().Connected, w.store.lost())
		case <-ctx.Done():
			return
		}
	}
}

// watchReplica records in the registration whether the replica is unavailable, and whether it is being rebuilt. Without a replica the
// worker stays registered but serves no reads.
func (w *Worker) watchReplica(ctx context.Context) {
	if _, err := w.replica.Serving(ctx); err != nil {
		return // before the first replica the worker is not registered
	}
	for {
		readable, following, changed := w.replica.Mode()
		w.registrar.replica(!readable, !following)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// part runs one essential part of the worker. If the part ends early, part cancels abortCtx.
func (w *Worker) part(abortCtx context.Context, cut context.CancelCauseFunc, name string, run func(context.Context) error) {
	if err := run(abortCtx); abortCtx.Err() == nil {
		cut(fmt.Errorf("%s ended: %w", name, err))
	}
}

// isKilled reports whether Kill was called. If Kill has begun, isKilled waits until it has dropped all connections: a
// part that ended because the first connection was dropped must not shut down in order.
func (w *Worker) isKilled() bool {
	if !w.killing.Load() {
		return false
	}
	<-w.killed
	return true
}
