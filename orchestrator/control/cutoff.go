package control

import (
	"slices"
	"time"

	"rideshare/internal/dbaas"
)

// persdbPatience is how long a master may be without persdb while a slave has it. It is longer than two workers may differ in when
// they notice the begin or the end of an outage: two seconds between two questions, two without an answer, half a second until the
// registration says so.
const persdbPatience = 5 * time.Second

// replaceCutOff replaces a master that alone has lost persdb. The epoch is claimed before the kill. If persdb is away for all, the
// claim fails, and the master is left alone.
func (p *planner) replaceCutOff() {
	live := p.live()
	long := func(w Worker) bool { return p.observed.Now.Sub(w.PersdbSince) >= p.limits.Persdb }
	i := slices.IndexFunc(live, func(w Worker) bool {
		return w.Role == dbaas.RoleMaster && w.Registered && w.PersdbLost && long(w) && stays(w) && w.YieldTo == ""
	})
	successor := slices.ContainsFunc(live, func(w Worker) bool { return w.Role == dbaas.RoleSlave && follows(w) && long(w) })
	if i < 0 || !successor || p.away {
		return
	}
	p.add(ActionFence, live[i], "persdb lost")
	p.kill(live[i], "persdb lost")
}

// follows reports whether a worker can take the master's role and commit: it is fit and has persdb.
func follows(w Worker) bool { return fit(w) && !w.PersdbLost }
