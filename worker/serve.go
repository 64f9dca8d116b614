package worker

import (
	"context"
	"fmt"
	"sync"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
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
	w.registrar.announce(w.member(a))
	if _, err := w.registrar.registered(phase, a.Role, 0); err != nil {
		return nil // phase ended: nothing went wrong
	}
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
	if err := m.CatchUp(soft); err != nil {
		if soft.Err() != nil {
			return nil
		}
		return fmt.Errorf("%w: %w", ErrMastershipLost, err)
	}
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
	go func() {
		select {
		case <-doubt: // by our own clock, before anybody can see the session end
			end(errDoubt)
		case <-writing.Done():
		}
	}()
	w.config.Log.InfoContext(hard, "mastership begun", logkey.Epoch, m.Mastership())
	serving := w.setServing(dbaas.RoleMaster)
	serving(true)
	err = m.Run(writing, soft.Done())
	serving(false)
	if err != nil && hard.Err() == nil {
		return fmt.Errorf("%w: %w", ErrMastershipLost, err)
	}
	return nil
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
