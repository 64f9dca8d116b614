package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
	"rideshare/internal/workerapi"
	"rideshare/worker/master"
	"rideshare/worker/replica"
	"rideshare/worker/slave"
)

// serve serves one assigned role after another until drainCtx ends. It returns nil once all pending work was answered, or
// ErrLeadershipLost. The caller handles the end of abortCtx.
func (w *Worker) serve(abortCtx, drainCtx context.Context) (err error) {
	work, end := context.WithCancel(abortCtx)
	var pending sync.WaitGroup
	defer func() {
		if err != nil {
			end()
		}
		pending.Wait()
		end()
	}()
	for turn := 0; ; {
		var a workerapi.Assignment
		if a, turn, err = w.take(drainCtx, turn); err != nil {
			return nil // drainCtx ended: not an error
		}
		p, over := w.phase(work, drainCtx, turn, &pending)
		if a.Role == dbaas.RoleSlave {
			err = w.serveReads(p, a)
		} else {
			err = w.serveWrites(p)
		}
		over()
		if err != nil || drainCtx.Err() != nil {
			return err
		}
	}
}

// phase is the time during which a worker has one role.
type phase struct {
	turn int
	// ctx ends when all work must be dropped. taking ends when the role changes or the worker must leave.
	ctx, taking context.Context
	// pending counts the work that continues after the phase: answers to messages that were already taken.
	pending *sync.WaitGroup
}

// phase starts the phase of a turn. The returned function ends it.
func (w *Worker) phase(ctx, drainCtx context.Context, turn int, pending *sync.WaitGroup) (phase, context.CancelFunc) {
	taking, end := context.WithCancel(drainCtx)
	pending.Go(func() {
		for taking.Err() == nil {
			w.mu.Lock()
			now, turned := w.turn, w.turned.Next()
			w.mu.Unlock()
			if now != turn {
				end()
				return
			}
			select {
			case <-turned:
			case <-taking.Done():
			}
		}
	})
	return phase{turn: turn, ctx: ctx, taking: taking, pending: pending}, end
}

// unlessOver returns err while the phase lasts. After its end an error is expected, and unlessOver returns nil.
func (p phase) unlessOver(err error) error {
	if p.taking.Err() == nil {
		return err
	}
	return nil
}

// busWait is how often a worker that becomes a slave checks whether it is connected to the bus.
const busWait = 10 * time.Millisecond

// serveReads serves reads as a slave until the phase ends. It may return before the pending reads are answered: the
// writes of the next phase must not wait for a slow read.
func (w *Worker) serveReads(p phase, a workerapi.Assignment) error {
	// Register only once the worker can serve reads.
	if err := w.replica.WaitApplied(p.taking, dbaas.Head{}); err != nil {
		return p.unlessOver(err)
	}
	for !w.config.Bus.State().Connected {
		if !wait.For(p.taking, busWait) {
			return p.unlessOver(p.taking.Err())
		}
	}
	failpoint.Hit(failpoint.WorkerBeforeRegister)
	w.registrar.announce(w.member(a))
	if _, err := w.registrar.registered(p.taking, a.Role, 0); err != nil {
		return p.unlessOver(err)
	}
	failpoint.Hit(failpoint.WorkerBeforeConsume)
	s := slave.New(w.config.Bus, source{w.replica}, w.exec, w.config.Log)
	ended := make(chan error, 1)
	p.pending.Go(func() { ended <- s.Run(p.ctx, p.taking.Done(), w.setServing(dbaas.RoleSlave)) })
	select {
	case <-p.taking.Done():
		return nil
	case err := <-ended:
		if err != nil && p.ctx.Err() == nil {
			return fmt.Errorf("serve reads: %w", err)
		}
		return nil
	}
}

// serveWrites serves writes as the master. It returns when the phase has ended and every pending write was answered, or
// immediately when the leadership is lost.
func (w *Worker) serveWrites(p phase) error {
	m, ok := w.newMaster(p.turn)
	if !ok {
		return nil // the next turn has begun already
	}
	failpoint.Hit(failpoint.WorkerEpochTaken)
	if err := m.CatchUp(p.taking); err != nil {
		return p.unlessOver(fmt.Errorf("%w: %w", ErrLeadershipLost, err))
	}
	failpoint.Hit(failpoint.WorkerBeforeRegister)
	if !w.announceLeadership(p.turn) {
		return nil
	}
	suspended, err := w.registrar.registered(p.taking, dbaas.RoleMaster, m.Epoch())
	if err != nil {
		return p.unlessOver(fmt.Errorf("%w: %w", ErrLeadershipLost, err))
	}
	return w.write(p, m, suspended)
}

// write runs m until the phase has ended and m has no pending writes, or until m loses its leadership.
func (w *Worker) write(p phase, m *master.Master, suspended <-chan struct{}) error {
	writing, end := context.WithCancelCause(p.ctx)
	guarded, quiet := context.WithCancel(writing)
	defer quiet()
	go w.guardLeadership(guarded, suspended, func() { end(errSuspended) })
	w.config.Log.InfoContext(p.ctx, "leadership begun", logkey.Epoch, m.Epoch())
	failpoint.Hit(failpoint.WorkerBeforeConsume)
	serving := w.setServing(dbaas.RoleMaster)
	serving(true)
	defer serving(false)
	ended := make(chan error, 1)
	p.pending.Go(func() {
		ended <- m.Run(writing, p.taking.Done())
		end(nil)
	})
	select {
	case <-m.Drained():
		w.config.Log.InfoContext(p.ctx, "leadership ended", logkey.Epoch, m.Epoch())
		return nil
	case err := <-ended:
		if err != nil && p.ctx.Err() == nil {
			return fmt.Errorf("%w: %w", ErrLeadershipLost, err)
		}
		return nil
	}
}

// holdFor is how long a master with a suspended session continues after its assignment was last repeated. It covers a
// few passes of the control loop, which take longer while the coordinator is unreachable.
const holdFor = 10 * time.Second

// guardLeadership calls end when the session with the master's registration is suspended. The session decides that by
// the worker's own clock, so the master ends before any other process can see the session end and choose another
// master.
//
// There is one exception. If the control loop cannot reach the coordinator either, it chooses no other master and
// repeats the same assignment. While these repeats arrive, writes continue, and the worker registers again once the
// coordinator is back. If other processes can reach the coordinator after all and choose another master, persdb rejects
// this epoch as soon as it has issued a newer one.
func (w *Worker) guardLeadership(ctx context.Context, suspended <-chan struct{}, end func()) {
	for {
		select {
		case <-suspended:
		case <-ctx.Done():
			return
		}
		var held bool
		if suspended, held = w.hold(ctx); !held {
			if ctx.Err() == nil {
				end()
			}
			return
		}
	}
}

// hold waits until the master is registered again and returns the Suspended channel of the new session. held is false if
// the assignment was not repeated in time, or ctx has ended.
func (w *Worker) hold(ctx context.Context) (suspended <-chan struct{}, held bool) {
	for ctx.Err() == nil {
		w.mu.Lock()
		left, epoch := holdFor-time.Since(w.renewed), w.assigned.Epoch
		w.mu.Unlock()
		if left <= 0 {
			return nil, false
		}
		waiting, cancel := context.WithTimeout(ctx, left)
		suspended, err := w.registrar.registered(waiting, dbaas.RoleMaster, epoch)
		cancel()
		if err == nil {
			return suspended, true
		}
	}
	return nil, false
}

// newMaster creates the master of a turn. From then on Assign can advance its epoch. newMaster reports false if the
// turn is over.
func (w *Worker) newMaster(turn int) (*master.Master, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turn != turn {
		return nil, false
	}
	c := w.config.Writes
	c.Store, c.Bus, c.Log, c.Stats = w.store, w.config.Bus, w.config.Log, &w.writes
	c.Pulse = &w.pulse
	c.Replica, c.Reads = w.replica, w.exec
	c.Epoch = w.assigned.Epoch
	w.master = master.New(c)
	return w.master, true
}

// announceLeadership asks the registrar to register the master of a turn. It reports false if the turn is over.
func (w *Worker) announceLeadership(turn int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turn != turn {
		return false
	}
	w.registrar.announce(w.member(w.assigned))
	return true
}

// setServing returns a function that records whether role is being served.
func (w *Worker) setServing(role dbaas.Role) func(on bool) {
	return func(on bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.serving[role] = on
	}
}

func (w *Worker) member(a workerapi.Assignment) coord.Member {
	return coord.Member{PID: a.PID, Host: a.Host, Worker: w.config.ID, Role: a.Role, Epoch: a.Epoch, Control: w.config.Control}
}

// source adapts the replica to slave.Source.
type source struct{ *replica.Replica }

func (s source) Reader() (slave.Reader, error) {
	r, err := s.Replica.Reader()
	if err != nil {
		return nil, err // not r: a nil *Reader in an interface is not nil
	}
	return r, nil
}
