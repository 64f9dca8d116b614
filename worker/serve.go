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
	select {
	case <-w.assign:
	case <-soft.Done():
		return nil
	}
	reading, end := context.WithCancel(hard)
	var inHand sync.WaitGroup
	defer func() {
		if err != nil {
			end()
		}
		inHand.Wait()
		end()
	}()
	if a := w.assignment(); a.Role == dbaas.RoleSlave {
		if err := w.serveReads(reading, soft, a, &inHand); err != nil || soft.Err() != nil {
			return err
		}
	}
	return w.serveWrites(hard, soft)
}

// serveReads is the time as a slave. It ends with soft or with a promotion. What is in
// hand then is answered meanwhile, until ctx ends: writes must not wait for a slow read.
func (w *Worker) serveReads(ctx, soft context.Context, a workerapi.Assignment, inHand *sync.WaitGroup) error {
	phase, end := context.WithCancel(soft)
	defer end()
	inHand.Go(func() {
		select {
		case <-w.promote:
			end()
		case <-phase.Done():
		}
	})
	// A worker is known to others only once it can be of use to them.
	if err := w.replica.WaitApplied(phase, 0); err != nil {
		return nil // phase ended: nothing went wrong
	}
	failpoint.Hit(failpoint.WorkerBeforeRegister)
	w.registrar.announce(w.member(a))
	if _, err := w.registrar.registered(phase, a.Role, 0); err != nil {
		return nil // phase ended: nothing went wrong
	}
	failpoint.Hit(failpoint.WorkerBeforeConsume)
	s := slave.New(w.config.Bus, source{w.replica}, w.exec, w.config.Log)
	ended := make(chan error, 1)
	inHand.Go(func() { ended <- s.Run(ctx, phase.Done(), w.setServing(dbaas.RoleSlave)) })
	select {
	case <-phase.Done():
		return nil
	case err := <-ended:
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("serve reads: %w", err)
		}
		return nil
	}
}

// serveWrites is the time as the master. It ends with soft, when everything in
// hand was answered, or at once when the mastership is lost.
func (w *Worker) serveWrites(hard, soft context.Context) error {
	m := w.newMaster()
	failpoint.Hit(failpoint.WorkerEpochTaken)
	if err := m.CatchUp(soft); err != nil {
		if soft.Err() != nil {
			return nil
		}
		return fmt.Errorf("%w: %w", ErrMastershipLost, err)
	}
	failpoint.Hit(failpoint.WorkerBeforeRegister)
	w.registrar.announce(w.member(w.assignment()))
	doubt, err := w.registrar.registered(soft, dbaas.RoleMaster, m.Mastership())
	switch {
	case soft.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", ErrMastershipLost, err)
	}
	writing, end := context.WithCancelCause(hard)
	defer end(nil)
	go w.guardMastership(writing, doubt, func() { end(errDoubt) })
	w.config.Log.InfoContext(hard, "mastership begun", logkey.Epoch, m.Mastership())
	failpoint.Hit(failpoint.WorkerBeforeConsume)
	serving := w.setServing(dbaas.RoleMaster)
	serving(true)
	err = m.Run(writing, soft.Done())
	serving(false)
	if err != nil && hard.Err() == nil {
		return fmt.Errorf("%w: %w", ErrMastershipLost, err)
	}
	return nil
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
			end()
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

// newMaster makes the master of the present assignment; Assign can raise its epoch from now on.
func (w *Worker) newMaster() *master.Master {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.config.Writes
	c.Store, c.Bus, c.Log, c.Stats = w.config.Store, w.config.Bus, w.config.Log, &w.writes
	c.Replica, c.Reads = w.replica, w.exec
	c.Epoch = w.assigned.Epoch
	w.master = master.New(c)
	return w.master
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

func (s source) Applied() (dbaas.Seq, bool) {
	head, ready := s.Replica.Applied()
	return head.Seq, ready
}

func (s source) Reader() (slave.Reader, error) {
	r, err := s.Replica.Reader()
	if err != nil {
		return nil, err // not r: a nil *Reader in an interface is not nil
	}
	return r, nil
}
