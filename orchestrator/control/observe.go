package control

import (
	"context"
	"slices"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/orchestrator/launch"
)

// Launcher is launch.Launcher, as the loop uses it.
type Launcher = launch.Launcher

// view is what the last pass saw, for the methods that report it.
type view struct {
	instances    []launch.Instance
	listed       time.Time // when the list of instances was requested
	members      map[dbaas.WorkerID]coord.Member
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
func (l *Loop) observe(ctx context.Context, session coord.Session, instances []launch.Instance, starting map[string]bool) Observed {
	members, up := membersOf(ctx, session)
	now := l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	leading := l.leading && l.leadsIn == session
	l.busSince = since(l.busSince, l.cfg.BusUp(), now)
	o := Observed{Now: now, CoordinatorUp: up, BusSince: l.busSince, Starting: unlisted(starting, instances)}
	if session != nil {
		o.CoordinatorSince = l.sessionSince
	}
	first := l.view.listed.IsZero()
	known := map[dbaas.WorkerID]bool{}
	for _, in := range instances {
		known[in.ID] = true
		member, registered := members[in.ID]
		m := l.memory[in.ID]
		if m == nil {
			m = &memory{found: first}
			l.memory[in.ID] = m
		}
		if in.Running {
			m.pid = in.PID
		}
		before := *m
		if up && m.look(member, registered, leading, now) {
			l.emit(EventRole, WorkerEvent{PID: in.PID, Worker: in.ID, Role: m.role, Epoch: m.epoch, Change: "found"})
		}
		l.emitWorker(in, m, before)
		w := m.worker(in)
		h := l.hungAs(in.ID, now)
		w.Hung, w.CertainlyHung = h.reason, h.certain
		o.Workers = append(o.Workers, w)
	}
	for id, m := range l.memory {
		if !known[id] && !m.stopping {
			delete(l.memory, id)
		}
	}
	l.look(instances, members, up, o.returning(l.sessionTimeout(session)), now)
	l.looked.Notify()
	l.view.unsettled = up && slices.ContainsFunc(o.Workers, func(w Worker) bool {
		return w.Running && !w.Stopping && w.Role != dbaas.RoleNone && !w.Registered
	})
	return o
}

func membersOf(ctx context.Context, session coord.Session) (map[dbaas.WorkerID]coord.Member, bool) {
	if session == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, coordTimeout)
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

// look updates the view: how many slaves serve, and since when there has been no slave or no master. returning means that
// the session is new: then a running worker that has lost its registration still counts as serving, since the coordinator
// lost the registration.
func (l *Loop) look(instances []launch.Instance, members map[dbaas.WorkerID]coord.Member, up, returning bool, now time.Time) {
	l.view.instances, l.view.listed = instances, l.listed
	if up {
		l.view.members = members
	}
	slaves, masters := 0, 0
	for _, in := range instances {
		m := l.memory[in.ID]
		if !in.Running || m == nil || m.stopping {
			continue
		}
		member, registered := l.view.members[in.ID]
		if returning && !registered && !m.lostAt.IsZero() {
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
