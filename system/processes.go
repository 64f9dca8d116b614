package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rideshare/internal/coord/zookeeper"
	"rideshare/internal/logkey"
	"rideshare/internal/mq/amqp"
	"rideshare/internal/settings"
	"rideshare/internal/sqlite"
	"rideshare/internal/wire"
	"rideshare/orchestrator/launch/hosts"
	"rideshare/orchestrator/launch/process"
	"rideshare/orchestrator/launch/remote"
	"rideshare/persdb/client"
)

// Processes says how to run workers, and persdb, as separate processes on RabbitMQ and ZooKeeper.
type Processes struct {
	Bus         string // amqp://user:password@host:port/vhost
	Coordinator string // zk://host:port,host:port/chroot
	// Session is the session length at the coordinator, also for workers. Zero means zookeeper.DefaultSessionTimeout.
	Session time.Duration
	// Prefix is the prefix of the queue names, so that systems can share a broker.
	Prefix string
	// Persdb is the base URL of a persdb that runs elsewhere. If empty, persdb is a child of this process with its data
	// in Config.Data.
	Persdb string
	// CommitLog says where the log of the child persdb is.
	CommitLog Log
	// Launchers are launchers that run elsewhere: one without a name, or one for each host, with names that pass
	// hosts.CheckNames. If there is none, workers are children of this process.
	Launchers []RemoteLauncher
	// LauncherToken is the bearer token that these launchers require, "" for none.
	LauncherToken string
	// Address is where the control APIs of workers that are children listen and are reached; empty means 127.0.0.1.
	Address string
	// Docker says how this process runs workers as containers; nil runs them as children.
	Docker *Docker
	// LogLevel and LogFormat are the log settings of the processes that this one starts. Containers have only the level.
	LogLevel, LogFormat string
}

// RemoteLauncher is a launcher in another process.
type RemoteLauncher struct {
	Name string // of its host
	URL  string // http://host:port or unix:///path
}

// session returns the session length.
func (p Processes) session() time.Duration { return cmp.Or(p.Session, zookeeper.DefaultSessionTimeout) }

// Remove deletes what a system that has ended leaves behind at the broker and the coordinator: the queues and the
// exchange of the prefix, with their messages, and the coordinator's node. Both must belong to that system alone.
func (p Processes) Remove(ctx context.Context, log *slog.Logger) error {
	busErr := amqp.Remove(ctx, amqp.Config{URL: p.Bus, Prefix: p.Prefix, Name: "orchestrator", Log: log})
	coordinator, err := zookeeper.New(zookeeper.Config{URL: p.Coordinator, Log: log})
	if err == nil {
		err = coordinator.Remove(ctx)
	}
	return errors.Join(busErr, err)
}

// persdbGrace is how long persdb may take to close its files.
const persdbGrace = 3 * time.Second

// newProcesses returns dependencies on RabbitMQ, ZooKeeper, and children of this process.
func newProcesses(ctx context.Context, cfg Config) (*backends, error) {
	o := &backends{control: newPatientTransport(cfg.TLS), failed: make(chan error, 1)}
	if err := o.connect(ctx, cfg); err != nil {
		return nil, errors.Join(err, o.close(context.Background()))
	}
	return o, nil
}

func (o *backends) connect(ctx context.Context, cfg Config) error {
	p := *cfg.Processes
	o.session = p.session()
	if err := o.dialBus(amqp.Config{URL: p.Bus, Prefix: p.Prefix, Name: "orchestrator", Log: cfg.Log, SeparateWrites: true, GiveUp: o.fail}); err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	var err error
	if o.coordinator, err = zookeeper.New(zookeeper.Config{URL: p.Coordinator, SessionTimeout: p.session(), Log: cfg.Log, GiveUp: o.fail}); err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	if p.Persdb == "" {
		if p.Persdb, err = o.startPersdb(cfg); err != nil {
			return err
		}
	}
	store, err := client.New(client.Config{URL: p.Persdb, TLS: cfg.TLS})
	if err != nil {
		return fmt.Errorf("persdb: %w", err)
	}
	o.store, o.clockDifference = store, store.ClockDifference
	for _, at := range store.Servers() {
		o.others = append(o.others, otherPart{settings.Part{Part: "persdb", Instance: addressIn(at.Base)}, at})
	}
	o.onClose(func(context.Context) error { return store.Close() })
	switch {
	case len(p.Launchers) > 0:
		return o.reachLaunchers(cfg, p)
	case p.Docker != nil:
		return o.useEngine(ctx, cfg, p)
	default:
		return o.startLauncher(cfg, p)
	}
}

func (o *backends) dialBus(cfg amqp.Config) error {
	conn, err := amqp.Dial(cfg)
	if err != nil {
		return err
	}
	meter, err := amqp.DialMeter(cfg)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	o.conn, o.meter = conn, meter
	o.checkBus = func(ctx context.Context) error { return amqp.CheckLargest(ctx, cfg, wire.MaxBytes) }
	o.onClose(o.closeBus)
	return nil
}

// clearLimit bounds the removal of the workers that an earlier run left. The engine needs about a second for it.
const clearLimit = 30 * time.Second

// useEngine runs workers as containers, which end with the system. Workers that a killed run left know only the address
// of its persdb, so they are removed before the first start. The lock protects the workers of a run that still goes on.
func (o *backends) useEngine(ctx context.Context, cfg Config, p Processes) error {
	lock, err := process.Claim(workersDir(cfg))
	if err != nil {
		return fmt.Errorf("launcher: %w", err)
	}
	o.onClose(func(context.Context) error { return lock.Close() })
	launcher, end, err := newDockerLauncher(cfg, p)
	if err != nil {
		return err
	}
	o.onClose(end)
	cfg.Log.Info("workers are containers, and this process talks to the engine itself", logkey.Addr, p.Docker.Host, "image", p.Docker.Image)
	clearing, cancel := context.WithTimeout(ctx, clearLimit)
	defer cancel()
	if err = launcher.Clear(clearing); err != nil {
		return fmt.Errorf("remove the workers of an earlier run: %w", err)
	}
	o.onClose(launcher.Clear) // List does not show a worker whose start took too long to be waited for
	o.launcher = launcher
	return nil
}

// workersDir is where workers that are processes keep their replicas, and where the lock of all launchers is.
func workersDir(cfg Config) string { return filepath.Join(cfg.Data, "workers") }

// reachLaunchers leaves the workers to launchers in other processes: they keep running when this process ends.
func (o *backends) reachLaunchers(cfg Config, p Processes) error {
	o.keepWorkers = true
	var all []hosts.Host
	for _, r := range p.Launchers {
		log := cfg.Log
		if r.Name != "" {
			log = log.With(logkey.Host, r.Name)
		}
		launcher, err := remote.New(remote.Config{URL: r.URL, Token: p.LauncherToken, Log: log, TLS: cfg.TLS})
		if err != nil {
			return err
		}
		o.onClose(launcher.Close)
		o.others = append(o.others, otherPart{settings.Part{Part: "launcher", Instance: cmp.Or(r.Name, addressIn(r.URL))}, launcher.Caller()})
		all = append(all, hosts.Host{Name: r.Name, Launcher: launcher})
	}
	if all[0].Name == "" {
		o.launcher = all[0].Launcher
		return nil
	}
	several := hosts.New(cfg.Log, all)
	o.launcher = several
	o.onClose(several.Close)
	return nil
}

func (o *backends) startPersdb(cfg Config) (string, error) {
	// The log of `up` is a file, whatever PERSDB_LOG says.
	args := []string{"persdb", "--data", cfg.Data, "--log", cmp.Or(cfg.Processes.CommitLog.URL, FileLog), "--max-database", strconv.FormatInt(cfg.MaxDatabase>>20, 10)}
	if file := cfg.Processes.CommitLog.PasswordFile; file != "" {
		args = append(args, "--log-password-file", file)
	}
	if cfg.WriteTime > 0 && cfg.OperationTime > 0 {
		args = append(args, "--sql-write-time", cfg.WriteTime.String(), "--sql-operation-time", cfg.OperationTime.String())
	}
	args = append(append(args, cfg.Archive.args()...), cfg.Processes.logArgs()...)
	child, err := process.Supervise(process.ChildConfig{
		Name: "persdb", Args: args,
		Stdout: os.Stdout, Stderr: os.Stderr, Log: cfg.Log, Scheme: cfg.TLS.Scheme(), Env: persdbEnv(cfg),
	})
	if err != nil {
		return "", fmt.Errorf("persdb: %w", err)
	}
	o.onClose(func(ctx context.Context) error { return child.Stop(ctx, persdbGrace) })
	return child.URL(), nil
}

func (o *backends) startLauncher(cfg Config, p Processes) error {
	launcher, err := newProcessLauncher(cfg, p)
	if err != nil {
		return err
	}
	o.launcher = launcher
	o.onClose(launcher.Close)
	return nil
}

// newProcessLauncher returns a launcher whose workers are children of this process.
func newProcessLauncher(cfg Config, p Processes) (*process.Launcher, error) {
	launcher, err := process.New(process.Config{
		Dir: workersDir(cfg), Address: p.Address, Scheme: cfg.TLS.Scheme(), Stdout: os.Stdout, Stderr: os.Stderr, Log: cfg.Log,
		Args: func(spec process.Spec) []string { return workerArgs(p, spec) },
		// Not an argument, since every user of the machine can read arguments, and the URL has a password. If the URL
		// came from a file, the file need not be passed on.
		Env: append(childEnv(cfg), "RIDESHARE_BUS="+p.Bus, "RIDESHARE_BUS_FILE="),
	})
	if err != nil {
		return nil, fmt.Errorf("launcher: %w", err)
	}
	return launcher, nil
}

// childEnv returns the environment of a child. If a setting occurs twice, the last one counts.
func childEnv(cfg Config) []string {
	return slices.Concat(os.Environ(), limitsEnv(cfg.Limits), cfg.ChildEnv)
}

// persdbEnv returns the environment of a child persdb. A log in a file takes no settings of a log in PostgreSQL, which this
// process may have for another persdb.
func persdbEnv(cfg Config) []string {
	env := childEnv(cfg)
	if !cfg.Processes.CommitLog.file() {
		return env
	}
	return slices.DeleteFunc(env, func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return name == "PERSDB_LOG_PASSWORD_FILE" || name == "PERSDB_LOG_SINGLE"
	})
}

// limitsEnv returns the limits as environment variables of a child.
func limitsEnv(l sqlite.Limits) []string {
	l = l.WithDefaults()
	var env []string
	for _, s := range []struct {
		name  string
		value int64
	}{
		{"SQL_MEMORY", l.Memory},
		{"SQL_MEMORY_ALL", l.MemoryAll},
		{"SQL_MAX_VALUE", int64(l.Value)},
		{"SQL_MAX_LENGTH", int64(l.Length)},
		{"SQL_MAX_PARAMETERS", int64(l.Parameters)},
		{"SQL_MAX_DEPTH", int64(l.Depth)},
		{"SQL_MAX_ANSWER", int64(l.Answer)},
		{"SQL_MAX_ROWS", int64(l.Rows)},
	} {
		env = append(env, s.name+"="+strconv.FormatInt(s.value, 10))
	}
	return env
}

// workerArgs returns the command line of a worker process.
func workerArgs(p Processes, spec process.Spec) []string {
	args := []string{
		"worker", "--id", string(spec.ID), "--dir", spec.Dir, "--control-url", spec.Control, "--persdb-url", p.Persdb,
		"--coordinator", p.Coordinator, "--session", p.session().String(), "--prefix", p.Prefix,
	}
	return append(args, p.logArgs()...)
}

// logArgs returns the log settings of a child. If no level is set, the child uses its own default.
func (p Processes) logArgs() (args []string) {
	if p.LogLevel != "" {
		args = append(args, "--log-level", p.LogLevel)
	}
	if p.LogFormat != "" {
		args = append(args, "--log-format", p.LogFormat)
	}
	return args
}
