package system

import (
	"context"
	"slices"

	"rideshare/internal/dbaas"
	"rideshare/internal/telemetry"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/dispatch"
)

// sampledMetrics returns the counters that the parts keep anyway. It includes those of workers only if they run in this
// process: otherwise each worker exports its own.
func (c *orchestratorParts) sampledMetrics(embedded bool) []telemetry.Sampled {
	all := slices.Concat(c.dispatchMetrics(), c.clusterMetrics(), c.countedMetrics(), StoreMetrics(c.store), BusMetrics(c.conn))
	all = append(append(all, c.depths.metric()), slices.Concat(c.cacheMetrics(), c.changesMetrics())...)
	all = append(all, c.admissionMetrics()...)
	if c.clockDifference != nil {
		all = append(all, ClockMetric(c.clockDifference))
	}
	if embedded {
		all = append(all, WorkerMetrics(func(ctx context.Context) []workerapi.Status {
			statuses, _ := c.statuses(ctx)
			return statuses
		})...)
	}
	return all
}

func (c *orchestratorParts) dispatchMetrics() []telemetry.Sampled {
	lane := func(name, help string, gauge bool, value func(*dispatch.LaneStats) float64) telemetry.Sampled {
		return telemetry.Sampled{
			Name: "rideshare_" + name, Help: help, Gauge: gauge, Labels: []string{"lane"},
			Read: func(emit func(float64, ...string)) {
				for _, s := range c.dispatcher.Stats() {
					emit(value(&s), s.Lane)
				}
			},
		}
	}
	return []telemetry.Sampled{
		lane("dispatch_requests_total", "Requests taken.", false, func(s *dispatch.LaneStats) float64 { return float64(s.Requests) }),
		lane("dispatch_messages_total", "Messages sent.", false, func(s *dispatch.LaneStats) float64 { return float64(s.Messages) }),
		lane("dispatch_refused_total", "Requests refused at once: the lane is full, or no worker serves them.", false, func(s *dispatch.LaneStats) float64 { return float64(s.Refused) }),
		lane("dispatch_timeouts_total", "Requests whose callers gave up before the answer.", false, func(s *dispatch.LaneStats) float64 { return float64(s.Timeouts) }),
		lane("dispatch_sent_total", "Requests that were sent in a message.", false, func(s *dispatch.LaneStats) float64 { return float64(s.Sent) }),
		lane("dispatch_waited_seconds_total", "Time that requests waited before they were sent; divided by rideshare_dispatch_sent_total it is the mean wait.", false, func(s *dispatch.LaneStats) float64 { return s.Waited.Seconds() }),
		lane("dispatch_resent_total", "Messages sent a second time.", false, func(s *dispatch.LaneStats) float64 { return float64(s.Resent) }),
		lane("dispatch_malformed_total", "Replies that were not understood.", false, func(s *dispatch.LaneStats) float64 { return float64(s.Malformed) }),
		lane("dispatch_waiting", "Requests that wait to be sent.", true, func(s *dispatch.LaneStats) float64 { return float64(s.Waiting) }),
		lane("dispatch_in_flight", "Messages without their last reply.", true, func(s *dispatch.LaneStats) float64 { return float64(s.InFlight) }),
		lane("lane_limit", "Most requests that may wait or be in flight.", true, func(s *dispatch.LaneStats) float64 { return float64(s.Limit) }),
	}
}

func (c *orchestratorParts) clusterMetrics() []telemetry.Sampled {
	number := func(name, help string, value func(ctx context.Context) (float64, error)) telemetry.Sampled {
		return telemetry.Sampled{Name: name, Help: help, Gauge: true, Read: func(emit func(float64, ...string)) {
			if v, err := briefly(value); err == nil {
				emit(v)
			}
		}}
	}
	return []telemetry.Sampled{
		number("rideshare_slaves_desired", "Wanted slaves.", func(ctx context.Context) (float64, error) {
			status, err := c.loop.Status(ctx)
			return float64(status.DesiredSlaves), err
		}),
		{
			Name: "rideshare_worker_lag_entries", Help: "Entries that a worker is behind the head; both positions are of the same moment. A worker that does not answer counts with the position that it registered last.", Gauge: true, Labels: []string{"worker", "role"},
			Read: c.readLag,
		},
		{
			Name: "rideshare_workers", Help: "Workers that serve, by role.", Gauge: true, Labels: []string{"role"},
			Read: c.readWorkers,
		},
	}
}

func (c *orchestratorParts) readLag(emit func(float64, ...string)) {
	status, err := briefly(c.cluster().Status)
	if err != nil {
		return
	}
	for _, w := range status.Members {
		emit(float64(w.Lag), string(w.Container), string(w.Role))
	}
}

func (c *orchestratorParts) readWorkers(emit func(float64, ...string)) {
	members, err := briefly(c.loop.Members)
	if err != nil {
		return
	}
	count := map[dbaas.Role]int{dbaas.RoleMaster: 0, dbaas.RoleSlave: 0}
	for _, m := range members {
		if m.Ready {
			count[m.Role]++
		}
	}
	for role, n := range count {
		emit(float64(n), string(role))
	}
}
