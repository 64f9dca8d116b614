package system

import (
	"context"
	"fmt"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/telemetry"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/dispatch"
)

// newGate returns the protection from overload, or nil if it is off.
func (c *orchestratorParts) newGate(cfg Config, m metrics) (*admission.Gate, error) {
	if cfg.Admission == nil {
		return nil, nil //nolint:nilnil // A nil Gate admits everything.
	}
	waits, err := telemetry.NewWaits(m.registry)
	if err != nil {
		return nil, err
	}
	settings := *cfg.Admission
	settings.Lanes = cfg.Lanes.Settings()
	gate, err := admission.New(admission.Config{
		Log: cfg.Log, Name: cfg.Name, Settings: settings, CallTimeout: cfg.CallTimeout, Store: c.loop,
		Broker: func() bool { return c.conn.Ready() == nil }, Master: c.loop.Master, Slaves: c.loop.Slaves,
		Ready: c.readyWrites, Unanswered: c.unansweredWrites,
		Event:     func(kind string, change admission.Change) { c.event(kind, change) },
		Lanes:     func(lanes admission.Lanes) { c.dispatcher.UseLanes(lanes) },
		LaneStats: func() map[string]admission.LaneStatus { return laneStatus(c.dispatcher.Stats()) },
		Waited:    waits.Observe,
	})
	if err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	return gate, nil
}

func laneStatus(stats []dispatch.LaneStats) map[string]admission.LaneStatus {
	lanes := map[string]admission.LaneStatus{}
	for _, s := range stats {
		lanes[s.Lane] = admission.LaneStatus{Now: s.Waiting + s.HandedOver, Limit: s.Limit, Waiting: s.Waiting}
	}
	return lanes
}

// readyWrites returns how many messages wait in writeQ.
func (c *orchestratorParts) readyWrites(ctx context.Context) (int, error) {
	depths, err := c.meter.Depths(ctx, mq.WriteQ)
	return depths[mq.WriteQ], err
}

// writeLane is the lane of the dispatcher whose messages go to writeQ.
const writeLane = "write"

// unansweredWrites returns how many messages of this orchestrator to writeQ have no answer.
func (c *orchestratorParts) unansweredWrites() int {
	for _, s := range c.dispatcher.Stats() {
		if s.Lane == writeLane {
			return s.InFlight
		}
	}
	return 0
}

func (c *orchestratorParts) dispatchGate() func(mq.Queue, time.Time) error {
	if c.gate == nil {
		return nil
	}
	return c.gate.Check
}

func (c *orchestratorParts) observeMessage(m metrics) func(lane string, requests int) {
	return func(lane string, requests int) {
		m.rpc.ObserveMessage(lane, requests)
		if lane == writeLane {
			c.gate.SentMessage(requests)
		}
	}
}

// admittedDispatcher is a dispatcher whose requests pass the gate first.
type admittedDispatcher struct {
	*dispatch.Dispatcher

	gate *admission.Gate
}

func (c *orchestratorParts) admitted() admittedDispatcher {
	return admittedDispatcher{c.dispatcher, c.gate}
}

// Read implements orchestratorapi.Dispatcher.
func (d admittedDispatcher) Read(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
	ticket, err := d.gate.EnterRead(&r)
	if err != nil {
		return dbaas.ReadResult{}, err
	}
	result, err := d.Dispatcher.Read(ctx, r)
	d.gate.Ended(ticket, err)
	return result, err
}

// Write implements orchestratorapi.Dispatcher.
func (d admittedDispatcher) Write(ctx context.Context, op dbaas.Operation) (dbaas.OperationResult, error) {
	ticket, err := d.gate.EnterWrite(ctx, &op)
	if err != nil {
		return dbaas.OperationResult{}, err
	}
	result, err := d.Dispatcher.Write(ctx, op)
	d.gate.Ended(ticket, err)
	return result, err
}

// Enqueue implements orchestratorapi.Dispatcher.
func (d admittedDispatcher) Enqueue(ctx context.Context, op dbaas.Operation) (ended bool, err error) {
	ticket, err := d.gate.EnterWrite(ctx, &op)
	if err != nil {
		return false, err
	}
	ended, err = d.Dispatcher.Enqueue(ctx, op)
	if ticket.Queued = !ended; ticket.Queued && err == nil {
		d.gate.SentMessage(1)
	}
	d.gate.Ended(ticket, err)
	return ended, err
}

// admissionMetrics returns the metrics of the gate, none if it is off.
func (c *orchestratorParts) admissionMetrics() []telemetry.Sampled {
	if c.gate == nil {
		return nil
	}
	states := map[string]admission.State{}
	for s := admission.Closed; s <= admission.Open; s++ {
		states[s.String()] = s
	}
	return []telemetry.Sampled{
		{
			Name: "rideshare_admission_total", Labels: []string{"stage", "class", "outcome", "reason"},
			Help: "Requests by class: refused, by the stage and its reason, or ended without such a refusal (stage chain), even if they failed.",
			Read: func(emit func(float64, ...string)) {
				for _, n := range c.gate.Counts() {
					emit(float64(n.Requests), n.Stage, n.Class, n.Outcome, n.Reason)
				}
			},
		},
		{
			Name: "rideshare_breaker_state", Gauge: true, Labels: []string{"name"}, Help: "State of each breaker: 0 closed, 1 half-open, 2 open.",
			Read: func(emit func(float64, ...string)) {
				for name, b := range c.gate.Breakers() {
					emit(float64(states[b.State]), name)
				}
			},
		},
		{
			Name: "rideshare_queue_depth_operations", Gauge: true, Help: "Writes that wait in the lane, were handed over and have no answer, or wait at the broker for others, at the last sample.",
			Read: func(emit func(float64, ...string)) { emit(float64(c.gate.Depth())) },
		},
	}
}
