package control_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinproc "rideshare/internal/coord/inproc"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/rpc"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/launch/inproc"
)

// stubWorker accepts roles by the rules of real workers, registers with its role, and does nothing else.
type stubWorker struct {
	spec   inproc.Spec
	client *coordinproc.Client
	rig    *rig
	diesAt bool        // ends as soon as it runs
	silent atomic.Bool // accepts roles, but never serves in them
	// stopped workers give no sign of life, stuck workers do no further step.
	stopped, stuck atomic.Bool
	opened         chan coord.Session

	mu      sync.Mutex // guards the fields below
	session coord.Session
	member  coord.Member
	newest  dbaas.Epoch
	took    time.Time // when it took its first role
}

func (w *stubWorker) Run(ctx context.Context) error {
	if w.diesAt {
		return fmt.Errorf("worker %s has nothing to live for", w.spec.ID)
	}
	for s := range w.sessions(ctx) {
		select {
		case <-s.Suspended():
			w.registerAgain(ctx)
		case <-ctx.Done():
			_ = s.Close() // the session of a dead worker stays until it expires
		}
	}
	return ctx.Err()
}

// sessions opens one session of the worker after the other, until ctx ends.
func (w *stubWorker) sessions(ctx context.Context) iter.Seq[coord.Session] {
	return func(yield func(coord.Session) bool) {
		for ctx.Err() == nil {
			select {
			case s := <-w.opened:
				if !yield(s) {
					return
				}
			case <-ctx.Done():
			}
		}
	}
}

// registerAgain opens another session, as a real worker does when its own session is suspended.
func (w *stubWorker) registerAgain(ctx context.Context) {
	s, err := w.client.Open(ctx)
	for err != nil {
		select {
		case <-time.After(registerRetry):
		case <-ctx.Done():
			return
		}
		s, err = w.client.Open(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.session = s
	w.opened <- s
	if errors.Is(s.Register(ctx, w.member), coord.ErrExists) {
		_ = s.Evict(ctx, w.member)
		_ = s.Register(ctx, w.member)
	}
}

// registerRetry is the pause between attempts to open a session, the same as a real worker's.
const registerRetry = 200 * time.Millisecond

func (w *stubWorker) Kill() { w.client.Crash() }

func (w *stubWorker) Control() http.Handler {
	mux := &rpc.Mux{}
	role := accept(w, w.assign)
	mux.Handle("PUT "+workerapi.PathRole, func(rw http.ResponseWriter, r *http.Request) error {
		w.rig.assigned.Add(1)
		return role(rw, r)
	})
	mux.Handle("GET "+workerapi.PathLive, rpc.NoBody(w.pulse))
	mux.Handle("GET "+workerapi.PathStatus, rpc.NoBody(func(context.Context) (workerapi.Status, error) {
		return workerapi.Status{ID: w.spec.ID, Progress: w.progress()}, nil
	}))
	mux.Handle("POST "+workerapi.PathYield, accept(w, func(ctx context.Context, y workerapi.Yield) error {
		w.member.YieldTo = y.To
		return w.session.Register(ctx, w.member)
	}))
	return mux
}

// pulse answers for a worker that is at work, with as many steps as the test says; a stopped process does not answer.
func (w *stubWorker) pulse(ctx context.Context) (workerapi.Pulse, error) {
	w.rig.pulses.Add(1)
	if w.stopped.Load() || w.rig.deaf.Load() {
		<-ctx.Done()
		return workerapi.Pulse{}, ctx.Err()
	}
	p := workerapi.Pulse{ID: w.spec.ID}
	if w.stuck.Load() {
		p.Working = map[string]uint64{"committing": 7}
	}
	return p, nil
}

// accept answers with CodeConflict if do fails, and does not answer while the worker hangs.
func accept[In any](w *stubWorker, do func(context.Context, In) error) rpc.Handler {
	return rpc.WithBody(1<<10, func(ctx context.Context, in In) (rpc.None, error) {
		if w.rig.hung(w.spec.ID) {
			<-ctx.Done()
			return rpc.None{}, ctx.Err()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := do(ctx, in); err != nil {
			return rpc.None{}, dbaas.Errorf(dbaas.CodeConflict, "%v", err)
		}
		return rpc.None{}, nil
	})
}

func (w *stubWorker) assign(ctx context.Context, a workerapi.Assignment) (err error) {
	if w.diesAt {
		return errors.New("it is about to end")
	}
	have := w.member
	switch {
	case a.Worker != w.spec.ID:
		return fmt.Errorf("meant is %s", a.Worker)
	case a.Role == dbaas.RoleSlave && a.Epoch != have.Epoch:
		return fmt.Errorf("ends %d, not %d", a.Epoch, have.Epoch)
	case a.Role == dbaas.RoleMaster && (a.Epoch < w.newest || a.Epoch == w.newest && have.Role != dbaas.RoleMaster):
		return fmt.Errorf("has had %d", w.newest)
	}
	w.newest = max(w.newest, a.Epoch)
	if a.Role == dbaas.RoleSlave {
		a.Epoch = 0
	}
	if w.session == nil {
		if w.session, err = w.client.Open(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		w.opened <- w.session
		w.took = time.Now()
	}
	if w.silent.Load() {
		return nil
	}
	w.member = coord.Member{PID: a.PID, Host: a.Host, Worker: w.spec.ID, Role: a.Role, Epoch: a.Epoch, Control: w.spec.Control, Leaving: have.Leaving}
	if left := w.rig.loads - time.Since(w.took); left > 0 {
		time.AfterFunc(left, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.rig.stuckAt == 0 {
				_ = w.session.Register(context.Background(), w.member) // fails for a dead worker
			}
		})
		return nil
	}
	return w.session.Register(ctx, w.member)
}

// progress grows with each second that the worker loads.
func (w *stubWorker) progress() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	loaded := min(time.Since(w.took), w.rig.loads)
	if w.rig.stuckAt > 0 {
		loaded = min(loaded, w.rig.stuckAt)
	}
	return uint64(loaded / time.Second)
}

// leave announces the end of the worker.
func (w *stubWorker) leave(t *testing.T) {
	t.Helper()
	w.announce(t, func(m *coord.Member) { m.Leaving = true })
}

// loseBus announces that the worker has lost the bus.
func (w *stubWorker) loseBus(t *testing.T) {
	t.Helper()
	w.announce(t, func(m *coord.Member) { m.BusLost = true })
}

// losePersdb announces that the worker has lost persdb.
func (w *stubWorker) losePersdb(t *testing.T) {
	t.Helper()
	w.announce(t, func(m *coord.Member) { m.PersdbLost = true })
}

// announce registers the worker again, with a change.
func (w *stubWorker) announce(t *testing.T, change func(*coord.Member)) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.member)
	if err := w.session.Register(t.Context(), w.member); err != nil {
		t.Fatal(err)
	}
}
