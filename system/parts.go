package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/changes"
	"rideshare/orchestrator/console"
	"rideshare/orchestrator/control"
	"rideshare/orchestrator/dispatch"
	"rideshare/orchestrator/events"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/readcache"
	"rideshare/orchestrator/scale"
)

// stopGrace is how long workers may take to finish their pending work when the system stops. Together with the time for
// pending requests it fits into the 10 s within which `up` promises to end. Work that is left then has no caller any
// more, or its message stays at the broker.
const stopGrace = 2 * time.Second

// orchestratorParts is everything behind the orchestrator's HTTP API.
type orchestratorParts struct {
	*backends

	log        *slog.Logger
	workers    *workerapi.Client
	loop       *control.Loop
	dispatcher *dispatch.Dispatcher
	gate       *admission.Gate  // nil if it is off
	reads      *readcache.Cache // nil if it is off
	scaler     *scale.Scaler
	events     *events.Log
	changes    *changes.Feed
	live       *console.Live
	depths     *depths
	cache      positionsCache

	background sync.WaitGroup
	stopLoops  context.CancelFunc
	busChecked chan struct{} // closed once the broker accepts the largest message

	starts                  *counts
	kinds, moves, decisions counts
	lastDecision            atomic.Pointer[scale.Decision]
}

func newCore(ctx context.Context, cfg Config, m metrics) (*orchestratorParts, error) {
	var o *backends
	var err error
	if cfg.Processes == nil {
		o, err = newEmbedded(ctx, cfg, m)
	} else {
		o, err = newProcesses(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	return newCoreOn(ctx, o, cfg, m)
}

// newCoreOn is newCore with given dependencies.
func newCoreOn(ctx context.Context, o *backends, cfg Config, m metrics) (*orchestratorParts, error) {
	c := &orchestratorParts{
		backends: o, log: cfg.Log, events: events.New(), live: console.NewLive(), changes: changes.New(changes.Config{Log: cfg.Log, Store: o.store, Streams: cfg.Changes.Streams, Stall: cfg.Changes.Stall}), kinds: counts{by: eventKinds()}, moves: counts{by: losses()}, workers: &workerapi.Client{HTTP: &http.Client{Transport: o.control}},
		busChecked: make(chan struct{}),
	}
	counted := newCountedLauncher(o.launcher)
	c.starts = &counted.starts
	if several, ok := o.launcher.(launch.Hosts); ok {
		o.launcher = countedHosts{counted, several}
	} else {
		o.launcher = counted
	}
	leaderAnswers, end := newLeaderProbe(cfg.TLS)
	o.onClose(func(context.Context) error { end(); return nil })
	c.loop = control.New(control.Config{
		Advertise: cfg.Advertise, LeaderAnswers: leaderAnswers,
		Log: cfg.Log, Launcher: o.launcher, Coordinator: o.coordinator, Session: o.session, Store: o.store, Name: cfg.Name, Slaves: cfg.Slaves, StartsPerMinute: cfg.StartsPerMinute,
		HungAfter: cfg.HungAfter, WritesAnswered: func() uint64 { return c.dispatcher.WriteReplies() },
		Event: c.event, Workers: c.workers, BusUp: func() bool { return c.conn.State().Connected },
	})
	var err error
	if c.gate, err = c.newGate(cfg, m); err != nil {
		return nil, errors.Join(err, o.close(ctx))
	}
	c.run(ctx, cfg, m)
	c.scaler, err = scale.New(scale.Config{
		Log: cfg.Log, Cluster: c.loop, Name: cfg.Name, Settings: cfg.Scale.Settings, Period: cfg.Scale.Period,
		Observe: newLoadMeter(c).Sample, Decided: c.decided,
	})
	if err != nil {
		return nil, errors.Join(err, c.close(ctx))
	}
	return c, nil
}

// run starts the background work, which runs until close.
func (c *orchestratorParts) run(ctx context.Context, cfg Config, m metrics) {
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stopLoops = stop
	caller := mq.NewCaller(c.conn)
	c.background.Go(func() { c.ended("reply queue", caller.Run(loops)) })
	c.reads = c.newReadCache(cfg)
	looked := func(dbaas.Head, time.Time) {}
	if c.reads != nil {
		looked = c.reads.Looked
	}
	c.dispatcher = dispatch.New(dispatch.Config{
		Gate: c.dispatchGate(), Caller: caller, Publisher: c.conn, Availability: c.loop, Head: c.store.Head, Looked: looked, Timeout: cfg.CallTimeout, Unbatched: cfg.Unbatched,
		Observe: func(call dispatch.Call) {
			m.rpc.Observe(string(call.Queue), call.Lane, call.Code, call.Took, call.Trace)
		},
		ReadLimit: cfg.Lanes.Read, WriteLimit: cfg.Lanes.Write, UserWeights: cfg.Lanes.Weights,
		ObserveMessage: c.observeMessage(m),
	})
	c.background.Go(func() { c.ended("control loop", c.loop.Run(loops)) })
	if c.gate != nil {
		c.background.Go(func() { c.gate.Run(loops) })
	}
	c.runReadCache(loops, cfg)
	c.background.Go(func() { c.ended("change feed", c.changes.Run(loops)) })
	c.background.Go(func() { c.checkLargest(loops) })
	c.depths = &depths{meter: c.meter, log: cfg.Log}
	c.background.Go(func() { c.depths.follow(loops) })
}

// checkLargest checks once whether the broker accepts the largest message: the workers use the same broker.
func (c *orchestratorParts) checkLargest(ctx context.Context) {
	if c.checkBus != nil {
		if err := c.checkBus(ctx); err != nil {
			c.fail(fmt.Errorf("bus: %w; the size is that of the largest request, LARGEST_REQUEST_MIB, or its answer in a frame, and cannot be lower", err))
			return
		}
	}
	close(c.busChecked)
}

func (c *orchestratorParts) ended(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		c.log.Error("background work ended", "what", what, logkey.Error, err)
	}
}

// close stops everything in the order that lets pending work finish: new requests first; then the loop, so that it
// replaces no worker; then the workers; then their dependencies, persdb last. The servers must be closed before, so that
// all callers have their answers.
func (c *orchestratorParts) close(ctx context.Context) error {
	now, cancel := context.WithCancel(ctx)
	cancel()
	_ = c.dispatcher.Close(now) // requests that it ends have no caller
	var errs []error
	if c.scaler != nil { // nil if it could not be made
		errs = append(errs, c.scaler.Close())
	}
	c.stopLoops()
	c.background.Wait()
	if !c.keepWorkers {
		errs = append(errs, stopWorkers(ctx, c.launcher, c.control))
	}
	errs = append(errs, c.backends.close(ctx))
	return errors.Join(errs...)
}

// drainTimeout bounds the drain request to a worker that is about to be stopped. A worker that does not answer is
// stopped anyway.
const drainTimeout = 500 * time.Millisecond

// stopWorkers ends and removes every worker. Each worker is drained first: otherwise the master would wait for a
// successor.
func stopWorkers(ctx context.Context, launcher launch.Launcher, control http.RoundTripper) error {
	workers := &workerapi.Client{HTTP: &http.Client{Transport: control, Timeout: drainTimeout}}
	instances, err := launcher.List(ctx)
	if err != nil {
		return fmt.Errorf("list workers: %w", err)
	}
	var group sync.WaitGroup
	errs := make([]error, len(instances))
	for i, in := range instances {
		group.Go(func() {
			if in.Running {
				_ = workers.Drain(ctx, in.Control) // Stop reports what is wrong
			}
			if errs[i] = launcher.Stop(ctx, in.ID, stopGrace); errs[i] == nil {
				errs[i] = launcher.Remove(ctx, in.ID)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// closeAll calls closers, the last one first, even if some fail.
func closeAll(ctx context.Context, closers []func(context.Context) error) error {
	var errs []error
	for _, closer := range slices.Backward(closers) {
		errs = append(errs, closer(ctx))
	}
	return errors.Join(errs...)
}
