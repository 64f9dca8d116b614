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
	"rideshare/internal/workerapi"
	"rideshare/worker/master"
	"rideshare/worker/replica"
	"rideshare/worker/slave"
)

// serve takes roles until soft ends, and returns nil when everything in hand was answered, or ErrMastershipLost.
// hard's end is left to the caller.
func (w *Worker) serve(hard, soft context.Context) (err error) {
	work, end := context.WithCancel(hard)
	var inHand sync.WaitGroup
	defer func() {
		if err != nil {
			end()
		}
		inHand.Wait()
		end()
	}()
	for turn := 0; ; {
		var a workerapi.Assignment
		if a, turn, err = w.take(soft, turn); err != nil {
			return nil // soft ended: nothing went wrong
		}
		p, over := w.phase(work, soft, turn, &inHand)
		if a.Role == dbaas.RoleSlave {
			err = w.serveReads(p, a)
		} else {
			err = w.serveWrites(p)
		}
		over()
		if err != nil || soft.Err() != nil {
			return err
		}
	}
}

// phase is the time in one role.
type phase struct {
	turn int
	// ctx ends when everything is to be dropped, taking with the role or when the worker is to leave.
	ctx, taking context.Context
	// inHand is what goes on after the phase: the answers to what was taken.
	inHand *sync.WaitGroup
}

// phase begins the phase of a turn. The returned function ends it.
func (w *Worker) phase(ctx, soft context.Context, turn int, inHand *sync.WaitGroup) (phase, context.CancelFunc) {
	taking, end := context.WithCancel(soft)
	inHand.Go(func() {
		for taking.Err() == nil {
			w.mu.Lock()
			now, turned := w.turn, w.turned
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
	return phase{turn: turn, ctx: ctx, taking: taking, inHand: inHand}, end
}

// unlessOver returns err, unless the phase is over: then nothing went wrong.
func (p phase) unlessOver(err error) error {
	if p.taking.Err() == nil {
		return err
	}
	return nil
}

// serveReads is the time as a slave. What is in hand at its end is answered meanwhile:
// writes must not wait for a slow read.
func (w *Worker) serveReads(p phase, a workerapi.Assignment) error {
	// A worker is known to others only once it can be of use to them.
	if err := w.replica.WaitApplied(p.taking, dbaas.Head{}); err != nil {
		return p.unlessOver(err)
	}
	failpoint.Hit(failpoint.WorkerBeforeRegister)
	w.registrar.announce(w.member(a))
	if _, err := w.registrar.registered(p.taking, a.Role, 0); err != nil {
		return p.unlessOver(err)
	}
	failpoint.Hit(failpoint.WorkerBeforeConsume)
	s := slave.New(w.config.Bus, source{w.replica}, w.exec, w.config.Log)
	ended := make(chan error, 1)
	p.inHand.Go(func() { ended <- s.Run(p.ctx, p.taking.Done(), w.setServing(dbaas.RoleSlave)) })
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

// serveWrites is the time as the master. It ends with the phase, when every write in
// hand was answered, or at once when the mastership is lost.
func (w *Worker) serveWrites(p phase) error {
	m, ok := w.newMaster(p.turn)
	if !ok {
		return nil // it is the next one's turn already
	}
	failpoint.Hit(failpoint.WorkerEpochTaken)
	if err := m.CatchUp(p.taking); err != nil {
		return p.unlessOver(fmt.Errorf("%w: %w", ErrMastershipLost, err))
	}
	failpoint.Hit(failpoint.WorkerBeforeRegister)
	if !w.announceMastership(p.turn) {
		return nil
	}
	doubt, err := w.registrar.registered(p.taking, dbaas.RoleMaster, m.Mastership())
	if err != nil {
		return p.unlessOver(fmt.Errorf("%w: %w", ErrMastershipLost, err))
	}
	return w.write(p, m, doubt)
}

// write lets m work until it has nothing in hand after the end of the phase, or has lost its mastership.
func (w *Worker) write(p phase, m *master.Master, doubt <-chan struct{}) error {
	writing, end := context.WithCancelCause(p.ctx)
	guarded, quiet := context.WithCancel(writing)
	defer quiet()
	go w.guardMastership(guarded, doubt, func() { end(errDoubt) })
	w.config.Log.InfoContext(p.ctx, "mastership begun", logkey.Epoch, m.Mastership())
	failpoint.Hit(failpoint.WorkerBeforeConsume)
	serving := w.setServing(dbaas.RoleMaster)
	serving(true)
	defer serving(false)
	ended := make(chan error, 1)
	p.inHand.Go(func() {
		ended <- m.Run(writing, p.taking.Done())
		end(nil)
	})
	select {
	case <-m.Quiet():
		w.config.Log.InfoContext(p.ctx, "mastership ended", logkey.Epoch, m.Mastership())
		return nil
	case err := <-ended:
		if err != nil && p.ctx.Err() == nil {
			return fmt.Errorf("%w: %w", ErrMastershipLost, err)
		}
		return nil
	}
}

// holdFor is how long a renewed mastership outlives a session in doubt: a few
// passes of the control loop, each of which takes longer while the coordinator is away.
const holdFor = 10 * time.Second

// guardMastership calls end when the session with the master's registration is in doubt:
// by our own clock, before anybody can see the session end and choose another master.
//
// When the control loop cannot reach the coordinator either, nobody is chosen; it
// says so by assigning the same mastership again and again. As long as it does, writes go on,
// and the registration is made anew once the coordinator is back. Should it be
// wrong, since others can see the coordinator, persdb refuses this epoch as soon as there is another one.
func (w *Worker) guardMastership(ctx context.Context, doubt <-chan struct{}, end func()) {
	for {
		select {
		case <-doubt:
		case <-ctx.Done():
			return
		}
		var held bool
		if doubt, held = w.hold(ctx); !held {
			if ctx.Err() == nil {
				end()
			}
			return
		}
	}
}

// hold waits until the master is registered again and returns the doubt of the new
// session. It reports false when the mastership was not renewed in time.
func (w *Worker) hold(ctx context.Context) (doubt <-chan struct{}, held bool) {
	for ctx.Err() == nil {
		w.mu.Lock()
		left, epoch := holdFor-time.Since(w.renewed), w.assigned.Epoch
		w.mu.Unlock()
		if left <= 0 {
			return nil, false
		}
		waiting, cancel := context.WithTimeout(ctx, left)
		doubt, err := w.registrar.registered(waiting, dbaas.RoleMaster, epoch)
		cancel()
		if err == nil {
			return doubt, true
		}
	}
	return nil, false
}

// newMaster makes the master of a turn; Assign can raise its epoch from now on. It reports false if
// the turn is over.
func (w *Worker) newMaster(turn int) (*master.Master, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turn != turn {
		return nil, false
	}
	c := w.config.Writes
	c.Store, c.Bus, c.Log, c.Stats = w.config.Store, w.config.Bus, w.config.Log, &w.writes
	c.Replica, c.Reads = w.replica, w.exec
	c.Epoch = w.assigned.Epoch
	w.master = master.New(c)
	return w.master, true
}

// announceMastership has the master of a turn registered. It reports false if the turn is over.
func (w *Worker) announceMastership(turn int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turn != turn {
		return false
	}
	w.registrar.announce(w.member(w.assigned))
	return true
}

// setServing returns what notes whether role is being served.
func (w *Worker) setServing(role dbaas.Role) func(on bool) {
	return func(on bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.serving[role] = on
	}
}

func (w *Worker) member(a workerapi.Assignment) coord.Member {
	return coord.Member{PID: a.PID, Worker: w.config.ID, Role: a.Role, Epoch: a.Epoch, Control: w.config.Control}
}

// source is the replica as package slave needs it.
type source struct{ *replica.Replica }

func (s source) Reader() (slave.Reader, error) {
	r, err := s.Replica.Reader()
	if err != nil {
		return nil, err // not r: a nil *Reader in an interface is not nil
	}
	return r, nil
}
