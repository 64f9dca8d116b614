package system

import (
	"context"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/telemetry"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/control"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/scale"
)

// counts counts events by their labels, for metrics. It is safe for concurrent use.
type counts struct {
	mu sync.Mutex // guards by
	by map[[2]string]int
}

func (c *counts) add(labels [2]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[[2]string]int{}
	}
	c.by[labels]++
}

func (c *counts) metric(name, help string, labels ...string) telemetry.Sampled {
	return telemetry.Sampled{Name: name, Help: help, Labels: labels, Read: func(emit func(float64, ...string)) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for values, n := range c.by {
			emit(float64(n), values[:len(labels)]...)
		}
	}}
}

// countedLauncher counts starts by their result.
type countedLauncher struct {
	launch.Launcher
	starts counts
}

func newCountedLauncher(l launch.Launcher) *countedLauncher {
	c := &countedLauncher{Launcher: l}
	c.starts.by = map[[2]string]int{{"ok"}: 0, {"failed"}: 0}
	return c
}

// countedHosts is a countedLauncher for several hosts.
type countedHosts struct {
	*countedLauncher
	hosts launch.Hosts
}

// Look implements launch.Hosts.
func (l countedHosts) Look(ctx context.Context) ([]launch.Instance, []launch.Host) {
	return l.hosts.Look(ctx)
}

// Start implements launch.Launcher.
func (l *countedLauncher) Start(ctx context.Context, startID string) (launch.Instance, error) {
	in, err := l.Launcher.Start(ctx, startID)
	result := "ok"
	if err != nil {
		result = "failed"
	}
	l.starts.add([2]string{result})
	return in, err
}

// eventKinds returns every kind with a count of zero, so that the first increase is visible.
func eventKinds() map[[2]string]int {
	return map[[2]string]int{{control.EventRole}: 0, {control.EventMembership}: 0, {control.EventScale}: 0, {admission.EventBreaker}: 0, {admission.EventLimit}: 0}
}

// losses returns the changes by which workers are lost, with a count of zero, so that the first one raises an alert.
func losses() map[[2]string]int {
	by := map[[2]string]int{}
	for _, role := range []dbaas.Role{dbaas.RoleMaster, dbaas.RoleSlave} {
		for _, change := range []string{"hung", "lost", "died"} {
			by[[2]string{string(role), change}] = 0
		}
	}
	return by
}

// event publishes a change, and counts it.
func (c *orchestratorParts) event(kind string, data any) {
	c.kinds.add([2]string{kind})
	at := time.Now().UTC()
	switch e := data.(type) {
	case control.WorkerEvent:
		c.moves.add([2]string{string(e.Role), e.Change})
		data = struct {
			At time.Time `json:"at"`
			control.WorkerEvent
		}{at, e}
	case control.ScaleEvent:
		data = struct {
			At time.Time `json:"at"`
			control.ScaleEvent
		}{at, e}
	case admission.Change:
		data = struct {
			At time.Time `json:"at"`
			admission.Change
		}{at, e}
	}
	c.events.Add(kind, data)
}

// decided counts a scaling decision.
func (c *orchestratorParts) decided(d scale.Decision) {
	outcome := "overtaken"
	if d.Done {
		outcome = "done"
	}
	c.decisions.add([2]string{d.Policy, outcome})
	c.lastDecision.Store(&d)
}

// countedMetrics returns the metrics that are counted in this package.
func (c *orchestratorParts) countedMetrics() []telemetry.Sampled {
	return []telemetry.Sampled{
		c.starts.metric("rideshare_worker_starts_total", "Workers started, by result: ok or failed.", "result"),
		{
			Name: "rideshare_worker_starts_held_back_total", Help: "Starts of workers that had to wait, since STARTS_PER_MINUTE was reached.",
			Read: func(emit func(float64, ...string)) {
				_, ever := c.loop.StartsHeldBack()
				emit(float64(ever))
			},
		},
		c.kinds.metric("rideshare_events_total", "Events of /api/v1/events, by kind: role, membership, scale for another number of wanted slaves, breaker, and limit for another setting of the protection from overload.", "kind"),
		c.moves.metric("rideshare_worker_changes_total", "Changes of roles and membership: assigned, found, serving, leaving, hung, lost, died.", "role", "change"),
		c.decisions.metric("rideshare_scaling_decisions_total", "Scaling decisions, by outcome: done, or overtaken by the next before they could be written.", "policy", "outcome"),
		{
			Name: "rideshare_scaling_wanted_slaves", Gauge: true, Labels: []string{"policy"},
			Help: "Slaves that each policy wanted at this orchestrator's last decision, also those that were not asked.",
			Read: func(emit func(float64, ...string)) {
				if d := c.lastDecision.Load(); d != nil {
					emit(float64(d.Wanted), d.Policy)
					for _, p := range d.Would {
						emit(float64(p.Wanted), p.Policy)
					}
				}
			},
		},
	}
}

// changesMetrics returns the metrics of the change feed.
func (c *orchestratorParts) changesMetrics() []telemetry.Sampled {
	return []telemetry.Sampled{
		{Name: "rideshare_changes_streams", Gauge: true, Help: "Open streams of /api/v1/changes.", Read: func(emit func(float64, ...string)) {
			emit(float64(c.changes.Status().Streams))
		}},
		{Name: "rideshare_changes_events_total", Help: "Commits sent on streams of /api/v1/changes, counted for each stream.", Read: func(emit func(float64, ...string)) {
			emit(float64(c.changes.Status().Events))
		}},
		{
			Name: "rideshare_changes_cuts_total", Labels: []string{"reason"},
			Help: "Streams of /api/v1/changes that the orchestrator ended, by reason: stall (the consumer took nothing), gone (the log no longer has the next commit), credentials, shutdown.",
			Read: func(emit func(float64, ...string)) {
				for reason, n := range c.changes.Status().Cuts {
					emit(float64(n), reason)
				}
			},
		},
	}
}
