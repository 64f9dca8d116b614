package control

import (
	"cmp"
	"slices"
	"time"

	"rideshare/internal/dbaas"
)

// Worker is one worker as a pass sees it: the engine's, the coordinator's and
// our own knowledge of it, put together.
type Worker struct {
	ID      dbaas.WorkerID
	PID     int
	Running bool
	// Role is the role that we gave it, or found it with; RoleNone if none yet.
	Role  dbaas.Role
	Epoch dbaas.Epoch
	// RoleSince is when it got the role, or, without one, first failed to take one; zero if it never did.
	RoleSince time.Time
	// ProgressAt is when it was last seen to have come nearer to serving in its role; zero if it never was.
	ProgressAt time.Time
	// Found workers ran before this loop did: one without a role may have one, and be about to register with it.
	Found bool
	// Registered tells whether the coordinator knows it now, with this role. Only
	// registered workers are caught up.
	Registered bool
	// LostAt is when its registration was found gone; zero while it has any.
	LostAt time.Time
	// BusLostAt is when it was first seen to have lost the bus; zero while it has it.
	BusLostAt time.Time
	// NoReplica workers are registered and fetch their replicas again: they can serve no read at the moment.
	NoReplica bool
	// Leaving workers have announced their end: they are given no role and replaced.
	Leaving bool
	// YieldTo is the slave to which a master wants to hand its role over.
	YieldTo dbaas.WorkerID
	// Enlisting workers are being told to be slaves.
	Enlisting bool
	// Stopping workers are being ended, and count for nothing.
	Stopping bool
	// DoomedAt is when it was first to be killed; zero if it never was.
	DoomedAt time.Time
}

// Observed is what one pass saw.
type Observed struct {
	Now     time.Time
	Workers []Worker
	// CoordinatorUp is false while the coordinator cannot be read; then
	// Registered and LostAt have no meaning.
	CoordinatorUp bool
	// CoordinatorSince is since when we have our present session there. Those who lost theirs when we did need
	// a while to register again.
	CoordinatorSince time.Time
	// BusSince is since when we have the bus ourselves; zero while we have not.
	BusSince time.Time
	// Starting is how many starts are under way.
	Starting int
}

// Desired is what should be: one master and this many slaves.
type Desired struct {
	Slaves int
}

// Limits are the times after which the plan loses patience.
type Limits struct {
	// Session is how long the coordinator keeps a silent session. After the
	// registrations of most workers vanish together, or we have a new session ourselves, the plan waits
	// this long, since then the coordinator was away and not the workers.
	Session time.Duration
	// Again is how long a worker may take to register anew after it changed its session.
	Again time.Duration
	// Bus is how long a worker may be without the bus while others have it.
	Bus time.Duration
	// Ready is how long a worker may take to take a role, and be from then without progress until it is registered with it.
	Ready time.Duration
}

// ActionKind says what an Action does.
type ActionKind string

// The actions.
const (
	ActionStart   ActionKind = "start"   // start one worker
	ActionKill    ActionKind = "kill"    // end a worker at once
	ActionStop    ActionKind = "stop"    // let a worker finish and leave
	ActionRemove  ActionKind = "remove"  // forget a dead worker
	ActionDemote  ActionKind = "demote"  // let a master finish and become a slave
	ActionPromote ActionKind = "promote" // new epoch, make it master
	ActionEnlist  ActionKind = "enlist"  // make it a slave
)

// Action is one thing to do. Reason is for the log.
type Action struct {
	Kind   ActionKind
	Worker dbaas.WorkerID
	PID    int
	Reason string
}

// Plan returns what to do next to get from what is to what should be, in order.
//
// It is a pure function: no clock, no engine, no coordinator. It acts on what
// it sees, not on what happened, so that any pass may be lost or run twice. While the coordinator
// is away it only forgets the dead: no elections and no scaling. It never
// promotes a worker while another one that has the master's role still runs, unless
// that one is told to finish just before, has finished and is leaving, or cannot be killed for a
// session's length: then persdb alone keeps it from writing.
func Plan(o Observed, d Desired, l Limits) []Action {
	p := planner{observed: o, desired: d, limits: l}
	p.removeDead()
	if !o.CoordinatorUp {
		return p.actions
	}
	p.killSilent()
	p.killCutOff()
	if p.settleMaster() {
		p.settleSlaves()
	}
	return p.actions
}

type planner struct {
	observed Observed
	desired  Desired
	limits   Limits
	actions  []Action
	killed   map[dbaas.WorkerID]bool
	demoted  int // masters that stay as slaves
}

func (p *planner) add(kind ActionKind, w Worker, reason string) {
	p.actions = append(p.actions, Action{Kind: kind, Worker: w.ID, PID: w.PID, Reason: reason})
}

func (p *planner) removeDead() {
	for _, w := range p.observed.Workers {
		if !w.Running && !w.Stopping {
			p.add(ActionRemove, w, "dead")
		}
	}
}

// live returns the workers that run and stay, by pid, then id.
func (p *planner) live() []Worker {
	var live []Worker
	for _, w := range p.observed.Workers {
		if w.Running && !w.Stopping && !p.killed[w.ID] {
			live = append(live, w)
		}
	}
	slices.SortFunc(live, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.ID, b.ID))
	})
	return live
}

// killSilent ends workers that have a role and are not registered although
// they should be: hung, cut off, or never ready.
func (p *planner) killSilent() {
	p.killed = map[dbaas.WorkerID]bool{}
	away := p.massLoss() || p.returning()
	for _, w := range p.live() {
		if w.Registered || w.RoleSince.IsZero() {
			continue
		}
		since, patience, reason := w.RoleSince, p.limits.Ready, "no progress"
		if w.ProgressAt.After(since) {
			since = w.ProgressAt
		}
		if !w.LostAt.IsZero() {
			since, patience, reason = w.LostAt, p.limits.Again, "registration lost"
			if away || w.Role != dbaas.RoleMaster || w.Leaving {
				patience = p.limits.Session
			}
		}
		if p.observed.Now.Sub(since) < patience {
			continue
		}
		p.add(ActionKill, w, reason)
		p.killed[w.ID] = true
	}
}

// killCutOff ends a worker that can serve nobody, since it has lost the bus for long: the master, else one slave
// at a time. We and another worker must have it: else the broker is away, and who comes instead
// would do no better.
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
	unsettled := func(w Worker) bool { return w.Running && (w.Stopping || p.killed[w.ID] || !w.Registered) }
	for _, w := range cutOff {
		if w.Role == dbaas.RoleMaster || o.Starting == 0 && !slices.ContainsFunc(o.Workers, unsettled) {
			p.add(ActionKill, w, "bus lost")
			p.killed[w.ID] = true
		}
	}
}

// massLoss reports whether most of the workers that were registered are no longer,
// though they run: the coordinator was away, and they will come back by themselves.
func (p *planner) massLoss() bool {
	lost, known := 0, 0
	for _, w := range p.live() {
		if w.Registered || !w.LostAt.IsZero() {
			known++
		}
		if !w.Registered && !w.LostAt.IsZero() {
			lost++
		}
	}
	return known > 1 && 2*lost > known
}

// returning reports whether the coordinator has been back for so short a time that workers may still be about to
// register again.
func (p *planner) returning() bool {
	return p.observed.Now.Sub(p.observed.CoordinatorSince) < p.limits.Session
}

func (p *planner) settleSlaves() {
	slaves := filter(p.live(), func(w Worker) bool {
		return w.Role != dbaas.RoleMaster && stays(w) && !p.promoted(w.ID)
	})
	for range p.desired.Slaves - len(slaves) - p.demoted - p.observed.Starting {
		p.start("slave wanted")
	}
	for len(slaves) > 0 && len(slaves)+p.demoted > p.desired.Slaves {
		last := len(slaves) - 1
		p.add(ActionStop, slaves[last], "fewer slaves wanted")
		slaves = slaves[:last]
	}
	for _, w := range slaves {
		if w.Role == dbaas.RoleNone && !w.Enlisting {
			p.add(ActionEnlist, w, "has no role")
		}
	}
}

func (p *planner) start(reason string) {
	p.actions = append(p.actions, Action{Kind: ActionStart, Reason: reason})
}

func filter(workers []Worker, keep func(Worker) bool) []Worker {
	var out []Worker
	for _, w := range workers {
		if keep(w) {
			out = append(out, w)
		}
	}
	return out
}
