package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/pause"
)

// registrar keeps the worker's registration in the coordinator: it opens a
// session, registers, refreshes the position now and then, and begins again
// when the session is in doubt.
type registrar struct {
	coord   coord.Coordinator
	log     *slog.Logger
	retry   time.Duration // between tries
	refresh time.Duration // of the position
	applied func() dbaas.Seq

	mu      sync.Mutex // guards the fields below
	want    coord.Member
	have    coord.Member    // what the session has; zero for nothing
	doubt   <-chan struct{} // of the session that have is in
	session coord.Session   // the present one; nil for none
	changed chan struct{}   // closed and made anew at each change
	leaves  bool            // want is of a worker that is leaving
	busLost bool            // want is of a worker without the bus
	bare    bool            // want is of a worker without a replica
	silent  bool            // leave without a goodbye
}

func newRegistrar(c *Config, applied func() dbaas.Seq) *registrar {
	return &registrar{coord: c.Coordinator, log: c.Log, retry: c.RegisterRetry, refresh: c.RegisterRefresh, applied: applied, changed: make(chan struct{})}
}

// announce makes m what is to be registered.
func (r *registrar) announce(m coord.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.Leaving, m.BusLost, m.NoReplica = r.leaves, r.busLost, r.bare
	r.want = m
	r.notify()
}

// raise changes the epoch of what is to be registered, if that is a master.
func (r *registrar) raise(epoch dbaas.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.want.Role == dbaas.RoleMaster {
		r.want.Epoch = epoch
		r.notify()
	}
}

// leaving notes in what is registered, now and later, that the worker is leaving.
func (r *registrar) leaving() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaves, r.want.Leaving = true, true
	r.notify()
}

// bus notes in what is registered, now and later, whether the worker has lost the bus.
func (r *registrar) bus(lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busLost != lost {
		r.busLost, r.want.BusLost = lost, lost
		r.notify()
	}
}

// replica notes in what is registered, now and later, whether the worker's replica is away.
func (r *registrar) replica(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bare != away {
		r.bare, r.want.NoReplica = away, away
		r.notify()
	}
}

// yield notes in what is registered, if that is a master, to whom it wants to hand its role over, or to nobody.
func (r *registrar) yield(to dbaas.WorkerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.want.Role == dbaas.RoleMaster {
		r.want.YieldTo = to
		r.notify()
	}
}

// goodbye says whether the registration is withdrawn at the end of run: the dead do not.
func (r *registrar) goodbye(say bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = !say
}

// notify wakes everybody who waits for a change. The caller holds mu.
func (r *registrar) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// registered waits until role is registered, with epoch or a newer one, and returns the doubt of the
// session that has it, or ctx's error. A session in doubt does not count.
func (r *registrar) registered(ctx context.Context, role dbaas.Role, epoch dbaas.Epoch) (doubt <-chan struct{}, err error) {
	for {
		r.mu.Lock()
		have, doubt, changed := r.have, r.doubt, r.changed
		r.mu.Unlock()
		if have.Role == role && have.Epoch >= epoch && !closed(doubt) {
			return doubt, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (r *registrar) isRegistered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.have.Role != dbaas.RoleNone
}

// run keeps sessions until ctx ends, then leaves: the last session is closed, and with it
// the registration. Where the coordinator does not answer, the session ends by itself.
func (r *registrar) run(ctx context.Context) {
	for ctx.Err() == nil {
		s, err := r.coord.Open(ctx)
		if err != nil {
			pause.For(ctx, r.retry)
			continue
		}
		r.use(s)
		r.keep(ctx, s)
		r.use(nil)
		r.forget()
		if ctx.Err() != nil && !r.leave(ctx, s) {
			return
		}
		if err := s.Close(); err != nil {
			r.log.DebugContext(ctx, "session not closed", logkey.Error, err)
		}
	}
}

func (r *registrar) use(s coord.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = s
}

// keep has the wanted member in s until s is in doubt or lost, or ctx ends.
func (r *registrar) keep(ctx context.Context, s coord.Session) {
	ticker := time.NewTicker(r.refresh)
	defer ticker.Stop()
	for {
		r.mu.Lock()
		changed := r.changed // before want is looked at: no change of it is missed
		r.mu.Unlock()
		err := r.put(ctx, s)
		if errors.Is(err, coord.ErrSessionLost) {
			r.log.WarnContext(ctx, "session lost", logkey.Error, err)
			return
		}
		var again <-chan time.Time
		if err != nil {
			again = time.After(r.retry)
		}
		select {
		case <-changed:
		case <-again:
		case <-ticker.C:
		case <-s.Doubt():
			r.log.WarnContext(ctx, "session in doubt")
			return
		case <-ctx.Done():
			return
		}
	}
}

// put registers the wanted member, if s does not have it as it is now. A node that
// an earlier session of this worker left behind is removed; one of somebody else's, who had
// the same pid, goes by itself: a later try gets the name.
func (r *registrar) put(ctx context.Context, s coord.Session) error {
	r.mu.Lock()
	want, have := r.want, r.have
	r.mu.Unlock()
	want.Applied = r.applied()
	if want.PID == 0 || want == have {
		return nil
	}
	err := s.Register(ctx, want)
	if errors.Is(err, coord.ErrExists) && s.Expel(ctx, want.PID, want.Worker) == nil {
		err = s.Register(ctx, want)
	}
	if err != nil {
		r.log.DebugContext(ctx, "not registered", logkey.PID, want.PID, logkey.Error, err)
		return err
	}
	if have.Role != want.Role || have.Epoch != want.Epoch {
		r.log.InfoContext(ctx, "worker registered", logkey.PID, want.PID, logkey.Role, want.Role, logkey.Epoch, want.Epoch, logkey.Seq, want.Applied)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	position := have
	position.Applied = want.Applied
	r.have, r.doubt = want, s.Doubt()
	if position != want { // more than the position
		r.notify()
	}
	return nil
}

// forget notes that nothing is registered.
func (r *registrar) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.have, r.doubt = coord.Member{}, nil
	r.notify()
}

// leaveTimeout bounds the goodbye to the coordinator; a session that is not closed ends in time.
const leaveTimeout = time.Second

// leave withdraws the registration, also when the session's end would do it only later. It
// reports false for the dead, who leave their session behind.
func (r *registrar) leave(ctx context.Context, s coord.Session) bool {
	r.mu.Lock()
	pid, silent := r.want.PID, r.silent
	r.mu.Unlock()
	if pid == 0 || silent {
		return !silent
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := s.Unregister(ctx, pid); err != nil {
		r.log.DebugContext(ctx, "not unregistered", logkey.PID, pid, logkey.Error, err)
	}
	return true
}
