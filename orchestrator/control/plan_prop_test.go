package control_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/control"

	"pgregory.net/rapid"
)

// cluster is a model of engine, coordinator and workers that carries plans out,
// with answers that come late or not at all.
type cluster struct {
	now      time.Time
	workers  []control.Worker
	starting int
	nextPID  int
	epoch    dbaas.Epoch
	away     bool
	since    time.Time // of the orchestrator's session at the coordinator
	busSince time.Time // zero while the orchestrator has no bus
	noKills  bool      // the engine fails to kill workers
	hosts    []host    // none: one launcher without a name
}

// host is one host of several.
type host struct {
	name         string
	silentSince  time.Time // zero while its launcher answers
	answersSince time.Time
	lost         bool
	starting     int
}

// on returns the host of a worker, or the zero host.
func (c *cluster) on(w control.Worker) host {
	for _, h := range c.hosts {
		if h.name == w.Host {
			return h
		}
	}
	return host{}
}

func (c *cluster) observe() control.Observed {
	o := control.Observed{
		Now: c.now, CoordinatorUp: !c.away, CoordinatorSince: c.since, BusSince: c.busSince, Starting: c.starting,
	}
	for _, w := range c.workers {
		h := c.on(w)
		w.SilentSince, w.AnswersSince, w.HostLost = h.silentSince, h.answersSince, h.lost
		o.Workers = append(o.Workers, w)
	}
	for _, h := range c.hosts {
		o.Hosts = append(o.Hosts, control.Host{Name: h.name, Answers: h.silentSince.IsZero(), Starting: h.starting})
	}
	return o
}

func (c *cluster) find(id dbaas.WorkerID) *control.Worker {
	i := slices.IndexFunc(c.workers, func(w control.Worker) bool { return w.ID == id })
	return &c.workers[i]
}

// carryOut does the actions, except those for which drop returns true: they are lost.
func (c *cluster) carryOut(t *rapid.T, actions []control.Action, drop func() bool) {
	for _, a := range actions {
		if a.Kind == control.ActionPromote {
			c.mustHaveNoMaster(t)
		}
		c.mustReach(t, a)
		if a.Reason == "bus lost" {
			c.mustBeAlone(t, a.Worker)
		}
		if a.Reason == "persdb lost" {
			c.mustBeFollowed(t, a.Worker)
		}
		if a.Reason == "hung" && !slices.ContainsFunc(c.workers, func(w control.Worker) bool { return w.ID != a.Worker && w.Running && w.Hung == "" }) {
			t.Fatalf("%s is killed for a hang, and nobody else goes on: %+v", a.Worker, c.workers)
		}
		if a.Kind == control.ActionDemote {
			// Whether the master's answer arrives or not, the epoch that is claimed next fences it.
			c.find(a.Worker).Epoch = 0
		}
		if drop() {
			continue
		}
		c.apply(a)
	}
}

// mustHaveNoMaster is the rule that an election must not break: the master of the newest epoch, the only one that can
// commit, does not run, was demoted, has left by itself, or could not be killed for long enough.
func (c *cluster) mustHaveNoMaster(t *rapid.T) {
	for _, w := range c.workers {
		left := w.Leaving && !w.Registered
		hopeless := !w.KillSince.IsZero() && c.now.Sub(w.KillSince) >= planLimits.Session
		h := c.on(w)
		gone := h.lost || !h.silentSince.IsZero() && !w.Registered // it is on a host that nobody reaches
		if w.Running && w.Role == dbaas.RoleMaster && w.Epoch == c.epoch && !left && !hopeless && !gone {
			t.Fatalf("promotion while %s is master and runs: %+v", w.ID, c.workers)
		}
	}
}

// mustBeAlone is the rule for killing a worker that has lost the bus: this orchestrator and another worker have the bus.
func (c *cluster) mustBeAlone(t *rapid.T, id dbaas.WorkerID) {
	other := slices.ContainsFunc(c.workers, func(w control.Worker) bool {
		return w.ID != id && w.Registered && w.BusLostAt.IsZero()
	})
	if lost := c.find(id).BusLostAt; !other || lost.IsZero() || c.busSince.IsZero() || c.now.Sub(lost) < planLimits.Bus || c.now.Sub(c.busSince) < planLimits.Bus {
		t.Fatalf("%s is killed for having lost the bus, with our own since %v: %+v", id, c.busSince, c.workers)
	}
}

// mustBeFollowed is the rule for replacing a worker that has lost persdb: it is the master, and a slave has persdb.
func (c *cluster) mustBeFollowed(t *rapid.T, id dbaas.WorkerID) {
	other := slices.ContainsFunc(c.workers, func(w control.Worker) bool {
		return w.Role == dbaas.RoleSlave && w.Registered && !w.PersdbLost
	})
	if w := c.find(id); !other || !w.PersdbLost || w.Role != dbaas.RoleMaster {
		t.Fatalf("%s is replaced for having lost persdb: %+v", id, c.workers)
	}
}

// mustReach is the rule for hosts that do not answer: nothing is done there, except that a master may be told to end or
// to become a slave.
func (c *cluster) mustReach(t *rapid.T, a control.Action) {
	if len(c.hosts) == 0 {
		return
	}
	var h host
	for _, one := range c.hosts {
		if one.name == a.Host {
			h = one
		}
	}
	if h.name == "" || !h.silentSince.IsZero() && a.Kind != control.ActionDemote && a.Kind != control.ActionFence && (a.Kind != control.ActionKill || c.find(a.Worker).Role != dbaas.RoleMaster) {
		t.Fatalf("%v on host %q, which does not answer: %+v", a, a.Host, c.hosts)
	}
}

func (c *cluster) apply(a control.Action) {
	switch a.Kind {
	case control.ActionStart:
		c.starting++
		for i := range c.hosts {
			if c.hosts[i].name == a.Host {
				c.hosts[i].starting++
			}
		}
	case control.ActionKill:
		w := c.find(a.Worker)
		if w.KillSince.IsZero() {
			w.KillSince = c.now
		}
		if !c.noKills && c.on(*w).silentSince.IsZero() {
			w.Running, w.Registered = false, false
		}
	case control.ActionDemote:
		w := c.find(a.Worker)
		w.Role, w.RoleSince, w.Registered, w.YieldTo = dbaas.RoleSlave, c.now, false, ""
	case control.ActionStop, control.ActionRemove:
		c.workers = slices.DeleteFunc(c.workers, func(w control.Worker) bool { return w.ID == a.Worker })
	case control.ActionFence:
		c.epoch++
	case control.ActionPromote:
		c.epoch++
		w := c.find(a.Worker)
		w.Role, w.Epoch, w.RoleSince, w.Registered, w.LostAt = dbaas.RoleMaster, c.epoch, c.now, false, time.Time{}
	case control.ActionAssignSlave:
		w := c.find(a.Worker)
		w.Role, w.RoleSince = dbaas.RoleSlave, c.now
	}
}

// reconcile lets everything under way finish: starts appear, roles register.
func (c *cluster) reconcile() {
	for i := range c.hosts { // on a silent host, starts are answered by nobody
		for ; c.hosts[i].starting > 0; c.hosts[i].starting-- {
			c.starting--
			c.nextPID++
			c.workers = append(c.workers, control.Worker{ID: dbaas.WorkerID(fmt.Sprintf("w%d", c.nextPID)), PID: c.nextPID/3 + 1, Host: c.hosts[i].name, Running: true})
		}
	}
	for ; c.starting > 0; c.starting-- {
		c.nextPID++
		c.workers = append(c.workers, control.Worker{ID: dbaas.WorkerID(fmt.Sprintf("w%d", c.nextPID)), PID: c.nextPID, Running: true})
	}
	for i := range c.workers {
		w := &c.workers[i]
		switch {
		case w.Role != dbaas.RoleMaster || !w.Registered:
			w.YieldTo = "" // forgotten with the master's role
		case w.Leaving && !c.away:
			w.Running, w.Registered = false, false // its own time limit is over
		}
		if w.Running && w.Role != dbaas.RoleNone && !c.away && !c.on(*w).lost {
			w.Registered, w.LostAt = true, time.Time{}
		}
	}
	c.now = c.now.Add(time.Second)
}

// disturb does one random thing to the cluster.
func (c *cluster) disturb(t *rapid.T) {
	c.now = c.now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
	switch rapid.IntRange(0, 13).Draw(t, "event") {
	case 11, 12:
		if len(c.hosts) > 0 {
			c.toggle(t, &c.hosts[rapid.IntRange(0, len(c.hosts)-1).Draw(t, "host")])
		}
	case 0:
		c.away, c.since = !c.away, c.now
	case 1:
		for i := range c.workers {
			c.lose(i)
		}
	case 2, 3:
		if len(c.workers) > 0 {
			i := rapid.IntRange(0, len(c.workers)-1).Draw(t, "victim")
			c.workers[i].Running, c.workers[i].Registered = false, false
		}
	case 4:
		if len(c.workers) > 0 {
			c.lose(rapid.IntRange(0, len(c.workers)-1).Draw(t, "cut off"))
		}
	case 5:
		c.noKills = !c.noKills
	case 6:
		if len(c.workers) > 0 {
			c.workers[rapid.IntRange(0, len(c.workers)-1).Draw(t, "leaves")].Leaving = true
		}
	case 8:
		if len(c.workers) > 0 {
			c.workers[rapid.IntRange(0, len(c.workers)-1).Draw(t, "loses the bus")].BusLostAt = c.now
		}
	case 13:
		if len(c.workers) > 0 {
			c.workers[rapid.IntRange(0, len(c.workers)-1).Draw(t, "loses persdb")].PersdbLost = true
		}
	case 10:
		if len(c.workers) > 0 {
			c.workers[rapid.IntRange(0, len(c.workers)-1).Draw(t, "hangs")].Hung = "hung"
		}
	case 9:
		c.ownBus(!c.busSince.IsZero())
	case 7:
		if len(c.workers) > 1 {
			from, to := rapid.IntRange(0, len(c.workers)-1).Draw(t, "yields"), rapid.IntRange(0, len(c.workers)-1).Draw(t, "to")
			c.workers[from].YieldTo = c.workers[to].ID
		}
	}
}

// toggle takes a host away, or only its launcher, or brings it back.
func (c *cluster) toggle(t *rapid.T, h *host) {
	if !h.silentSince.IsZero() {
		h.silentSince, h.answersSince, h.lost = time.Time{}, c.now, false
		return
	}
	h.silentSince, h.lost = c.now, rapid.Bool().Draw(t, "with its workers")
	for i, w := range c.workers {
		if h.lost && w.Host == h.name && rapid.Bool().Draw(t, "session ends") {
			c.lose(i)
		}
	}
}

func (c *cluster) ownBus(lost bool) {
	c.busSince = c.now
	if lost {
		c.busSince = time.Time{}
	}
}

func (c *cluster) lose(i int) {
	if w := &c.workers[i]; w.Registered {
		w.Registered, w.LostAt = false, c.now
	}
}

func (c *cluster) count(role dbaas.Role) int {
	n := 0
	for _, w := range c.workers {
		if w.Running && w.Role == role && w.Registered {
			n++
		}
	}
	return n
}

// From every state that deaths, losses, late and lost answers and time can reach,
// the plan converges to one master and the wanted slaves once the faults end, and never promotes
// beside a running master.
func TestPlan_RandomFaults_Converges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{now: planNow, busSince: planNow}
		if rapid.Bool().Draw(t, "several hosts") {
			c.hosts = []host{{name: "a"}, {name: "b"}, {name: "c"}}
		}
		desired := control.Desired{Slaves: rapid.IntRange(1, 5).Draw(t, "slaves")}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			c.disturb(t)
			c.carryOut(t, control.Plan(c.observe(), desired, planLimits), func() bool { return rapid.Bool().Draw(t, "lost") })
			if rapid.Bool().Draw(t, "settles") {
				c.reconcile()
			}
		}
		c.away, c.noKills = false, false
		c.ownBus(false)
		for i := range c.hosts {
			if h := &c.hosts[i]; !h.silentSince.IsZero() {
				c.toggle(t, h)
			}
		}
		for i := range c.workers { // wishes to yield are forgotten, and leaving workers have gone
			c.workers[i].YieldTo, c.workers[i].BusLostAt, c.workers[i].Hung, c.workers[i].PersdbLost = "", time.Time{}, "", false
			c.workers[i].Running = c.workers[i].Running && !c.workers[i].Leaving
		}
		for range 80 {
			c.carryOut(t, control.Plan(c.observe(), desired, planLimits), func() bool { return false })
			c.reconcile()
		}
		if rest := control.Plan(c.observe(), desired, planLimits); len(rest) > 0 {
			t.Fatalf("still wants %v with %+v", kinds(rest), c.workers)
		}
		if c.count(dbaas.RoleMaster) != 1 || c.count(dbaas.RoleSlave) != desired.Slaves || len(c.workers) != 1+desired.Slaves {
			t.Fatalf("got %+v, want one master and %d slaves", c.workers, desired.Slaves)
		}
	})
}
