package control

import (
	"context"
	"maps"
	"slices"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
	"rideshare/orchestrator/launch"
)

// Launcher is launch.Launcher, as the loop uses it.
type Launcher = launch.Launcher

// view is what the last pass saw, for the methods that report it.
type view struct {
	list         listing
	lost         map[string]time.Time            // the lost hosts, with the times since when they have counted as lost
	members      map[dbaas.WorkerID]coord.Member // nil until the coordinator was read
	desired      int
	desiredKnown bool
	// slaves is how many slaves serve. slaveless is the time since which no slave has served; zero while one
	// serves. masterless is the same for the master.
	slaves     int
	slaveless  time.Time
	unsettled  bool // a running worker with a role is not registered
	masterless time.Time
}

// observe combines what the engine, the coordinator and the loop's memory know of the workers.
// starting holds the starts that were under way before the list of instances was requested.
func (l *Loop) observe(ctx context.Context, session coord.Session, list listing, starting map[string]string) Observed {
	members, up := l.registrations(ctx, session)
	now := l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if up {
		l.view.members = members
	}
	list.addRegistered(l.view.members)
	l.judgeHosts(ctx, list, up, now)
	leading := l.leading && l.leadsIn == session
	l.busSince = since(l.busSince, l.cfg.BusUp(), now)
	o := Observed{Now: now, CoordinatorUp: up, BusSince: l.busSince, Starting: unlisted(starting, list.instances)}
	if session != nil {
		o.CoordinatorSince = l.sessionSince
	}
	known := map[dbaas.WorkerID]bool{}
	for _, in := range list.instances {
		known[in.ID] = true
		member, registered := members[in.ID]
		m := l.recall(in)
		before := *m
		if up && m.look(member, registered, leading, now) {
			l.emit(EventRole, WorkerEvent{PID: in.PID, Worker: in.ID, Host: in.Host, Role: m.role, Epoch: m.epoch, Change: "found"})
		}
		l.emitWorker(in, m, before)
		if m.died && !before.died && in.ExitCode != 0 {
			l.blame(m, in.Host, now)
		}
		w := m.worker(in)
		host := list.host(in.Host)
		w.SilentSince, w.AnswersSince, w.HostLost = host.SilentSince, host.AnswersSince, !l.view.lost[in.Host].IsZero()
		h := l.hungAs(in.ID, now)
		w.Hung, w.CertainlyHung = h.reason, h.certain
		o.Workers = append(o.Workers, w)
	}
	l.forget(known)
	o.Hosts = l.hostsOf(list, starting, now)
	l.view.list = list
	l.count(list.instances, o.returning(l.sessionTimeout(session)), now)
	l.looked.Notify()
	l.view.unsettled = up && (list.unsettled(now) || slices.ContainsFunc(o.Workers, func(w Worker) bool {
		return w.Running && !w.Stopping && w.Role != dbaas.RoleNone && !w.Registered && w.reachable()
	}))
	return o
}

// recall returns what the loop remembers of a listed worker. The caller holds mu.
func (l *Loop) recall(in launch.Instance) *memory {
	m := l.memory[in.ID]
	if m == nil {
		found := l.view.list.host(in.Host).Listed.IsZero()
		m = &memory{found: found, proven: found, removal: wait.Backoff{First: l.cfg.Period, Cap: lastRemovalPause}}
		l.memory[in.ID] = m
	}
	if in.Running {
		m.pid, m.host = in.PID, in.Host
	}
	return m
}

// blame makes the host of a worker that ends count as failing, unless the worker is proven. The caller holds mu.
func (l *Loop) blame(m *memory, host string, now time.Time) {
	if !m.proven {
		l.startFailed[host] = now
	}
}

// forget deletes what the loop remembers of workers that are not known any more.
func (l *Loop) forget(known map[dbaas.WorkerID]bool) {
	maps.DeleteFunc(l.memory, func(id dbaas.WorkerID, m *memory) bool { return !known[id] && !m.stopping })
}

func (l *Loop) registrations(ctx context.Context, session coord.Session) (map[dbaas.WorkerID]coord.Member, bool) {
	if session == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.step())
	defer cancel()
	list, err := session.Members(ctx)
	if err != nil {
		return nil, false
	}
	members := make(map[dbaas.WorkerID]coord.Member, len(list))
	for _, m := range list {
		members[m.Worker] = m
	}
	return members, true
}

// count updates how many slaves serve, and since when there has been no slave or no master. returning means that
// the session is new: then a running worker that has lost its registration still counts as serving, since the coordinator
// lost the registration. The workers of a lost host do not count. As long as the coordinator was never read, the roles are
// unknown, and the workers may serve: one of them counts as the master, the others as slaves. The caller holds mu.
func (l *Loop) count(workers []launch.Instance, returning bool, now time.Time) {
	slaves, masters, unknown := 0, 0, 0
	for _, in := range workers {
		m := l.memory[in.ID]
		if !in.Running || m != nil && m.stopping || !l.view.lost[in.Host].IsZero() {
			continue
		}
		if l.view.members == nil {
			unknown++
			continue
		}
		member, registered := l.view.members[in.ID]
		if returning && !registered && m != nil && (m.present || !m.lostAt.IsZero()) {
			member.Role, member.NoReplica = m.role, m.noReplica
		}
		switch member.Role {
		case dbaas.RoleSlave:
			if !member.NoReplica {
				slaves++
			}
		case dbaas.RoleMaster:
			masters++
		case dbaas.RoleNone:
		}
	}
	if unknown > 0 {
		slaves, masters = unknown-1, 1
	}
	l.view.slaves = slaves
	l.view.slaveless = since(l.view.slaveless, slaves == 0, now)
	l.view.masterless = since(l.view.masterless, masters == 0, now)
}

// since returns the time at which holds became true, given the previous result old; zero while holds is false.
func since(old time.Time, holds bool, now time.Time) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case old.IsZero():
		return now
	default:
		return old
	}
}
