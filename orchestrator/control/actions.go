package control

import (
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
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/launch"
)

// stopGrace is how long a worker may take to finish what is in hand.
const stopGrace = 10 * time.Second

// do carries out one action. Role changes and kills are done when it returns,
// one after the other; starts, stops and removals go on beside the loop, so that a slow
// engine does not hold up an election.
func (l *Loop) do(ctx context.Context, a Action) error {
	l.cfg.Log.InfoContext(ctx, "action taken", "action", string(a.Kind), logkey.Worker, string(a.Worker), logkey.PID, a.PID, logkey.Reason, a.Reason)
	switch a.Kind {
	case ActionStart:
		l.start(ctx)
		return nil
	case ActionKill:
		return l.kill(ctx, a.Worker)
	case ActionStop:
		l.leave(ctx, a, func(ctx context.Context) error { return l.cfg.Launcher.Stop(ctx, a.Worker, stopGrace) })
		return nil
	case ActionRemove:
		l.leave(ctx, a, func(ctx context.Context) error { return l.cfg.Launcher.Remove(ctx, a.Worker) })
		return nil
	case ActionPromote:
		epoch, err := l.claim(ctx)
		if err != nil {
			return err
		}
		return l.assign(ctx, a, dbaas.RoleMaster, epoch)
	case ActionEnlist:
		return l.assign(ctx, a, dbaas.RoleSlave, 0)
	default:
		return fmt.Errorf("action %q is not known", a.Kind)
	}
}

// renewTimeout bounds one renewal: the next pass tries again.
const renewTimeout = time.Second

// renew tells the master, while the coordinator is away, that nobody else is
// being chosen: then it goes on although its session is in doubt.
func (l *Loop) renew(ctx context.Context, o Observed) {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	for _, w := range o.Workers {
		in, ok := l.instance(w.ID)
		if !ok || !w.Running || w.Stopping || w.Role != dbaas.RoleMaster {
			continue
		}
		err := l.cfg.Workers.Assign(ctx, in.Control, workerapi.Assignment{Role: w.Role, PID: in.PID, Epoch: w.Epoch})
		if err != nil {
			l.cfg.Log.WarnContext(ctx, "mastership not renewed", logkey.Worker, string(w.ID), logkey.Error, err)
		}
	}
}

func (l *Loop) claim(ctx context.Context) (dbaas.Epoch, error) {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	epoch, err := l.cfg.Store.Claim(ctx)
	if err != nil {
		return 0, fmt.Errorf("claim an epoch: %w", err)
	}
	failpoint.Hit(failpoint.ControlAfterClaim)
	return epoch, nil
}

func (l *Loop) assign(ctx context.Context, a Action, role dbaas.Role, epoch dbaas.Epoch) error {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	in, ok := l.instance(a.Worker)
	if !ok {
		return launch.ErrNoWorker
	}
	failpoint.Hit(failpoint.ControlBeforeAssign)
	err := l.cfg.Workers.Assign(ctx, in.Control, workerapi.Assignment{Role: role, PID: in.PID, Epoch: epoch})
	if err != nil {
		return fmt.Errorf("make %s %s: %w", a.Worker, role, err)
	}
	failpoint.Hit(failpoint.ControlAfterAssign)
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.memory[a.Worker]; m != nil {
		m.role, m.epoch, m.roleSince = role, epoch, l.cfg.Now()
		m.seen, m.lostAt = false, time.Time{} // until it is registered with this role
	}
	l.tell(EventRole, WorkerEvent{PID: in.PID, Worker: a.Worker, Role: role, Epoch: epoch, Change: "assigned"})
	l.cfg.Log.InfoContext(ctx, "role given", logkey.Worker, string(a.Worker), logkey.PID, in.PID, logkey.Role, string(role), logkey.Epoch, uint64(epoch))
	return nil
}

func (l *Loop) instance(id dbaas.WorkerID) (launch.Instance, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.view.instances, func(in launch.Instance) bool { return in.ID == id })
	if i < 0 {
		return launch.Instance{}, false
	}
	return l.view.instances[i], true
}

func (l *Loop) kill(ctx context.Context, id dbaas.WorkerID) error {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	if err := l.cfg.Launcher.Kill(ctx, id); err != nil && !errors.Is(err, launch.ErrNoWorker) {
		return fmt.Errorf("kill %s: %w", id, err)
	}
	failpoint.Hit(failpoint.ControlAfterKill)
	l.Wake()
	return nil
}

// start starts a worker beside the loop. A start whose answer is lost is not
// repeated: if it happened, the next pass finds the worker in the engine's list.
func (l *Loop) start(ctx context.Context) {
	id := l.newStartID()
	l.jobs.Go(func() {
		startCtx, cancel := context.WithTimeout(ctx, actionTimeout)
		defer cancel()
		_, err := l.cfg.Launcher.Start(startCtx, id)
		l.mu.Lock()
		delete(l.starting, id)
		l.mu.Unlock()
		if err != nil { // no wake: the next try may wait for the next period
			l.cfg.Log.WarnContext(ctx, "worker not started", "start_id", id, logkey.Error, err)
			return
		}
		l.Wake()
	})
}

// newStartID names a start and notes it for the rate limit. The loop's own
// clock makes it different from those of an orchestrator before it.
func (l *Loop) newStartID() string {
	now := l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextID++
	id := strconv.FormatInt(now.UnixMilli(), 36) + "-" + strconv.Itoa(l.nextID)
	l.starting[id] = true
	l.starts = append(l.starts, now)
	return id
}

// leave lets a worker go beside the loop, and withdraws its registration once
// it is surely dead.
func (l *Loop) leave(ctx context.Context, a Action, engine func(context.Context) error) {
	l.mu.Lock()
	if m := l.memory[a.Worker]; m != nil {
		m.stopping = true
	}
	l.mu.Unlock()
	l.jobs.Go(func() {
		defer l.Wake()
		leaveCtx, cancel := context.WithTimeout(ctx, actionTimeout)
		defer cancel()
		err := engine(leaveCtx)
		if err == nil || errors.Is(err, launch.ErrNoWorker) {
			err = l.expel(leaveCtx, a)
		}
		l.mu.Lock()
		if m := l.memory[a.Worker]; m != nil {
			m.stopping = false
		}
		l.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			l.cfg.Log.WarnContext(ctx, "worker not let go", "action", string(a.Kind), logkey.Worker, string(a.Worker), logkey.Error, err)
		}
	})
}

// expel withdraws the registration of a dead worker, which would otherwise stay
// until its session ends.
func (l *Loop) expel(ctx context.Context, a Action) error {
	l.mu.Lock()
	session := l.session
	member, ok := l.view.members[a.Worker]
	l.mu.Unlock()
	if !ok || session == nil {
		return nil
	}
	if err := session.Expel(ctx, member.PID, a.Worker); err != nil {
		return fmt.Errorf("expel %s: %w", a.Worker, err)
	}
	return nil
}

// startsUnderWay returns the ids of the starts that have not ended yet.
func (l *Loop) startsUnderWay() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.starting)
}

// unlisted counts the starts whose worker the engine does not list yet.
func unlisted(starting map[string]bool, instances []launch.Instance) int {
	n := len(starting)
	for _, in := range instances {
		if starting[in.StartID] {
			n--
		}
	}
	return n
}

// startsAllowed applies the rate limit. The caller holds mu.
func (l *Loop) startsAllowed(now time.Time) int {
	l.starts = slices.DeleteFunc(l.starts, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	return l.cfg.StartsPerMinute - len(l.starts)
}
