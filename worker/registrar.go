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
	"rideshare/internal/wait"
)

// registrar maintains the worker's registration at the coordinator. It opens a session, registers the worker in it, and
// refreshes the registered position periodically. When the session is suspended or lost, it opens a new one.
type registrar struct {
	coord   coord.Coordinator
	log     *slog.Logger
	retry   time.Duration // between attempts
	refresh time.Duration // of the position
	applied func() dbaas.Seq

	mu         sync.Mutex // guards the fields below
	want       coord.Member
	have       coord.Member    // what is registered in the session; zero if nothing is
	unknown    bool            // a later registration failed, but may have taken effect
	suspended  <-chan struct{} // the Suspended channel of the session that holds have
	session    coord.Session   // the current session, or nil
	changed    wait.Signal     // notified when a field above changes
	leaves     bool            // the worker is leaving
	busLost    bool            // the worker has lost the bus
	persdbLost bool            // the worker has lost persdb
	noReplica  bool            // the worker has no usable replica
	rebuilding bool            // the worker is fetching a new replica
	silent     bool            // leave without unregistering
}

func newRegistrar(c *Config, applied func() dbaas.Seq) *registrar {
	return &registrar{coord: c.Coordinator, log: c.Log, retry: c.RegisterRetry, refresh: c.RegisterRefresh, applied: applied}
}

// announce sets the member to be registered to m.
func (r *registrar) announce(m coord.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.Leaving, m.BusLost, m.PersdbLost, m.NoReplica, m.Rebuilding = r.leaves, r.busLost, r.persdbLost, r.noReplica, r.rebuilding
	r.want = m
	r.changed.Notify()
}

// advanceEpoch changes the epoch to be registered, if the member is a master.
func (r *registrar) advanceEpoch(epoch dbaas.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.want.Role == dbaas.RoleMaster {
		r.want.Epoch = epoch
		r.changed.Notify()
	}
}

// leaving marks the present and all later registrations as leaving.
func (r *registrar) leaving() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaves, r.want.Leaving = true, true
	r.changed.Notify()
}

// cutOff records in the present and all later registrations whether the worker has lost the bus, and whether it has lost persdb.
func (r *registrar) cutOff(bus, persdb bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busLost != bus || r.persdbLost != persdb {
		r.busLost, r.want.BusLost = bus, bus
		r.persdbLost, r.want.PersdbLost = persdb, persdb
		r.changed.Notify()
	}
}

// replica records in the present and all later registrations whether the worker's replica is unavailable, and whether the worker is
// fetching a new one.
func (r *registrar) replica(away, rebuilding bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noReplica != away || r.rebuilding != rebuilding {
		r.noReplica, r.want.NoReplica = away, away
		r.rebuilding, r.want.Rebuilding = rebuilding, rebuilding
		r.changed.Notify()
	}
}

// yield records in a master's registration the worker to which it wants to hand over its role. An empty id withdraws
// the request.
func (r *registrar) yield(to dbaas.WorkerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.want.Role == dbaas.RoleMaster {
		r.want.YieldTo = to
		r.changed.Notify()
	}
}

// goodbye sets whether run withdraws the registration when it ends. A killed worker does not withdraw it.
func (r *registrar) goodbye(say bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = !say
}

// registered waits until role is registered with epoch or a newer one in a session that is not suspended. It returns
// the Suspended channel of that session, or ctx's error.
func (r *registrar) registered(ctx context.Context, role dbaas.Role, epoch dbaas.Epoch) (suspended <-chan struct{}, err error) {
	for {
		r.mu.Lock()
		have, suspended, changed := r.have, r.suspended, r.changed.Next()
		r.mu.Unlock()
		if have.Role == role && have.Epoch >= epoch && !wait.Closed(suspended) {
			return suspended, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *registrar) isRegistered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.have.Role != dbaas.RoleNone
}

// run keeps a session open until ctx ends. It then closes the last session, which removes the registration. If the
// coordinator does not answer, the session expires by itself.
func (r *registrar) run(ctx context.Context) {
	for ctx.Err() == nil {
		s, err := r.coord.Open(ctx)
		if err != nil {
			wait.For(ctx, r.retry)
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

// keep keeps r.want registered in s until s is suspended or lost, or ctx ends.
func (r *registrar) keep(ctx context.Context, s coord.Session) {
	ticker := time.NewTicker(r.refresh)
	defer ticker.Stop()
	for {
		r.mu.Lock()
		changed := r.changed.Next() // read before want, so that no change of want is missed
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
		case <-s.Suspended():
			r.log.WarnContext(ctx, "session suspended")
			return
		case <-ctx.Done():
			return
		}
	}
}

// put registers r.want in s, unless s certainly holds it unchanged. If an earlier session of this worker has left a node,
// put removes it. A node of another worker with the same pid expires by itself, and a later attempt succeeds.
func (r *registrar) put(ctx context.Context, s coord.Session) error {
	r.mu.Lock()
	want, have, unknown := r.want, r.have, r.unknown
	r.mu.Unlock()
	want.Applied = r.applied()
	if want.PID == 0 || want == have && !unknown {
		return nil
	}
	err := s.Register(ctx, want)
	if errors.Is(err, coord.ErrExists) && s.Evict(ctx, want) == nil {
		err = s.Register(ctx, want)
	}
	if err != nil {
		r.mu.Lock()
		r.unknown = true
		r.mu.Unlock()
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
	r.have, r.unknown, r.suspended = want, false, s.Suspended()
	if position != want { // more than the position has changed
		r.changed.Notify()
	}
	return nil
}

// forget records that nothing is registered.
func (r *registrar) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.have, r.unknown, r.suspended = coord.Member{}, false, nil
	r.changed.Notify()
}

// leaveTimeout bounds the unregistration. A session that is not closed expires by itself.
const leaveTimeout = time.Second

// leave withdraws the registration without waiting for the session to end. It reports false for a killed worker, which
// leaves its session open.
func (r *registrar) leave(ctx context.Context, s coord.Session) bool {
	r.mu.Lock()
	want, silent := r.want, r.silent
	r.mu.Unlock()
	if want.PID == 0 || silent {
		return !silent
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := s.Unregister(ctx, want); err != nil {
		r.log.DebugContext(ctx, "not unregistered", logkey.PID, want.PID, logkey.Error, err)
	}
	return true
}
