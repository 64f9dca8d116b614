package control

import (
	"cmp"
	"slices"

	"rideshare/internal/dbaas"
)

// Host is one host as a pass sees it.
type Host struct {
	Name string
	// Answers reports whether the host's launcher answers.
	Answers bool
	// Failing reports that a start has lately failed on the host, or that a worker has lately ended there before it served.
	Failing bool
	// Starting is how many of Observed.Starting are under way on the host.
	Starting int
}

// reachable reports whether the launcher of the worker's host answers. Otherwise the worker can be neither started, killed
// nor listed, and its registration alone says whether it is there.
func (w Worker) reachable() bool { return w.SilentSince.IsZero() }

// writtenOff reports whether a worker of a silent host no longer counts. It may still run, and counts again when its host
// answers. Until then:
//   - A worker that was last seen dead stays dead.
//   - The master of a lost host does not wait for its session to end.
//   - Any other worker counts as long as it is registered. A worker that has never registered counts for one session length.
func (p *planner) writtenOff(w Worker) bool {
	switch now := p.observed.Now; {
	case w.reachable():
		return false
	case !w.Running || w.HostLost && w.Role == dbaas.RoleMaster:
		return true
	case w.Registered:
		return false
	case w.LostAt.IsZero():
		return now.Sub(w.SilentSince) >= p.limits.Session
	case p.away:
		return now.Sub(w.LostAt) >= p.limits.Session
	default:
		return now.Sub(w.LostAt) >= p.limits.Reregister
	}
}

// place returns the host for a new worker, and counts the worker there: of the hosts that answer, the host with the fewest
// workers; of equal hosts the master's, which has fewer slaves; then the first by name. A failing host comes
// last. ok is false if no host answers. So the master and all slaves share a host only if no other host could take a worker
// when the last of them was started.
func (p *planner) place() (host string, ok bool) {
	if len(p.hosts) == 0 {
		return "", true
	}
	var best *Host
	load, masters := p.load(), p.masterHost()
	before := func(a, b *Host) int {
		return cmp.Or(preferTrue(a.Failing, b.Failing), cmp.Compare(load[a.Name], load[b.Name]), preferTrue(b.Name == masters, a.Name == masters), cmp.Compare(a.Name, b.Name))
	}
	for i := range p.hosts {
		if h := &p.hosts[i]; h.Answers && (best == nil || before(h, best) < 0) {
			best = h
		}
	}
	if best == nil {
		return "", false
	}
	best.Starting++
	return best.Name, true
}

// fails makes a host count as failing for the rest of this plan.
func (p *planner) fails(host string) {
	if i := slices.IndexFunc(p.hosts, func(h Host) bool { return h.Name == host }); i >= 0 {
		p.hosts[i].Failing = true
	}
}

// load returns how many workers each host has, with those that are starting.
func (p *planner) load() map[string]int {
	load := map[string]int{}
	for _, w := range p.live() {
		load[w.Host]++
	}
	for _, h := range p.hosts {
		load[h.Name] += h.Starting
	}
	return load
}

// surplus returns the index of the slave to stop, or -1 to wait. slaves is ordered. Only slaves whose host answers count. It prefers
// a slave that does not serve, then the host with the most workers, then the last slave. While slaves are wanted, it spares the last
// slave that serves and the last slave outside the master's host.
// It waits while a slave of a host that has just come back may register again: otherwise that slave would be stopped, and its host
// would have no worker.
func (p *planner) surplus(slaves []Worker) int {
	if slices.ContainsFunc(slaves, p.comesBack) {
		return -1
	}
	load := p.load()
	for _, a := range p.actions {
		if a.Kind == ActionStop {
			load[p.hostOf(a.Worker)]--
		}
	}
	best := -1
	for i, w := range slaves {
		if !w.reachable() || p.desired.Slaves > 0 && p.needed(w, slaves) {
			continue
		}
		if best < 0 || cmp.Or(preferTrue(!serves(w), !serves(slaves[best])), cmp.Compare(load[w.Host], load[slaves[best].Host])) >= 0 {
			best = i
		}
	}
	return best
}

// comesBack reports whether a worker lost its registration while its host was away, and has not had the time to register again.
func (p *planner) comesBack(w Worker) bool {
	return w.reachable() && !w.LostAt.IsZero() && p.observed.Now.Sub(w.AnswersSince) < p.limits.Session
}

// needed reports whether a slave is the last slave that serves, or the last on another host than the master's.
func (p *planner) needed(w Worker, slaves []Worker) bool {
	others := filter(slaves, func(o Worker) bool { return o.ID != w.ID })
	apart := func(o Worker) bool { return o.Host != p.masterHost() && o.reachable() }
	return serves(w) && !slices.ContainsFunc(others, serves) || apart(w) && !slices.ContainsFunc(others, apart)
}

// masterHost returns the host of the master: of a worker that is being promoted, else of the newest master.
func (p *planner) masterHost() string {
	for _, a := range p.actions {
		if a.Kind == ActionPromote {
			return p.hostOf(a.Worker)
		}
	}
	masters := filter(p.live(), func(w Worker) bool { return w.Role == dbaas.RoleMaster })
	if len(masters) == 0 {
		return ""
	}
	return newestOf(masters).Host
}

func (p *planner) hostOf(id dbaas.WorkerID) string {
	i := slices.IndexFunc(p.workers, func(w Worker) bool { return w.ID == id })
	if i < 0 {
		return ""
	}
	return p.workers[i].Host
}

// preferTrue compares two conditions: true is greater.
func preferTrue(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
