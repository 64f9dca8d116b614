package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/launch"
)

// stopGrace is how long a worker may take to finish its pending requests.
const stopGrace = 10 * time.Second

// do carries out one action. Demotions and promotions are complete when do returns; they run one after the other.
// Every other action runs in its own goroutine, so that neither a slow engine nor a hung worker delays an election.
func (l *Loop) do(ctx context.Context, a Action) error {
	log := l.cfg.Log
	if a.Host != "" {
		log = log.With(logkey.Host, a.Host)
	}
	log.InfoContext(ctx, "action taken", "action", string(a.Kind), logkey.Worker, string(a.Worker), logkey.PID, a.PID, logkey.Reason, a.Reason)
	switch a.Kind {
	case ActionStart:
		l.start(ctx, a.Host)
		return nil
	case ActionKill:
		l.leave(ctx, a, func(ctx context.Context) error { return l.kill(ctx, a.Worker) })
		return nil
	case ActionStop:
		l.leave(ctx, a, func(ctx context.Context) error { return l.cfg.Launcher.Stop(ctx, a.Worker, stopGrace) })
		return nil
	case ActionRemove:
		l.leave(ctx, a, func(ctx context.Context) error { return l.cfg.Launcher.Remove(ctx, a.Worker) })
		return nil
	case ActionDemote:
		if err := l.reachStore(ctx, l.cfg.Now()); err != nil {
			return err
		}
		return l.demote(ctx, a)
	case ActionFence:
		_, err := l.claim(ctx, l.cfg.step()) // short: the master must still be renewed in time
		return err
	case ActionPromote:
		began := l.cfg.Now()
		epoch, err := l.claim(ctx, claimTimeout)
		if err != nil {
			_ = l.reachStore(ctx, began) // is persdb lost, or did only the claim fail?
			return err
		}
		return l.assign(ctx, a, dbaas.RoleMaster, epoch)
	case ActionAssignSlave:
		l.assignSlave(ctx, a)
		return nil
	default:
		return fmt.Errorf("action %q is not known", a.Kind)
	}
}

func (l *Loop) claim(ctx context.Context, timeout time.Duration) (dbaas.Epoch, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	epoch, err := l.cfg.Store.Claim(ctx)
	if err != nil {
		return 0, fmt.Errorf("claim an epoch: %w", err)
	}
	l.storeLost = time.Time{}
	failpoint.Hit(failpoint.ControlAfterClaim)
	return epoch, nil
}

// demote lets the master finish and become a slave. A master that does not answer in time is ignored: the epoch that is
// claimed next fences it. A master that refuses holds a different epoch than this loop knows, so the plan was wrong.
func (l *Loop) demote(ctx context.Context, a Action) error {
	l.mu.Lock()
	var epoch dbaas.Epoch
	if m := l.memory[a.Worker]; m != nil {
		epoch = m.epoch
	}
	l.mu.Unlock()
	err := l.call(ctx, a, dbaas.RoleSlave, epoch)
	if dbaas.CodeOf(err) == dbaas.CodeUnavailable {
		l.cfg.Log.WarnContext(ctx, "master did not finish in time", logkey.Worker, string(a.Worker), logkey.Epoch, uint64(epoch), logkey.Error, err)
		return nil
	}
	if err != nil {
		return err
	}
	l.noteRole(ctx, a, dbaas.RoleSlave, 0)
	return nil
}

// assignSlave makes a worker a slave in a goroutine of its own, since a new worker may be slow. A worker that is promoted
// in the meantime refuses the slave's role.
func (l *Loop) assignSlave(ctx context.Context, a Action) {
	l.mu.Lock()
	m := l.memory[a.Worker]
	if m == nil || m.assigning {
		l.mu.Unlock()
		return
	}
	m.assigning = true
	l.mu.Unlock()
	l.jobs.Go(func() {
		err := l.call(ctx, a, dbaas.RoleSlave, 0)
		l.mu.Lock()
		m.assigning = false
		first := m.role == dbaas.RoleNone // otherwise the worker was promoted in the meantime
		l.mu.Unlock()
		switch {
		case err != nil: // no wake: the retry may wait for the next period
			l.cfg.Log.WarnContext(ctx, "slave role not assigned", logkey.Worker, string(a.Worker), logkey.Error, err)
		case first:
			l.noteRole(ctx, a, dbaas.RoleSlave, 0)
			l.Wake()
		}
	})
}

func (l *Loop) assign(ctx context.Context, a Action, role dbaas.Role, epoch dbaas.Epoch) error {
	if err := l.call(ctx, a, role, epoch); err != nil {
		return err
	}
	l.noteRole(ctx, a, role, epoch)
	return nil
}

// call assigns a role to a worker. The error is a *dbaas.Error or launch.ErrNoWorker.
func (l *Loop) call(ctx context.Context, a Action, role dbaas.Role, epoch dbaas.Epoch) error {
	ctx, cancel := context.WithTimeout(ctx, assignTimeout)
	defer cancel()
	in, ok := l.instance(a.Worker)
	if !ok {
		return launch.ErrNoWorker
	}
	failpoint.Hit(failpoint.ControlBeforeAssign)
	err := l.cfg.Workers.Assign(ctx, in.Control, workerapi.Assignment{Worker: a.Worker, Role: role, PID: in.PID, Host: in.Host, Epoch: epoch})
	if err == nil {
		failpoint.Hit(failpoint.ControlAfterAssign)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.memory[a.Worker]; m != nil {
		m.refused(l.cfg.Now())
	}
	return fmt.Errorf("make %s %s: %w", a.Worker, role, err)
}

// noteRole records a role that a worker accepted, and emits the event for it.
func (l *Loop) noteRole(ctx context.Context, a Action, role dbaas.Role, epoch dbaas.Epoch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.memory[a.Worker]; m != nil {
		m.assigned(role, epoch, l.cfg.Now())
	}
	l.emit(EventRole, WorkerEvent{PID: a.PID, Worker: a.Worker, Host: a.Host, Role: role, Epoch: epoch, Change: "assigned"})
	l.cfg.Log.InfoContext(ctx, "role given", logkey.Worker, string(a.Worker), logkey.PID, a.PID, logkey.Role, string(role), logkey.Epoch, uint64(epoch))
}

func (l *Loop) instance(id dbaas.WorkerID) (launch.Instance, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listedInstance(id)
}

// listedInstance is instance for a caller that holds mu.
func (l *Loop) listedInstance(id dbaas.WorkerID) (launch.Instance, bool) {
	i := slices.IndexFunc(l.view.list.instances, func(in launch.Instance) bool { return in.ID == id })
	if i < 0 {
		return launch.Instance{}, false
	}
	return l.view.list.instances[i], true
}

func (l *Loop) kill(ctx context.Context, id dbaas.WorkerID) error {
	if err := l.cfg.Launcher.Kill(ctx, id); err != nil {
		return fmt.Errorf("kill %s: %w", id, err)
	}
	failpoint.Hit(failpoint.ControlAfterKill)
	return nil
}

// start starts a worker in a goroutine of its own. A start whose answer is lost is not
// retried: if the worker did start, a later pass finds it in the engine's list.
func (l *Loop) start(ctx context.Context, host string) {
	id := l.newStartID(host)
	l.jobs.Go(func() {
		startCtx, cancel := context.WithTimeout(ctx, engineTimeout)
		defer cancel()
		_, err := l.cfg.Launcher.Start(startCtx, id)
		l.started(ctx, id, err)
	})
}

// started records how a start ended. In a streak of failed starts only the first is logged.
func (l *Loop) started(ctx context.Context, id string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	host := l.starting[id]
	delete(l.starting, id)
	if errors.Is(err, launch.ErrSilent) { // the next pass chooses another host
		l.cfg.Log.WarnContext(ctx, "worker may not have started", "start_id", id, logkey.Host, host, logkey.Error, err)
		l.Wake()
		return
	}
	if err != nil { // no wake: the retry may wait for the next period
		l.startFailed[host] = l.cfg.Now()
		if l.starts.failure(l.cfg.Now()) {
			l.cfg.Log.WarnContext(ctx, "worker not started", "start_id", id, logkey.Error, err)
		}
		return
	}
	if failed := l.starts.success(); failed > 0 {
		l.cfg.Log.InfoContext(ctx, "workers can be started again", logkey.Count, failed)
	}
	l.Wake()
}

// permit returns the actions that the start limit allows now. It logs when starts begin and cease to be held back.
func (l *Loop) permit(ctx context.Context, actions []Action) []Action {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.starts.streak
	actions = l.starts.permit(actions, l.cfg.Now())
	switch after := l.starts.streak; {
	case before == 0 && after > 0:
		l.cfg.Log.WarnContext(ctx, "starts held back", logkey.Reason, "too many starts", "per_minute", l.cfg.StartsPerMinute, logkey.Count, after)
	case before > 0 && after == 0:
		l.cfg.Log.InfoContext(ctx, "starts go on", logkey.Count, before)
	}
	return actions
}

// newStartID returns an id for a start and counts the start against the rate limit. The id contains the
// time, so that it differs from the ids of an earlier orchestrator. It begins with the host's name, if there is one.
func (l *Loop) newStartID(host string) string {
	now := l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextID++
	id := strconv.FormatInt(now.UnixMilli(), 36) + "-" + strconv.Itoa(l.nextID)
	if host != "" {
		id = host + "." + id
	}
	l.starting[id] = host
	l.starts.begun(now)
	return id
}

// leave kills, stops or removes a worker in a goroutine of its own, and withdraws the worker's registration once it is
// confirmed dead. After a failure the worker counts as stopping until the retry, one period later. The pause before
// another attempt to remove a worker grows with each failure.
func (l *Loop) leave(ctx context.Context, a Action, engine func(context.Context) error) {
	l.mu.Lock()
	if m := l.memory[a.Worker]; m != nil {
		m.stopping = true
		m.proven = m.proven || a.Kind == ActionStop
		if a.Kind == ActionKill {
			m.killSince = cmp.Or(m.killSince, l.cfg.Now())
			l.blame(m, a.Host, l.cfg.Now())
		}
	}
	l.mu.Unlock()
	l.jobs.Go(func() {
		leaveCtx, cancel := context.WithTimeout(ctx, engineTimeout)
		defer cancel()
		err := engine(leaveCtx)
		if err == nil || errors.Is(err, launch.ErrNoWorker) {
			err = l.evict(leaveCtx, a)
		}
		if err != nil && ctx.Err() == nil {
			l.cfg.Log.WarnContext(ctx, "worker not removed", "action", string(a.Kind), logkey.Worker, string(a.Worker), logkey.Error, err)
			wait.For(ctx, l.retryAfter(a))
		}
		l.mu.Lock()
		if m := l.memory[a.Worker]; m != nil {
			m.stopping = false
		}
		l.mu.Unlock()
		l.Wake()
	})
}

// lastRemovalPause is the longest pause between two attempts to remove a dead worker. Nothing waits for a removal.
const lastRemovalPause = time.Minute

// retryAfter returns the pause after an action of leave that failed.
func (l *Loop) retryAfter(a Action) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.memory[a.Worker]; m != nil && a.Kind == ActionRemove {
		return m.removal.Next()
	}
	return l.cfg.Period
}

// evict withdraws the registration of a dead worker. Without evict the registration
// would stay until the worker's session expires.
func (l *Loop) evict(ctx context.Context, a Action) error {
	l.mu.Lock()
	session := l.session
	member, ok := l.view.members[a.Worker]
	l.mu.Unlock()
	if !ok || session == nil {
		return nil
	}
	if err := session.Evict(ctx, member); err != nil {
		return fmt.Errorf("evict %s: %w", a.Worker, err)
	}
	return nil
}

// startsUnderWay returns the ids of the starts that have not ended yet, with their hosts.
func (l *Loop) startsUnderWay() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.starting)
}

// unlisted counts the starts whose worker the engine does not list yet.
func unlisted(starting map[string]string, instances []launch.Instance) int {
	n := len(starting)
	for _, in := range instances {
		if _, begun := starting[in.StartID]; begun {
			n--
		}
	}
	return n
}
