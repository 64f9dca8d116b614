package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	coordinproc "rideshare/internal/coord/inproc"
	mqinproc "rideshare/internal/mq/inproc"
	launchinproc "rideshare/orchestrator/launch/inproc"

	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/control"
	"rideshare/orchestrator/dispatch"
	"rideshare/orchestrator/events"
	"rideshare/orchestrator/scale"
	"rideshare/persdb/commitlog"
	"rideshare/worker"
)

// stopGrace is how long workers may take to finish what is in hand when the
// system stops: within the 10 s in which `up` promises to end.
const stopGrace = 4 * time.Second

// core is everything behind the orchestrator's HTTP API: persdb, bus,
// coordinator, workers and the control loop.
type core struct {
	log        *slog.Logger
	store      *commitlog.Store
	broker     *mqinproc.Broker
	conn       *mqinproc.Conn
	coord      *coordinproc.Coordinator
	launcher   *launchinproc.Launcher
	loop       *control.Loop
	dispatcher *dispatch.Dispatcher
	scaler     *scale.Scaler
	events     *events.Log

	background sync.WaitGroup
	stopLoops  context.CancelFunc
}

func newCore(ctx context.Context, cfg Config) (*core, error) {
	c := &core{log: cfg.Log, broker: mqinproc.NewBroker(mqinproc.Config{}), events: events.New()}
	var err error
	if c.store, err = commitlog.Open(ctx, commitlog.Config{Dir: cfg.Data, Log: cfg.Log}); err != nil {
		return nil, fmt.Errorf("open database in %s: %w", cfg.Data, err)
	}
	if err := c.assemble(cfg); err != nil {
		return nil, errors.Join(err, c.store.Close())
	}
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stopLoops = stop
	caller := mq.NewCaller(c.conn)
	c.background.Go(func() { c.ended("reply queue", caller.Run(loops)) })
	c.background.Go(func() { c.ended("control loop", c.loop.Run(loops)) })
	c.dispatcher = dispatch.New(dispatch.Config{
		Caller: caller, Publisher: c.conn, Availability: c.loop, Timeout: cfg.CallTimeout, Unbatched: cfg.Unbatched,
	})
	return c, nil
}

func (c *core) ended(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		c.log.Error("background work ended", "what", what, logkey.Error, err)
	}
}

func (c *core) assemble(cfg Config) error {
	var err error
	c.coord, err = coordinproc.New(coordinproc.Config{File: filepath.Join(cfg.Data, "coordinator.json")})
	if err != nil {
		return fmt.Errorf("open coordinator: %w", err)
	}
	replicas := filepath.Join(cfg.Data, "workers")
	if err = os.RemoveAll(replicas); err != nil { // replicas of an earlier life are never used again
		return fmt.Errorf("remove old replicas: %w", err)
	}
	c.conn = c.broker.Dial("orchestrator")
	c.launcher = launchinproc.New(launchinproc.Config{
		Dir: replicas, Log: cfg.Log, Make: c.newWorker, Run: strconv.FormatInt(time.Now().UnixMilli(), 36),
	})
	c.loop = control.New(control.Config{
		Log: cfg.Log, Launcher: c.launcher, Coordinator: c.coord, Store: c.store, Name: "embedded", Slaves: cfg.Slaves, Event: c.events.Add,
		Workers: &workerapi.Client{HTTP: &http.Client{Transport: c.launcher.Transport()}},
	})
	c.scaler, err = scale.New(scale.Config{Log: cfg.Log, Setter: c.loop, Policy: cfg.Scale.Policy, Period: cfg.Scale.Period})
	return err
}

// newWorker makes a worker that shares nothing with the orchestrator but the bus.
func (c *core) newWorker(spec launchinproc.Spec) (launchinproc.Worker, error) {
	return embeddedWorker{worker.New(worker.Config{
		ID: spec.ID, Dir: spec.Dir, Control: spec.Control, Log: c.log,
		Bus: c.broker.Dial(string(spec.ID)), Coordinator: c.coord.Dial(), Store: newSeverable(c.store),
	})}, nil
}

// embeddedWorker is a worker as the in-process launcher wants it.
type embeddedWorker struct{ *worker.Worker }

// Control returns the worker's control API.
func (w embeddedWorker) Control() http.Handler { return w.Handler() }

// close stops everything, in the order that lets what is in hand finish: no new
// requests, then the loop so that it replaces nobody, then the workers, then the truth.
func (c *core) close(ctx context.Context) error {
	errs := []error{c.dispatcher.Close(ctx), c.scaler.Close()}
	c.stopLoops()
	c.background.Wait()
	errs = append(errs, c.stopWorkers(ctx), c.conn.Close(), c.store.Close())
	return errors.Join(errs...)
}

func (c *core) stopWorkers(ctx context.Context) error {
	instances, err := c.launcher.List(ctx)
	if err != nil {
		return fmt.Errorf("list workers: %w", err)
	}
	var group sync.WaitGroup
	errs := make([]error, len(instances))
	for i, in := range instances {
		group.Go(func() {
			if errs[i] = c.launcher.Stop(ctx, in.ID, stopGrace); errs[i] == nil {
				errs[i] = c.launcher.Remove(ctx, in.ID)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
