// Package worker is one life of a worker: it prepares a replica, takes a role
// through its control API, registers, and serves readQ as a slave or writeQ as the
// master, until it is drained, killed or loses its mastership.
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
	"rideshare/internal/workerapi"
	"rideshare/worker/control"
	"rideshare/worker/master"
	"rideshare/worker/replica"
	"rideshare/worker/slave"
)

// Errors that Run returns.
var (
	// ErrMastershipLost: a newer master exists, or the coordination session is in
	// doubt. It wraps the reason. What was in hand goes back to the broker.
	ErrMastershipLost = errors.New("mastership lost")
	// ErrKilled: Kill was called.
	ErrKilled = errors.New("worker killed")
	// errDoubt is a reason of ErrMastershipLost.
	errDoubt = errors.New("coordination session in doubt")
	// errDrainTimeout: what was in hand did not end in time.
	errDrainTimeout = errors.New("drain took too long")
)

// Store is what a worker needs of persdb.
type Store interface {
	// Commit makes one commit; see persdb/commitlog.
	Commit(ctx context.Context, by dbaas.Mastership, ops []dbaas.Operation) (dbaas.Commit, error)
	Head(ctx context.Context) (dbaas.Head, error)
	Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error)
	Snapshot(ctx context.Context) (*dbaas.Snapshot, error)
	HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error)
}

// Severer is what Kill looks for in Bus, Coordinator and Store: cut this party off
// without a goodbye, as the death of its process would. A Bus that is none is closed.
type Severer interface {
	Sever()
}

// Config says what a worker works with. ID, Dir, Control, Bus, Coordinator, Store
// and Log are required; zero values of the others mean the defaults.
type Config struct {
	ID dbaas.WorkerID
	// Dir is for the replica's file. What is in it from an earlier life is removed.
	Dir string
	// Control is the base URL under which others reach Handler.
	Control string
	// Bus belongs to the worker: Run closes it.
	Bus         mq.Conn
	Coordinator coord.Coordinator
	Store       Store
	Log         *slog.Logger
	// DrainTimeout is how long a worker that is to leave goes on with what is in hand. Default 5 s, the longest call.
	DrainTimeout time.Duration
	// HandOver is how long a master whose Run is to end goes on writing until another worker is made
	// master in its place. Default 2 s, a few times what a running control loop needs.
	HandOver time.Duration
	// RegisterRetry is the wait between tries to register. Default 200 ms.
	RegisterRetry time.Duration
	// RegisterRefresh is how often the registered position is brought up to date. Default 3 s.
	RegisterRefresh time.Duration
	// Replica, Reads and Writes tune the parts; what the worker itself provides is filled in.
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

// Worker is one life of a worker. It is safe for concurrent use; Run is called once.
type Worker struct {
	config    Config
	replica   *replica.Replica
	exec      *slave.Executor
	registrar *registrar
	writes    master.Stats
	kill      sync.Once
	killing   atomic.Bool   // Kill has begun
	killed    chan struct{} // closed when Kill has cut the worker off

	mu       sync.Mutex // guards the fields below
	assigned workerapi.Assignment
	cluster  dbaas.ClusterID // that newest belongs to
	newest   dbaas.Epoch     // of the masterships that it ever had
	renewed  time.Time       // when the same assignment came again
	turn     int             // how often the role has changed
	taken    int             // the turn that serve is at: it has nothing to do with earlier ones any more
	turned   chan struct{}   // closed and made anew at each change of turn and taken
	drain    chan struct{}   // closed by Drain
	draining bool
	leaving  bool // draining, or about to once another worker is master
	serving  map[dbaas.Role]bool
	master   *master.Master
}

// New returns a Worker. Handler can be served at once; Run makes it live.
func New(c Config) *Worker {
	c.DrainTimeout = cmp.Or(c.DrainTimeout, defaultDrainTimeout)
	c.HandOver = cmp.Or(c.HandOver, defaultHandOver)
	c.RegisterRetry = cmp.Or(c.RegisterRetry, defaultRegisterRetry)
	c.RegisterRefresh = cmp.Or(c.RegisterRefresh, defaultRegisterRefresh)
	c.Log = c.Log.With(logkey.Worker, c.ID)
	c.Replica.Dir, c.Replica.Store, c.Replica.Log = c.Dir, c.Store, c.Log
	w := &Worker{
		config:  c,
		killed:  make(chan struct{}),
		turned:  make(chan struct{}),
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
func (w *Worker) Handler() http.Handler { return control.Handler(w, w.config.Log) }

// Kill cuts the worker off without a goodbye, as the death of its process would:
// nothing is answered, acknowledged or unregistered any more. Run returns soon. It is safe to call twice.
func (w *Worker) Kill() {
	w.kill.Do(func() {
		// The ways out are cut before anything in here learns of the end: else it
		// could still acknowledge what it does not answer any more.
		w.killing.Store(true)
		defer close(w.killed)
		if s, ok := w.config.Bus.(Severer); ok {
			s.Sever()
		} else if err := w.config.Bus.Close(); err != nil {
			w.config.Log.Debug("bus not closed", logkey.Error, err)
		}
		if s, ok := w.config.Coordinator.(Severer); ok {
			s.Sever()
		}
		if s, ok := w.config.Store.(Severer); ok {
			s.Sever()
		}
	})
}

// Run lives. It returns nil when ctx ended or Drain was called and everything
// in hand was answered or, after Config.DrainTimeout, left to the broker, ErrMastershipLost or ErrKilled as they say, and any other
// error when the bus was closed or the directory cannot be used. A worker never lives twice: whoever wants another starts a new one.
// When ctx ends a master first waits to be replaced, for Config.HandOver; Drain does not.
//
// A master that loses its mastership ends here, rather than waiting for another role:
// what it holds of writeQ goes to the next master only when its connection is gone,
// and a new life has no trace of the old one. One that is made a slave has nothing in hand, and goes on.
func (w *Worker) Run(ctx context.Context) error {
	w.config.Log.InfoContext(ctx, "worker started", logkey.Addr, w.config.Control)
	hard, cut := context.WithCancelCause(context.WithoutCancel(ctx)) // ends everything at once
	defer cut(nil)
	soft, stop := context.WithCancel(hard) // ends the taking of work
	defer stop()
	leaving, leave := context.WithCancel(context.WithoutCancel(ctx)) // ends the registration, last
	defer leave()

	var parts, registration sync.WaitGroup
	parts.Go(func() { w.watch(ctx, hard, stop, cut) })
	parts.Go(func() { w.part(hard, cut, "replica", w.replica.Run) })
	parts.Go(func() {
		w.part(hard, cut, "subscription", func(ctx context.Context) error {
			return w.config.Bus.Subscribe(ctx, w.replica.Subscriber())
		})
	})
	parts.Go(func() { w.watchBus(hard) })
	parts.Go(func() { w.watchReplica(hard) })
	registration.Go(func() { w.registrar.run(leaving) })

	err := w.serve(hard, soft)
	if err == nil {
		err = context.Cause(hard)
	}
	if w.isKilled() {
		err = ErrKilled // whatever broke first because of it
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
	if errors.Is(err, errDrainTimeout) { // it was told to end, and nothing is lost
		w.config.Log.WarnContext(ctx, "left with messages in hand, which the broker delivers again", logkey.Error, err)
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

// watch turns the reasons to leave into the end of soft, and those to drop
// everything into the end of hard.
func (w *Worker) watch(ctx, hard context.Context, stop context.CancelFunc, cut context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
		w.awaitSuccessor(hard)
	case <-w.drain:
	case <-w.killed:
	case <-hard.Done():
	}
	switch {
	case w.isKilled():
		cut(ErrKilled)
		return
	case hard.Err() != nil:
		return
	}
	w.Drain() // from here on no role is accepted
	stop()
	timer := time.NewTimer(w.config.DrainTimeout)
	defer timer.Stop()
	select {
	case <-timer.C:
		cut(errDrainTimeout)
	case <-w.killed:
		cut(ErrKilled)
	case <-hard.Done():
	}
}

// busLook is how often a worker looks whether it has the bus.
const busLook = 500 * time.Millisecond

// watchBus tells the control loop, by the registration, when the worker has lost the bus: a session at the coordinator that
// lives says nothing of the way to the broker.
func (w *Worker) watchBus(ctx context.Context) {
	ticker := time.NewTicker(busLook)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.registrar.bus(!w.config.Bus.State().Connected)
		case <-ctx.Done():
			return
		}
	}
}

// watchReplica notes in the registration while the replica is away: a worker
// stays registered then, and serves no read.
func (w *Worker) watchReplica(ctx context.Context) {
	for {
		lost, err := w.replica.Serving(ctx)
		if err != nil {
			return
		}
		w.registrar.replica(false)
		select {
		case <-lost:
			w.registrar.replica(true)
		case <-ctx.Done():
			return
		}
	}
}

// part runs one part of the worker, without which it cannot live.
func (w *Worker) part(hard context.Context, cut context.CancelCauseFunc, name string, run func(context.Context) error) {
	if err := run(hard); hard.Err() == nil {
		cut(fmt.Errorf("%s ended: %w", name, err))
	}
}

// isKilled reports whether Kill was called. Once Kill has begun it waits until the worker is cut off: parts that the first cut has
// ended must not take the way of an orderly end.
func (w *Worker) isKilled() bool {
	if !w.killing.Load() {
		return false
	}
	<-w.killed
	return true
}
