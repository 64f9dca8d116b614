package system

import (
	"context"
	"sync"

	"rideshare/internal/telemetry"
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
	return map[[2]string]int{{control.EventRole}: 0, {control.EventMembership}: 0, {control.EventScale}: 0}
}

// event publishes a change, and counts it.
func (c *orchestratorParts) event(kind string, data any) {
	c.kinds.add([2]string{kind})
	if e, ok := data.(control.WorkerEvent); ok {
		c.changes.add([2]string{string(e.Role), e.Change})
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
		c.kinds.metric("rideshare_events_total", "Events of /api/v1/events, by kind: role, membership, and scale for another number of wanted slaves.", "kind"),
		c.changes.metric("rideshare_worker_changes_total", "Changes of roles and membership: assigned, serving, lost, died.", "role", "change"),
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
