package control

import (
	"cmp"
	"slices"
	"time"

	"rideshare/internal/dbaas"
)

// Worker is one worker as a pass sees it. It combines what the engine, the coordinator and
// the loop's memory know of the worker.
type Worker struct {
	ID   dbaas.WorkerID
	PID  int
	Host string
	// SilentSince is since when the launcher of the worker's host has not answered; zero while it answers. Meanwhile
	// Running is what the launcher last said, or true if the worker is registered.
	SilentSince time.Time
	// AnswersSince is when that launcher last began to answer; zero with one launcher.
	AnswersSince time.Time
	// HostLost reports that the worker's host is lost.
	HostLost bool
	Running  bool
	// Role is the role that the loop assigned to the worker or found it with; RoleNone if it has none yet.
	Role  dbaas.Role
	Epoch dbaas.Epoch
	// RoleSince is when the worker got its role or, if it has none, first failed to accept one; zero if neither happened.
	RoleSince time.Time
	// ProgressAt is when the worker was last seen to make progress towards serving in its role; zero if never.
	ProgressAt time.Time
	// Found workers were running before this loop started. Even if Role is RoleNone, a Found worker may have a
	// role and be about to register with it.
	Found bool
	// Proven workers have been registered, are Found, or were let go on purpose. If any other worker dies or has to be killed,
	// its host may be unable to run workers.
	Proven bool
	// Registered reports whether the worker is now registered in the coordinator with this role. Only
	// registered workers are caught up.
	Registered bool
	// LostAt is when the worker was first seen without its registration; zero while it has one.
	LostAt time.Time
	// BusLostAt is when the worker was first seen without the bus; zero while it has the bus.
	BusLostAt time.Time
	// PersdbLost workers have long had no answer of persdb. PersdbSince is since when the loop has seen that, or the contrary.
	PersdbLost  bool
	PersdbSince time.Time
	// Hung says why the worker counts as hung; "" if it does not.
	Hung string
	// CertainlyHung workers have themselves reported the same stuck part for certainTicks ticks. Such a master is killed
	// even if no slave can succeed it.
	CertainlyHung bool
	// NoReplica workers are registered but are fetching their replica again: they cannot serve reads now.
	NoReplica bool
	// Rebuilding workers are fetching a new replica. Those with NoReplica false serve reads from their old one, but a master could
	// not write before it has the new one.
	Rebuilding bool
	// Leaving workers have announced that they are shutting down. They get no role and are replaced.
	Leaving bool
	// YieldTo is the slave to which a master wants to hand its role over.
	YieldTo dbaas.WorkerID
	// Assigning workers are being assigned the slave's role.
	Assigning bool
	// Stopping workers are being killed, stopped or removed. They do not count as workers that serve.
	Stopping bool
	// KillSince is when the loop first tried to kill the worker; zero if it never did.
	KillSince time.Time
}

// Observed is what one pass saw.
type Observed struct {
	Now     time.Time
	Workers []Worker
	// CoordinatorUp is false while the coordinator cannot be read; then
	// Registered and LostAt have no meaning.
	CoordinatorUp bool
	// CoordinatorSince is when the loop opened its present session. Workers that lost their sessions together with
	// the loop need time to register again.
	CoordinatorSince time.Time
	// BusSince is the time since which this orchestrator has had the bus; zero while it does not have the bus.
	BusSince time.Time
	// Starting is how many starts are under way.
	Starting int
	// Hosts are the hosts, by name, if the launchers have names.
	Hosts []Host
}

// Desired is the desired state: one master and this many slaves.
type Desired struct {
	Slaves int
}

// Limits are the times after which the plan ends a worker.
type Limits struct {
	// Session is how long the coordinator keeps a silent session. The plan waits this long after the
	// registrations of most workers vanish together, or after the loop got a new session: then the
	// coordinator was away, not the workers.
	Session time.Duration
	// Reregister is how long a worker may take to register again after it changed its session.
	Reregister time.Duration
	// Bus is how long a worker may be without the bus while others have it.
	Bus time.Duration
	// Persdb is how long a master may be without persdb while a slave that could succeed it has it.
	Persdb time.Duration
	// Ready is how long a worker may take to accept a role, and then how long it may go without progress until it is
	// registered with that role.
	Ready time.Duration
}

// ActionKind says what an Action does.
type ActionKind string

// The actions.
const (
	ActionStart       ActionKind = "start"       // start one worker
	ActionKill        ActionKind = "kill"        // end a worker immediately
	ActionStop        ActionKind = "stop"        // let a worker finish and leave
	ActionRemove      ActionKind = "remove"      // forget a dead worker
	ActionFence       ActionKind = "fence"       // claim a new epoch, so that the master can commit nothing more
	ActionDemote      ActionKind = "demote"      // let a master finish and become a slave
	ActionPromote     ActionKind = "promote"     // claim a new epoch and make a worker master
	ActionAssignSlave ActionKind = "assignSlave" // make a worker a slave
)

// Action is one thing to do. Reason is for the log.
type Action struct {
	Kind   ActionKind
	Worker dbaas.WorkerID
	PID    int
	Host   string // of the worker, or of the worker to start
	Reason string
}

// Plan returns the next actions that lead from the observed to the desired state, in order.
//
// Plan is a pure function: no clock, no engine, no coordinator. It depends on the observed state,
// not on past events, so that any pass may be lost or run twice. While the coordinator is away,
// Plan only removes dead workers: no elections and no scaling.
//
// Plan never promotes a worker while another master still runs, unless the old master
//   - is demoted by the action just before,
//   - has finished and is leaving,
//   - could not be killed for one session length, or
//   - is written off with its host: then only persdb keeps it from writing.
func Plan(o Observed, d Desired, l Limits) []Action {
	p := planner{observed: o, desired: d, limits: l, workers: o.Workers, killed: map[dbaas.WorkerID]bool{}, hosts: slices.Clone(o.Hosts)}
	p.removeDead()
	if !o.CoordinatorUp {
		return p.actions
	}
	p.away = p.massLoss() || o.returning(l.Session)
	p.workers = filter(o.Workers, func(w Worker) bool { return !p.writtenOff(w) })
	p.killSilent()
	p.killCutOff()
	p.killHung()
	if p.settleMaster() {
		p.settleSlaves()
	}
	p.replaceCutOff()
	return p.actions
}

type planner struct {
	observed Observed
	desired  Desired
	limits   Limits
	workers  []Worker // without those that are written off
	away     bool     // the coordinator was away: most workers will register again by themselves
	hosts    []Host   // with the starts of this plan
	actions  []Action
	killed   map[dbaas.WorkerID]bool
	demoted  int // demoted masters that stay as slaves
}

func (p *planner) add(kind ActionKind, w Worker, reason string) {
	p.actions = append(p.actions, Action{Kind: kind, Worker: w.ID, PID: w.PID, Host: w.Host, Reason: reason})
}

// kill ends a worker. A slave of a silent host is left alone, since nothing depends on its death.
func (p *planner) kill(w Worker, reason string) {
	if w.reachable() || w.Role == dbaas.RoleMaster {
		p.add(ActionKill, w, reason)
		p.killed[w.ID] = true
		if !w.Proven {
			p.fails(w.Host)
		}
	}
}

func (p *planner) removeDead() {
	for _, w := range p.observed.Workers {
		if !w.Running && !w.Stopping && w.reachable() {
			p.add(ActionRemove, w, "dead")
		}
	}
}

// live returns the workers that run and are not being ended, by pid, then host, then id.
func (p *planner) live() []Worker {
	live := filter(p.workers, func(w Worker) bool { return w.Running && !w.Stopping && !p.killed[w.ID] })
	slices.SortFunc(live, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Host, b.Host), cmp.Compare(a.ID, b.ID))
	})
	return live
}

// killSilent kills workers that should be registered with their role by now and are not, because they
// hang, are cut off or never became ready. Without the broker no slave becomes ready, so only the time with it counts.
func (p *planner) killSilent() {
	for _, w := range p.live() {
		if w.Registered || w.RoleSince.IsZero() || !w.reachable() {
			continue
		}
		since, patience, reason := latest(w.RoleSince, w.ProgressAt, p.observed.BusSince), p.limits.Ready, "no progress"
		if !w.LostAt.IsZero() {
			since, patience, reason = w.LostAt, p.limits.Reregister, "registration lost"
			if p.away || w.Role != dbaas.RoleMaster || w.Leaving {
				patience = p.limits.Session
			}
		} else if p.observed.BusSince.IsZero() {
			continue
		}
		since = latest(since, w.AnswersSince) // before that the whole host was away
		if p.observed.Now.Sub(since) >= patience {
			p.kill(w, reason)
		}
	}
}

// killCutOff kills workers that have been without the bus for too long: the master, and slaves one at a time. It
// does so only if this orchestrator and another worker have the bus. Otherwise the broker is away, and a
// replacement could not serve either.
func (p *planner) killCutOff() {
	o := p.observed
	live := p.live()
	served := slices.ContainsFunc(live, func(w Worker) bool { return w.Registered && w.BusLostAt.IsZero() && stays(w) })
	if !served || o.BusSince.IsZero() || o.Now.Sub(o.BusSince) < p.limits.Bus {
		return
	}
	cutOff := filter(live, func(w Worker) bool {
		return w.Registered && !w.BusLostAt.IsZero() && o.Now.Sub(w.BusLostAt) >= p.limits.Bus
	})
	for _, w := range cutOff {
		if w.Role == dbaas.RoleMaster || !p.unsettled() {
			p.kill(w, "bus lost")
		}
	}
}

// unsettled reports whether a worker is about to start or to stop serving.
func (p *planner) unsettled() bool {
	return p.observed.Starting > 0 || slices.ContainsFunc(p.workers, func(w Worker) bool {
		return w.Running && (w.Stopping || p.killed[w.ID] || !w.Registered)
	})
}

// killHung kills a hung worker that is not leaving if one of these holds:
//   - Another slave can do its work.
//   - The worker is a master that certainly hangs: its session may never end.
//   - The worker is a slave, another registered worker does not hang, and no worker is about to start or to stop
//     serving. If slow slaves are mistaken for hung ones, their replacements must not slow down the others.
func (p *planner) killHung() {
	for _, w := range p.live() {
		if w.Hung == "" || !stays(w) {
			continue
		}
		others := filter(p.live(), func(o Worker) bool { return o.ID != w.ID && o.Registered && o.Hung == "" })
		able := fit
		if w.Role == dbaas.RoleSlave {
			able = serves
		}
		successor := slices.ContainsFunc(others, func(o Worker) bool { return o.Role == dbaas.RoleSlave && able(o) })
		hopeless := w.Role == dbaas.RoleMaster && w.CertainlyHung
		if successor || hopeless || w.Role == dbaas.RoleSlave && len(others) > 0 && !p.unsettled() {
			p.kill(w, w.Hung)
		}
	}
}

// massLoss reports whether most of the running workers that were registered no longer are.
// Then the coordinator was away, and the workers will register again by themselves. Silent hosts say nothing about that.
func (p *planner) massLoss() bool {
	lost, known := 0, 0
	for _, w := range filter(p.live(), Worker.reachable) {
		if w.Registered || !w.LostAt.IsZero() {
			known++
		}
		if !w.Registered && !w.LostAt.IsZero() {
			lost++
		}
	}
	return known > 1 && 2*lost > known
}

// returning reports whether the loop's session is so new that workers may still be about to register again. session is
// how long the coordinator keeps a silent session.
func (o *Observed) returning(session time.Duration) bool {
	return o.Now.Sub(o.CoordinatorSince) < session
}

func (p *planner) settleSlaves() {
	slaves := filter(p.live(), func(w Worker) bool {
		return w.Role != dbaas.RoleMaster && stays(w) && !p.promoted(w.ID)
	})
	for range p.desired.Slaves - len(slaves) - p.demoted - p.observed.Starting {
		p.start("slave wanted")
	}
	for len(slaves) > 0 && len(slaves)+p.demoted > p.desired.Slaves {
		i := p.surplus(slaves)
		if i < 0 {
			break
		}
		p.add(ActionStop, slaves[i], "fewer slaves wanted")
		slaves = slices.Delete(slaves, i, i+1)
	}
	for _, w := range slaves {
		if w.Role == dbaas.RoleNone && !w.Assigning && w.reachable() {
			p.add(ActionAssignSlave, w, "has no role")
		}
	}
}

func (p *planner) start(reason string) {
	host, ok := p.place()
	if ok {
		p.actions = append(p.actions, Action{Kind: ActionStart, Host: host, Reason: reason})
	}
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

func filter(workers []Worker, keep func(Worker) bool) []Worker {
	var out []Worker
	for _, w := range workers {
		if keep(w) {
			out = append(out, w)
		}
	}
	return out
}
