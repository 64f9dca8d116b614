package system

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	coordinproc "rideshare/internal/coord/inproc"
	mqinproc "rideshare/internal/mq/inproc"
	launchinproc "rideshare/orchestrator/launch/inproc"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/rideschema"
	"rideshare/internal/telemetry"
	"rideshare/orchestrator/launch"
	"rideshare/persdb/commitlog"
	"rideshare/worker"
	"rideshare/worker/replica"
)

// persdb is the store, in this process or over HTTP.
type persdb interface {
	worker.Store
	Hashes(ctx context.Context) (dbaas.TableHashes, error)
	Changes(ctx context.Context, after dbaas.Seq, wait time.Duration, size int) (dbaas.Page, error)
	Claim(ctx context.Context) (dbaas.Epoch, error)
	Lookup(ctx context.Context, id dbaas.OpID) (dbaas.OperationResult, error)
	Sizes(ctx context.Context) (dbaas.Sizes, error)
	Backup(ctx context.Context, form dbaas.BackupForm) (*dbaas.Backup, error)
	FileSQL(ctx context.Context, file []byte) ([]byte, error)
}

// backends holds the orchestrator's dependencies: everything that differs between running in one process and in several.
type backends struct {
	store persdb
	// clockDifference is that of persdb's client; nil if persdb is in this process.
	clockDifference func() (time.Duration, bool)
	conn            mq.Conn // the orchestrator's own connection
	meter           mq.Meter
	coordinator     coord.Coordinator
	session         time.Duration // how long sessions last; zero if the coordinator is in this process and cannot freeze
	launcher        launch.Launcher
	// others are persdb and the launchers, as far as they are processes of their own.
	others []otherPart
	// checkBus waits for the broker and returns an error if it does not accept the largest message. It is nil if there
	// is nothing to check.
	checkBus func(ctx context.Context) error
	// failed receives why the system can never serve: the first reason.
	failed chan error
	// keepWorkers means that the workers belong to another process and outlive this one.
	keepWorkers bool
	// control reaches the workers' control APIs.
	control http.RoundTripper
	// closers undo what was started, the last one first. The workers are stopped before.
	closers []func(context.Context) error
}

// fail records why the system can never serve.
func (o *backends) fail(err error) {
	select {
	case o.failed <- err:
	default: // there already is a reason
	}
}

func (o *backends) onClose(f func(context.Context) error) { o.closers = append(o.closers, f) }

// close undoes everything that was started.
func (o *backends) close(ctx context.Context) error { return closeAll(ctx, o.closers) }

// closeBus closes both connections concurrently: each takes a while if the broker does not answer.
func (o *backends) closeBus(context.Context) error {
	var meter sync.WaitGroup
	var meterErr error
	meter.Go(func() { meterErr = o.meter.Close() })
	connErr := o.conn.Close()
	meter.Wait()
	return errors.Join(connErr, meterErr)
}

// newEmbedded returns dependencies that all run in this process.
func newEmbedded(ctx context.Context, cfg Config, m metrics) (*backends, error) {
	commits, err := telemetry.NewCommits(m.registry)
	if err != nil {
		return nil, err
	}
	store, err := OpenStore(ctx, commitlog.Config{
		Dir: cfg.Data, Schema: rideschema.Create(), Protected: rideschema.Protected(), Log: cfg.Log, OnCommit: commits.Observe, OnSync: commits.ObserveSync, MaxTables: cfg.MaxDatabase, Reserve: commitlog.DefaultReserve, Limits: cfg.Limits, OnStuck: cfg.OnStuck,
		StatementLimit: cfg.WriteTime, OperationLimit: cfg.OperationTime,
	}, cfg.Archive, m.registry)
	if err != nil {
		return nil, fmt.Errorf("open database in %s: %w", cfg.Data, err)
	}
	o := &backends{store: store, failed: make(chan error, 1)}
	o.onClose(func(context.Context) error { return store.Close() })
	if err := o.embed(cfg, store.Store); err != nil {
		return nil, errors.Join(err, o.close(ctx))
	}
	return o, nil
}

func (o *backends) embed(cfg Config, store *commitlog.Store) error {
	coordinator, err := coordinproc.New(coordinproc.Config{File: filepath.Join(cfg.Data, "coordinator.json")})
	if err != nil {
		return fmt.Errorf("open coordinator: %w", err)
	}
	replicas := filepath.Join(cfg.Data, "workers")
	if err = os.RemoveAll(replicas); err != nil { // replicas of an earlier run are never reused
		return fmt.Errorf("remove old replicas: %w", err)
	}
	broker := mqinproc.NewBroker(mqinproc.Config{})
	// newWorker creates a worker that shares only the bus with the orchestrator.
	newWorker := func(spec launchinproc.Spec) (launchinproc.Worker, error) {
		return embeddedWorker{worker.New(worker.Config{
			ID: spec.ID, Dir: spec.Dir, Control: spec.Control, Log: cfg.Log,
			Bus: broker.Dial(string(spec.ID)), Coordinator: coordinator.Dial(), Store: newCrashable(store),
			Replica: replica.Config{Limits: cfg.Limits, OnStuck: cfg.OnStuck},
		})}, nil
	}
	launcher := launchinproc.New(launchinproc.Config{
		Dir: replicas, Log: cfg.Log, Make: newWorker, Run: strconv.FormatInt(time.Now().UnixMilli(), 36),
	})
	o.conn, o.meter = broker.Dial("orchestrator"), broker.Dial("orchestrator meter")
	o.onClose(o.closeBus)
	o.coordinator, o.launcher, o.control = coordinator, launcher, launcher.Transport()
	return nil
}

// embeddedWorker adapts a worker to the in-process launcher.
type embeddedWorker struct{ *worker.Worker }

// Control returns the worker's control API.
func (w embeddedWorker) Control() http.Handler { return w.Handler() }
