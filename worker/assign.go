package worker

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/workerapi"
)

// Assign implements workercontrol.Worker. It returns nil once the worker has accepted the role or already has it. A master
// that is demoted has no pending writes by then.
func (w *Worker) Assign(ctx context.Context, a workerapi.Assignment) error {
	if err := a.Validate(); err != nil {
		return err
	}
	turn, err := w.accept(a)
	if err != nil || a.Role == dbaas.RoleMaster || a.Epoch == 0 {
		return err
	}
	return w.awaitTaken(ctx, turn)
}

// accept records the role and returns the turn in which serve takes it. If the role is refused, it returns the reason.
func (w *Worker) accept(a workerapi.Assignment) (turn int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	have := w.assigned
	next := a // the form in which it is stored: a slave has no epoch
	if a.Role == dbaas.RoleSlave {
		next.Epoch = 0
	}
	if next == have {
		w.renewed = time.Now() // see hold
		return w.turn, nil
	}
	if head, ok := w.replica.Applied(); ok && head.Cluster != w.cluster {
		if !w.cluster.IsZero() {
			w.newest = 0 // epochs of different clusters cannot be compared
		}
		w.cluster = head.Cluster
	}
	if err := w.refuse(have, a); err != nil {
		return 0, err
	}
	w.config.Log.Info("role assigned", logkey.PID, a.PID, logkey.Role, a.Role, logkey.Epoch, a.Epoch)
	w.newest = max(w.newest, a.Epoch)
	w.assigned, w.renewed = next, time.Time{}
	if a.Role != have.Role {
		w.turn++
		w.turned.Notify()
		return w.turn, nil
	}
	// The same worker was chosen again, for example because its first answer was lost: the leadership continues.
	if w.master != nil {
		w.master.AdvanceEpoch(a.Epoch)
	}
	w.registrar.advanceEpoch(a.Epoch)
	return w.turn, nil
}

// refuse returns an error if assignment a is not allowed after have. The caller holds mu.
func (w *Worker) refuse(have, a workerapi.Assignment) error {
	switch {
	case a.Worker != w.config.ID:
		return dbaas.Errorf(dbaas.CodeConflict, "this is worker %s, not %s", w.config.ID, a.Worker)
	case w.draining, w.leaving && a.Role == dbaas.RoleMaster && have.Role != dbaas.RoleMaster:
		return dbaas.Errorf(dbaas.CodeConflict, "the worker is leaving")
	case have.Role == dbaas.RoleNone:
		return nil
	case a.PID != have.PID:
		return dbaas.Errorf(dbaas.CodeConflict, "the worker has pid %d, not %d", have.PID, a.PID)
	case a.Role == dbaas.RoleSlave && a.Epoch != have.Epoch:
		return dbaas.Errorf(dbaas.CodeConflict, "the worker has epoch %d, and this ends epoch %d", have.Epoch, a.Epoch)
	case a.Role == dbaas.RoleMaster && a.Epoch <= w.newest:
		return dbaas.Errorf(dbaas.CodeConflict, "the worker has had epoch %d, which is newer than %d", w.newest, a.Epoch)
	default:
		return nil
	}
}

// awaitTaken returns nil once serve has reached turn or a later one, and CodeUnavailable if ctx ends first.
func (w *Worker) awaitTaken(ctx context.Context, turn int) error {
	for {
		w.mu.Lock()
		taken, turned := w.taken, w.turned.Next()
		w.mu.Unlock()
		if taken >= turn {
			return nil
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return dbaas.WrapError(dbaas.CodeUnavailable, "the worker has not finished yet", ctx.Err())
		}
	}
}

// take waits for a turn later than turn. It returns the present role and its turn, or ctx's error.
func (w *Worker) take(ctx context.Context, turn int) (workerapi.Assignment, int, error) {
	for {
		w.mu.Lock()
		a, now, turned := w.assigned, w.turn, w.turned.Next()
		if now > turn && ctx.Err() == nil {
			w.taken = now
			w.turned.Notify()
			w.mu.Unlock()
			return a, now, nil
		}
		w.mu.Unlock()
		select {
		case <-turned:
		case <-ctx.Done():
			return a, now, ctx.Err()
		}
	}
}

// Yield implements workercontrol.Worker. The request expires after workerapi.YieldFor, or when the leadership ends.
func (w *Worker) Yield(y workerapi.Yield) error {
	if err := y.Validate(); err != nil {
		return err
	}
	w.mu.Lock()
	w.yields++
	have, turn, yields := w.assigned, w.turn, w.yields
	w.mu.Unlock()
	switch {
	case y.Worker != w.config.ID:
		return dbaas.Errorf(dbaas.CodeConflict, "this is worker %s, not %s", w.config.ID, y.Worker)
	case have.Role != dbaas.RoleMaster:
		return dbaas.Errorf(dbaas.CodeConflict, "the worker is not the master")
	}
	w.config.Log.Info("hand-over requested", "to", y.To, logkey.Epoch, have.Epoch)
	w.registrar.yield(y.To)
	time.AfterFunc(workerapi.YieldFor, func() {
		w.mu.Lock()
		same := w.turn == turn && w.yields == yields
		w.mu.Unlock()
		if same {
			w.registrar.yield("")
		}
	})
	return nil
}

// awaitSuccessor marks the registration as leaving, so that the control loop chooses another master. If this worker is
// the master, awaitSuccessor then waits up to Config.HandOver until it is replaced, and continues to write.
func (w *Worker) awaitSuccessor(abortCtx context.Context) {
	w.mu.Lock()
	w.leaving = true
	have, turn := w.assigned, w.turn
	w.mu.Unlock()
	w.registrar.leaving()
	if have.Role != dbaas.RoleMaster {
		return
	}
	w.config.Log.Info("hand-over awaited", logkey.Epoch, have.Epoch)
	ctx, cancel := context.WithTimeout(abortCtx, w.config.HandOver)
	defer cancel()
	go func() {
		select {
		case <-w.drain:
		case <-w.killed:
		case <-ctx.Done():
		}
		cancel()
	}()
	if err := w.awaitTaken(ctx, turn+1); errors.Is(err, context.DeadlineExceeded) {
		w.config.Log.Warn("left without a successor", logkey.Epoch, have.Epoch)
	}
}

// Drain implements workercontrol.Worker. The worker takes no new work, finishes its pending work and leaves. Then Run
// returns.
func (w *Worker) Drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.draining {
		return
	}
	w.draining, w.leaving = true, true
	close(w.drain)
	w.registrar.leaving()
	w.config.Log.Info("drain begun")
}

// Status implements workercontrol.Worker.
func (w *Worker) Status() workerapi.Status {
	head, _ := w.replica.Applied()
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
		Applied: head.Seq, Ready: w.serving[w.assigned.Role] && !w.draining, CatchingUp: !w.replica.Following(), Progress: w.replica.Progress(),
		Registered: registered, Draining: w.draining, Leaving: w.leaving, Counters: counters,
		Host: hostname(), MemoryBytes: residentBytes(), ReadsInFlight: w.exec.InFlight(),
	}
}

// Pulse implements workercontrol.Worker.
func (w *Worker) Pulse() workerapi.Pulse {
	working := map[string]uint64{}
	w.pulse.AddWorking(working)
	w.exec.AddWorking(working)
	return workerapi.Pulse{ID: w.config.ID, Working: working}
}

// Hashes implements workercontrol.Worker.
func (w *Worker) Hashes(ctx context.Context) (dbaas.TableHashes, error) {
	return w.replica.Hashes(ctx)
}

// Verify implements workercontrol.Worker.
func (w *Worker) Verify(ctx context.Context) (workerapi.Verification, error) {
	return w.replica.Verify(ctx)
}
