package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/orchestrator/launch"
)

// A host counts as lost once nothing on it has answered for lostAfter.
const lostAfter = 2 * time.Second

// askHostsEvery is how often the workers are asked for a pulse that only shows whether their hosts are lost. It does not depend on
// Config.HungAfter, which may be much longer than lostAfter.
const askHostsEvery = lostAfter / 5

// listing is which workers the launchers listed. With one launcher, without a name, hosts has one host, which answers.
type listing struct {
	instances []launch.Instance
	hosts     []launch.Host
}

// ask asks the launchers which workers run. An error means that no launcher answers.
func (l *Loop) ask(ctx context.Context) (listing, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if all, ok := l.cfg.Launcher.(launch.Hosts); ok {
		instances, hosts := all.Look(ctx)
		if !slices.ContainsFunc(hosts, launch.Host.Answers) {
			return listing{}, fmt.Errorf("%w: no host's launcher answers", launch.ErrUnavailable)
		}
		return listing{instances, hosts}, nil
	}
	began := l.cfg.Now()
	instances, err := l.cfg.Launcher.List(ctx)
	return listing{instances, []launch.Host{{Listed: began}}}, err
}

// list is ask for a pass. In a streak of failures only the first is logged.
func (l *Loop) list(ctx context.Context) (listing, error) {
	now, err := l.ask(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if l.unlisted.Fail() {
			l.cfg.Log.WarnContext(ctx, "workers not listed", logkey.Error, err)
		}
		return listing{}, err
	}
	if failures := l.unlisted.End(); failures > 0 {
		l.cfg.Log.InfoContext(ctx, "workers listed again", logkey.Count, failures)
	}
	return now, nil
}

// host returns the host with that name, or the zero Host.
func (l *listing) host(name string) launch.Host {
	i := slices.IndexFunc(l.hosts, func(h launch.Host) bool { return h.Name == name })
	if i < 0 {
		return launch.Host{}
	}
	return l.hosts[i]
}

// addRegistered adds the workers of silent hosts that are registered and that no list shows.
func (l *listing) addRegistered(members map[dbaas.WorkerID]coord.Member) {
	for _, id := range slices.Sorted(maps.Keys(members)) {
		m := members[id]
		if h := l.host(m.Host); m.Host != "" && h.Name == m.Host && !h.Answers() {
			l.add(id, m)
		}
	}
}

// add adds a registered worker, unless the list shows it.
func (l *listing) add(id dbaas.WorkerID, m coord.Member) {
	if !slices.ContainsFunc(l.instances, func(in launch.Instance) bool { return in.ID == id }) {
		l.instances = append(l.instances, launch.Instance{ID: id, PID: m.PID, Host: m.Host, Control: m.Control, Running: true})
	}
}

// failingFor is how long a host counts as failing after a start has failed there, or a worker that had not served has ended
// there. It is well above Config.Ready, after which the next worker there would be killed.
const failingFor = 5 * time.Minute

// hostsOf returns the hosts as the plan sees them; none if the launcher has no name. The caller holds mu.
func (l *Loop) hostsOf(now listing, starting map[string]string, at time.Time) []Host {
	var out []Host
	for _, h := range now.hosts {
		if h.Name == "" {
			continue
		}
		mine := maps.Clone(starting)
		maps.DeleteFunc(mine, func(_, on string) bool { return on != h.Name })
		out = append(out, Host{Name: h.Name, Answers: h.Answers(), Failing: at.Sub(l.startFailed[h.Name]) < failingFor, Starting: unlisted(mine, now.instances)})
	}
	return out
}

// unsettled reports whether a host has been silent for so short a time that it may be found lost soon.
func (l *listing) unsettled(now time.Time) bool {
	return slices.ContainsFunc(l.hosts, func(h launch.Host) bool {
		return !h.Answers() && now.Sub(h.SilentSince) < 2*lostAfter
	})
}

// gone is Loop.Gone. A worker that no list and no registration shows was on a host that answers, or has lost its
// registration on a silent host.
func (v *view) gone(worker dbaas.WorkerID, since time.Time) bool {
	i := slices.IndexFunc(v.list.instances, func(in launch.Instance) bool { return in.ID == worker })
	if i < 0 {
		older := func(h launch.Host) bool { return h.Answers() && !h.Listed.After(since) }
		return len(v.list.hosts) > 0 && !slices.ContainsFunc(v.list.hosts, older)
	}
	in := v.list.instances[i]
	dead := !in.Running && v.list.host(in.Host).Listed.After(since)
	return dead || v.lost[in.Host].After(since)
}

// judgeHosts finds the lost hosts, whose launcher and workers have not answered for lostAfter. This orchestrator must not be
// cut off itself: a host becomes lost only if the coordinator answers (up), and no pass runs unless some launcher answers.
// The caller holds mu.
func (l *Loop) judgeHosts(ctx context.Context, now listing, up bool, at time.Time) {
	lost := map[string]time.Time{}
	for _, h := range now.hosts {
		before := l.view.lost[h.Name]
		silent := !h.Answers() && at.Sub(h.SilentSince) >= lostAfter && !l.heard(now, h.Name, at)
		switch {
		case silent && !before.IsZero():
			lost[h.Name] = before
		case silent && up:
			lost[h.Name] = at
			l.cfg.Log.WarnContext(ctx, "host lost", logkey.Host, h.Name)
		case !silent && !before.IsZero():
			l.cfg.Log.InfoContext(ctx, "host back", logkey.Host, h.Name, logkey.Took, at.Sub(before))
		}
	}
	l.view.lost = lost
}

// askHosts asks all workers of hosts with names for their pulses, each in a goroutine of its own. A standby asks too, so that its
// verdict is ready when it takes over. After a late tick no worker counts as silent yet.
func (l *Loop) askHosts(ctx context.Context, now time.Time, counts bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := map[dbaas.WorkerID]time.Time{}
	for _, in := range l.view.list.instances {
		m := l.memory[in.ID]
		if m == nil || !in.Running || in.Host == "" {
			continue
		}
		if asked[in.ID] = l.asked[in.ID]; asked[in.ID].IsZero() || !counts {
			asked[in.ID] = now
		}
		l.jobs.Go(func() { l.askPulse(ctx, m, &vital{}, in, lostAfter) })
	}
	l.asked = asked
}

// heard reports whether a worker of a host has answered within lostAfter, or has been asked for less time than that.
func (l *Loop) heard(now listing, host string, at time.Time) bool {
	return slices.ContainsFunc(now.instances, func(in launch.Instance) bool {
		if in.Host != host || !in.Running {
			return false
		}
		last := l.asked[in.ID]
		if m := l.memory[in.ID]; m != nil && m.heardAt.After(last) {
			last = m.heardAt
		}
		return last.IsZero() || at.Sub(last) < lostAfter
	})
}

// absent reports whether a worker of a silent host does not count as a member: the host is lost, the worker is not
// registered, or a newer master has replaced it. The caller holds mu.
func (l *Loop) absent(now listing, in launch.Instance, m *memory) bool {
	if now.host(in.Host).Answers() {
		return false
	}
	_, registered := l.view.members[in.ID]
	replaced := false
	for _, o := range l.memory {
		replaced = replaced || m.role == dbaas.RoleMaster && o.role == dbaas.RoleMaster && o.epoch > m.epoch
	}
	return !registered || replaced || !l.view.lost[in.Host].IsZero()
}

// hostStates returns the states of the hosts as the last pass saw them.
func (v *view) hostStates() []HostState {
	var out []HostState
	for _, h := range v.list.hosts {
		switch {
		case h.Name == "":
		case !v.lost[h.Name].IsZero():
			out = append(out, HostState{h.Name, "lost"})
		case !h.Answers():
			out = append(out, HostState{h.Name, "silent"})
		default:
			out = append(out, HostState{h.Name, "present"})
		}
	}
	return out
}
