package control

import (
	"cmp"
	"slices"

	"rideshare/internal/dbaas"
)

// settleMaster makes sure that there is a master. It reports whether a master exists or is being promoted.
// Only then may slaves be started: the master is always started first and alone.
func (p *planner) settleMaster() bool {
	live := p.live()
	// A master that is leaving and has withdrawn its registration has finished.
	masters := filter(live, func(w Worker) bool { return w.Role == dbaas.RoleMaster && (w.Registered || !w.Leaving) })
	if len(masters) > 0 {
		newest := p.newest(masters)
		if !p.masterDying() {
			p.handOver(newest, live)
		}
		return true
	}
	if p.masterDying() || p.masterReturning(live) {
		return false
	}
	if candidate, ok := successor(live); ok {
		p.add(ActionPromote, candidate, "no master")
		return true
	}
	if !slices.ContainsFunc(live, electable) && p.observed.Starting == 0 {
		p.start("no worker")
	}
	return false
}

// newestOf returns the master with the newest epoch.
func newestOf(masters []Worker) Worker {
	return slices.MaxFunc(masters, func(a, b Worker) int { return cmp.Compare(a.Epoch, b.Epoch) })
}

// newest returns the master with the newest epoch and kills all others.
func (p *planner) newest(masters []Worker) Worker {
	newest := newestOf(masters)
	for _, w := range masters {
		if w.ID != newest.ID && w.reachable() {
			p.kill(w, "a newer master exists")
		}
	}
	return newest
}

// handOver moves the master's role to a slave if the master is leaving or wants to yield, as soon as there is a
// caught-up slave to take the role.
func (p *planner) handOver(master Worker, live []Worker) {
	if !master.Registered || !master.Leaving && master.YieldTo == "" {
		return
	}
	i := slices.IndexFunc(live, func(w Worker) bool {
		meant := master.Leaving || w.ID == master.YieldTo
		return meant && follows(w) && w.Role == dbaas.RoleSlave
	})
	if i < 0 {
		return
	}
	p.add(ActionDemote, master, "hands its role over")
	p.add(ActionPromote, live[i], "takes the role over")
	if stays(master) {
		p.demoted++
	}
}

// masterDying reports whether a master that is being ended may still run. Until it is confirmed dead no other worker is
// promoted. If the engine cannot kill it for one session length, the election continues.
func (p *planner) masterDying() bool {
	return slices.ContainsFunc(p.workers, func(w Worker) bool {
		dying := w.Running && w.Role == dbaas.RoleMaster && (p.killed[w.ID] || w.Stopping)
		return dying && (w.KillSince.IsZero() || p.observed.Now.Sub(w.KillSince) < p.limits.Session)
	})
}

// masterReturning reports whether one of the workers may be a master that is about to register again: the
// coordinator is only just back, no worker is known as master, and a worker found at the start has an unknown role.
func (p *planner) masterReturning(live []Worker) bool {
	known := slices.ContainsFunc(p.observed.Workers, func(w Worker) bool { return w.Role == dbaas.RoleMaster })
	unknown := slices.ContainsFunc(live, func(w Worker) bool { return w.Found && w.Role == dbaas.RoleNone })
	return p.observed.returning(p.limits.Session) && unknown && !known
}

// electable reports whether a worker can be promoted: it is not leaving, its host answers, and the engine has reported its pid,
// without which it takes no role.
func electable(w Worker) bool { return stays(w) && w.reachable() && w.PID > 0 }

// successor picks the next master from the first group of electable workers that is not empty: fit, with persdb; fit; registered,
// with the bus; registered; any (as at the very first start). Within the group it picks by pid, then host, then id. Any
// choice is safe, since persdb has the authoritative data.
func successor(live []Worker) (Worker, bool) {
	live = filter(live, electable)
	for _, group := range []func(Worker) bool{
		follows,
		fit,
		func(w Worker) bool { return w.Registered && w.BusLostAt.IsZero() },
		func(w Worker) bool { return w.Registered },
		func(Worker) bool { return true },
	} {
		if i := slices.IndexFunc(live, group); i >= 0 {
			return live[i], true
		}
	}
	return Worker{}, false
}

// fit reports whether a worker can take a role now: it serves, and its replica follows the log.
func fit(w Worker) bool { return serves(w) && !w.Rebuilding }

// serves reports whether a worker can serve reads as a slave: it is registered, has the bus and a replica, does not hang, and is
// electable.
func serves(w Worker) bool {
	return electable(w) && w.Registered && w.BusLostAt.IsZero() && !w.NoReplica && w.Hung == ""
}

// stays reports whether a worker has not announced that it is shutting down.
func stays(w Worker) bool { return !w.Leaving }

func (p *planner) promoted(id dbaas.WorkerID) bool {
	return slices.ContainsFunc(p.actions, func(a Action) bool { return a.Kind == ActionPromote && a.Worker == id })
}
