package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/rides/usercheck"
	"rideshare/system"
)

// stopLimit is below the 10 s in which `up` promises to end.
const stopLimit = 8 * time.Second

// inproc is the value of the flags that run a part inside this process.
const inproc = "inproc"

// upCommand is `rideshare up`.
type upCommand struct {
	Data         string `default:"./data" placeholder:"DIR" env:"RIDESHARE_DATA" help:"Where the database and the log live (${default})."`
	Gateway      string `default:"127.0.0.1:8080" placeholder:"ADDR" env:"RIDESHARE_GATEWAY" help:"Listen address of the gateway; port 0 picks a free one (${default})."`
	Users        string `default:"127.0.0.1:8081" placeholder:"ADDR" env:"RIDESHARE_USERS" help:"Listen address of users (${default})."`
	Rides        string `default:"127.0.0.1:8082" placeholder:"ADDR" env:"RIDESHARE_RIDES" help:"Listen address of rides (${default})."`
	Orchestrator string `default:"127.0.0.1:8083" placeholder:"ADDR" env:"RIDESHARE_ORCHESTRATOR" help:"Listen address of the orchestrator (${default})."`
	Bus          string `default:"inproc" env:"RIDESHARE_BUS" help:"The broker: inproc, or amqp://user:password@host:port/vhost, with host:port,host:port,host:port for a cluster (${default})."`
	BusFile      string `default:"" placeholder:"FILE" env:"RIDESHARE_BUS_FILE" help:"File with the broker's URL, instead of --bus."`
	Coordinator  string `default:"inproc" env:"RIDESHARE_COORDINATOR" help:"The coordinator: inproc, or zk://host:port,host:port/chroot (${default})."`
	Launcher     string `default:"inproc" enum:"inproc,process,docker" env:"RIDESHARE_LAUNCHER" help:"What starts workers: inproc; or process: workers and persdb are child processes; or docker: persdb is a child process, and workers are containers, which this process starts through the engine (${default})."`
	Prefix       string `default:"" env:"RIDESHARE_PREFIX" help:"Prefix of the names of queues, so that systems can share a broker."`
	Slaves       int    `default:"1" env:"RIDESHARE_SLAVES" help:"Slaves at the first start, at least 1; afterwards the number is remembered (${default})."`
	MaxDatabase  int64  `placeholder:"MIB" default:"0" env:"MAX_DATABASE_MIB" help:"How large the tables and indexes may get, in MiB: what would let them grow beyond it is refused. Every replica is as large. 0 is no limit, but half of a worker's room for its replica with --launcher docker (${default})."`
	ReadyFile    string `default:"" placeholder:"FILE" env:"RIDESHARE_READY_FILE" help:"Written once the system is ready, removed at exit: a JSON object with the addresses and the pid."`
	Demo         bool   `env:"RIDESHARE_DEMO" help:"Put a few users and rides in if the database is empty."`

	archiveSettings `group:"Archive:"`
	sessionSetting
	dockerSettings `group:"Workers in containers:"`
	sqlLimits      `group:"Limits of SQL:"`
	writeTimes     `group:"Limits of SQL:"`
	serving        `group:"Scaling, cache and queues:"`
	rideRules      `group:"Rides:"`
	common
}

// Run starts the system, prints its addresses, and serves until ctx ends.
func (u *upCommand) Run(ctx context.Context, out *output) error {
	cfg, err := u.config(out)
	if err != nil {
		return err
	}
	if err = out.follow(ctx, cfg.Log); err != nil {
		return err
	}
	if err = removeStaleReadyFile(u.ReadyFile); err != nil {
		return err
	}
	running, err := system.Start(ctx, cfg) // no time limit: opening a large database takes long
	if err != nil && ctx.Err() != nil {
		return nil // stopped while opening: nothing went wrong
	}
	if occupied, ok := errors.AsType[*system.OccupiedError](err); ok {
		return out.nameSettings(err, occupied.Parts...) // each has the name of its flag
	}
	if err != nil {
		return err
	}
	err = u.serve(ctx, running, out)
	stopCtx, stopped := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer stopped()
	if err = errors.Join(err, running.Close(stopCtx)); err == nil {
		err = u.farewell(out.stdout)
	}
	return err
}

// serve waits until the system is ready, reports that, and waits for ctx's end.
func (u *upCommand) serve(ctx context.Context, running *system.System, out *output) error {
	if err := running.Ready(ctx); ctx.Err() != nil {
		return nil //nolint:nilerr // stopped while starting: nothing went wrong.
	} else if err != nil {
		return err
	}
	urls := running.URLs()
	view := ""
	if u.Demo {
		view = "#rides"
		if err := demo(ctx, out.httpClient(), urls); err != nil {
			return fmt.Errorf("demo data: %w", err)
		}
	}
	if err := u.greet(out.stdout, urls, view); err != nil {
		return err
	}
	remove, err := writeReadyFile(u.ReadyFile, urls)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return remove()
}

// config checks all settings and reports all problems together.
func (u *upCommand) config(out *output) (system.Config, error) {
	log, err := u.logger(out, "up")
	if err != nil {
		return system.Config{}, err
	}
	busErr := u.readBus()
	rules, rulesErr := u.rules()
	auth, authErr := out.credentials("AUTH_FILE", u.AuthFile)
	limits, limitsErr := u.limits()
	budget, budgetErr := u.budget()
	kept, archiveErr := u.archive()
	if err = joinUsage(busErr, archiveErr, limitsErr, u.checkParts(out), u.refuseDocker(out), u.checkAddresses(), u.serving.check(u.Slaves), u.writeTimes.check(), u.checkTLS(out), rulesErr, authErr, budgetErr); err != nil {
		return system.Config{}, err
	}
	processes, err := u.processes()
	if err != nil {
		return system.Config{}, err
	}
	cfg := system.Config{
		Log: log, Data: u.Data, Archive: kept, MaxDatabase: u.maxDatabase(), Name: "up", Processes: processes,
		Gateway: u.Gateway, Users: u.Users, Rides: u.Rides, Orchestrator: u.Orchestrator,
		Slaves: u.Slaves, StartsPerMinute: u.StartsPerMinute, HungAfter: u.HungAfter, CallTimeout: u.CallTimeout, LoadTime: u.SQLLoadTime, Version: version,
		Scale:     u.scale(),
		Cache:     u.cache(),
		Changes:   u.changes(),
		Lanes:     u.lanes(),
		Admission: u.settings(),
		Metrics:   out.metrics,
		RideRules: system.RideRules{Now: rules.now, Location: rules.zone, UserCheck: usercheck.Mode(u.RidesUserCheck), Origin: u.RidesOrigin},
		Limits:    limits, WriteTime: u.SQLWriteTime, OperationTime: u.SQLOperationTime, OnStuck: endStuck(log),
		MaxTimeout: u.SQLMaxTimeout, AllowOrigin: u.AllowOrigin,
		Budget: budget, MaxStatements: u.SQLMaxStatements, AllowedHosts: u.AllowedHosts, Credentials: auth, TLS: out.tls, ChildEnv: out.tlsEnv,
		About: about(out.settings),
	}
	if auth != nil {
		cfg.Authorization = auth.Own("up", httpapi.Write)
	}
	return cfg, nil
}

// readBus reads the broker's URL from its file, if a file is given.
func (u *upCommand) readBus() error {
	if u.BusFile == "" {
		return nil
	}
	if u.Bus != inproc {
		return usagef("--bus and --bus-file: give one of them")
	}
	busURL, err := readBusFile(u.BusFile)
	if err != nil {
		return err
	}
	u.Bus = busURL
	return nil
}

func (u *upCommand) checkParts(out *output) error {
	var errs []error
	check := func(flag, value, scheme string) {
		if value != inproc && !strings.HasPrefix(value, scheme) {
			errs = append(errs, usagef("%s: %q is not allowed; allowed: inproc, %s...", flag, value, scheme))
		}
	}
	check("--bus", u.Bus, "amqp")
	check("--coordinator", u.Coordinator, "zk://")
	if real := u.Launcher != inproc; real != (u.Bus != inproc) || real != (u.Coordinator != inproc) {
		errs = append(errs, usagef("--bus, --coordinator and --launcher go together: all inproc, or amqp://..., zk://... and process or docker"))
	}
	if u.Launcher == launcherDocker && u.DockerNetwork != "host" {
		errs = append(errs, usagef("--docker-network (LAUNCHER_NETWORK): workers in %s cannot reach the persdb of up, which listens at 127.0.0.1; give host, or start the parts by themselves, with rideshare launcher --engine docker", u.DockerNetwork))
	}
	if u.Data == "" {
		errs = append(errs, usagef("--data: give the folder where the database lives"))
	}
	if u.MaxDatabase < 0 {
		errs = append(errs, usagef("--max-database: %d is not allowed; allowed: 0 for no limit, or MiB", u.MaxDatabase))
	}
	if u.Coordinator == inproc {
		errs = append(errs, u.refuseSession(out, "--coordinator inproc has no such sessions"))
	} else {
		errs = append(errs, u.checkSession())
	}
	return joinUsage(errs...)
}

// refuseDocker returns an error if the command line has settings of containers although workers are not containers. The
// environment may have such settings, for other commands.
func (u *upCommand) refuseDocker(out *output) error {
	if u.Launcher == launcherDocker {
		return nil
	}
	var errs []error
	for _, s := range out.settings {
		if s.Source == "flag" && (strings.HasPrefix(s.Name, "--docker-") || strings.HasPrefix(s.Name, "--worker-")) {
			errs = append(errs, usagef("%s: %s would change nothing without --launcher docker", s.Name, s.Value))
		}
	}
	return joinUsage(errs...)
}

// checkTLS returns an error if parts in other processes lack the certificate that they need.
func (u *upCommand) checkTLS(out *output) error {
	switch u.Launcher {
	case inproc:
		return nil
	case launcherDocker:
		return joinUsage(out.verifiesCallers(), u.checkWorkerTLS(out))
	}
	return out.verifiesCallers()
}

// maxDatabase is the limit in bytes. A container's room for its replica must hold the database twice: the replica that is
// served, and the next replica or the WAL.
func (u *upCommand) maxDatabase() int64 {
	mib := u.MaxDatabase
	if mib == 0 && u.Launcher == launcherDocker {
		mib = u.WorkerReplicaMiB / 2
	}
	return mib << 20
}

// processes returns how to run as separate processes, or nil for a single process.
func (u *upCommand) processes() (*system.Processes, error) {
	if u.Launcher == inproc {
		return nil, nil //nolint:nilnil // Config.Processes is nil for a single process.
	}
	p := system.Processes{Bus: u.Bus, Coordinator: u.Coordinator, Session: u.Session, Prefix: u.Prefix, LogLevel: u.LogLevel, LogFormat: u.LogFormat}
	if u.Launcher != launcherDocker {
		return &p, nil
	}
	busFile, err := writeBusFile(filepath.Join(u.Data, "secrets"), u.Bus, u.user())
	if err != nil {
		return nil, err
	}
	if u.DockerStack == "" && u.DockerProject == "" { // Two systems with the same name would remove each other's workers.
		sum := sha256.Sum256([]byte(busFile))
		u.DockerStack = "up-" + hex.EncodeToString(sum[:6])
	}
	p.Docker = u.docker(busFile)
	p.Docker.PrivateNetwork = true // The workers are on this machine, in a network of the engine.
	return &p, nil
}

func (u *upCommand) checkAddresses() error {
	var errs []error
	for _, listen := range []struct{ flag, addr string }{
		{"--gateway", u.Gateway}, {"--users", u.Users}, {"--rides", u.Rides}, {"--orchestrator", u.Orchestrator},
	} {
		if err := checkAddress(listen.flag, listen.addr); err != nil {
			errs = append(errs, err)
		}
	}
	return joinUsage(errs...)
}

// joinUsage joins several errors into one usage error, so that all are reported together.
func joinUsage(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return &usageError{msg: err.Error()}
	}
	return nil
}
