package worker

import (
	"context"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/workerapi"
)

// Assign implements control.Worker. nil means that the role was accepted, or is had already.
func (w *Worker) Assign(a workerapi.Assignment) error {
	if err := a.Validate(); err != nil {
		return err
	}
	if a.Role == dbaas.RoleSlave {
		a.Epoch = 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	have := w.assigned
	if a == have {
		w.renewed = time.Now() // see guardMastership
		return nil
	}
	if err := w.refuse(have, a); err != nil {
		return err
	}
	w.config.Log.Info("role assigned", logkey.PID, a.PID, logkey.Role, a.Role, logkey.Epoch, a.Epoch)
	w.assigned = a
	if have.Role == dbaas.RoleNone {
		close(w.assign)
	}
	if a.Role != dbaas.RoleMaster {
		return nil
	}
	if have.Role != dbaas.RoleMaster {
		close(w.promote)
		return nil
	}
	// Chosen again, for example because the first answer was lost: the mastership goes on.
	if w.master != nil {
		w.master.Raise(a.Epoch)
	}
	w.registrar.raise(a.Epoch)
	return nil
}

// refuse says why a cannot follow have. The caller holds mu.
func (w *Worker) refuse(have, a workerapi.Assignment) error {
	switch {
	case w.draining:
		return dbaas.Errorf(dbaas.CodeConflict, "the worker is leaving")
	case have.Role == dbaas.RoleNone:
		return nil
	case a.PID != have.PID:
		return dbaas.Errorf(dbaas.CodeConflict, "the worker has pid %d, not %d", have.PID, a.PID)
	case have.Role == dbaas.RoleMaster && a.Role == dbaas.RoleSlave:
		return dbaas.Errorf(dbaas.CodeConflict, "a master does not become a slave: drain it")
	case a.Epoch < have.Epoch:
		return dbaas.Errorf(dbaas.CodeConflict, "the worker has mastership %d, which is newer than %d", have.Epoch, a.Epoch)
	default:
		return nil
	}
}

// Drain implements control.Worker: the worker takes no more work, finishes what is in hand,
// leaves, and Run returns.
func (w *Worker) Drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.draining {
		return
	}
	w.draining = true
	close(w.drain)
	w.config.Log.Info("drain begun")
}

// Status implements control.Worker.
func (w *Worker) Status() workerapi.Status {
	head, caughtUp := w.replica.Applied()
	counters := map[string]int64{}
	add := func(name string, value int64) { counters[name] = value }
	w.replica.Stats.Each(add)
	w.exec.Each(add)
	w.writes.Each(add)
	registered := w.registrar.isRegistered()
	w.mu.Lock()
	defer w.mu.Unlock()
	return workerapi.Status{
		ID: w.config.ID, PID: w.assigned.PID, Role: w.assigned.Role, Epoch: w.assigned.Epoch,
		Applied: head.Seq, Ready: w.serving[w.assigned.Role] && !w.draining, CatchingUp: !caughtUp,
		Registered: registered, Draining: w.draining, Counters: counters,
	}
}

// Hashes implements control.Worker.
func (w *Worker) Hashes(ctx context.Context) (dbaas.TableHashes, error) {
	return w.replica.Hashes(ctx)
}

// Verify implements control.Worker.
func (w *Worker) Verify(ctx context.Context) (workerapi.Verification, error) {
	return w.replica.Verify(ctx)
}

func (w *Worker) assignment() workerapi.Assignment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.assigned
}
