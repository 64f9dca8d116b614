package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"rideshare/internal/coord/zookeeper"
	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/mq/amqp"
	"rideshare/internal/settings"
	"rideshare/internal/telemetry"
	"rideshare/internal/tlsfiles"
	"rideshare/internal/workerapi"
	"rideshare/persdb/client"
	"rideshare/system"
	"rideshare/worker"
)

// busSettings say where the broker is.
type busSettings struct {
	Bus     string `default:"" placeholder:"URL" env:"RIDESHARE_BUS" help:"The broker, amqp://user:password@host:port/vhost; of a cluster all nodes, host:port,host:port,host:port, the one on this host first."`
	BusFile string `default:"" placeholder:"FILE" env:"RIDESHARE_BUS_FILE" help:"File with the broker's URL, instead of --bus: it has a password, and settings are easier to see than files."`
}

// stack holds the addresses that every part of a distributed system needs.
type stack struct {
	busSettings
	Coordinator string `required:"" placeholder:"URL" env:"RIDESHARE_COORDINATOR" help:"The coordinator, zk://host:port,host:port/chroot."`
	Prefix      string `default:"" env:"RIDESHARE_PREFIX" help:"Prefix of the names of queues, so that systems can share a broker."`
	PersdbURL   string `required:"" placeholder:"URL" env:"PERSDB_URL" help:"Base URL of persdb; of several on one log, all of them with commas in between: one of them is active, and another one takes over when it does not answer."`
	sessionSetting
}

// bus returns the broker's URL, from the flag or the file.
func (s busSettings) bus() (string, error) {
	switch {
	case s.Bus == "" && s.BusFile == "":
		return "", usagef("missing flags: --bus=URL or --bus-file=FILE")
	case s.BusFile == "":
		return s.Bus, nil
	case s.Bus != "":
		return "", usagef("--bus and --bus-file: give one of them")
	}
	return readBusFile(s.BusFile)
}

func readBusFile(file string) (string, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the operator's choice
	if err != nil {
		return "", usagef("--bus-file: %v", err)
	}
	busURL := strings.TrimSpace(string(text))
	if busURL == "" || strings.ContainsAny(busURL, " \t\r\n") {
		return "", usagef("--bus-file: %s does not hold one URL", file) // without the file's contents, which are secret
	}
	return busURL, nil
}

// workerCommand is `rideshare worker`.
type workerCommand struct {
	Listen      string `default:"127.0.0.1:0" placeholder:"ADDR" env:"WORKER_LISTEN" help:"Listen address of the control API; port 0 picks a free one (${default})."`
	ControlURL  string `default:"" placeholder:"URL" env:"WORKER_CONTROL_URL" help:"Base URL under which the orchestrator reaches the control API. Default: the listen address."`
	ID          string `default:"" env:"WORKER_ID" help:"Names this life of the worker, never used again. Default: the host name, as in a container."`
	Dir         string `default:"./worker" placeholder:"DIR" env:"WORKER_DIR" help:"Where the replica lives; what is in it is removed (${default})."`
	AnswerMiB   int64  `name:"answer-mib" default:"96" env:"WORKER_ANSWER_MIB" help:"Answers in MiB that may wait to be sent, all together; a read that finds no room is refused (${default})."`
	internalAPI `group:"Access:"`
	hosts       `group:"Access:"`
	logging     `group:"Log:"`
	stack
	sqlLimits `group:"Limits of SQL:"`
}

// Run runs until ctx ends, the worker is drained, or its parent is gone.
func (w *workerCommand) Run(ctx context.Context, out *output) error {
	letHeapGrow(workerGCPercent)
	log, err := w.logger(out, "worker")
	if err != nil {
		return err
	}
	busURL, busErr := w.bus()
	limits, limitsErr := w.limits()
	if err = joinUsage(w.name(), w.checkAnswer(), busErr, w.checkSession(), limitsErr, out.verifiesCallers(), w.checkListen(out, "--listen", w.Listen, "", busURL, w.Coordinator)); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	if err = out.follow(ctx, log); err != nil {
		return err
	}
	listener, err := inherit(ctx, log, end)
	if err != nil {
		return err
	}
	routes := httpapi.NewLateHandler()
	server := httpapi.NewServer(httpapi.ServerConfig{
		Addr: w.Listen, Listener: listener, Handler: routes, Log: log, AllowedHosts: w.AllowedHosts, TLS: out.tls.Server(true),
		Exposed: w.exposed(out, "everybody who reaches it may give this worker a role: let only the orchestrator reach it, set --tls-ca, or listen on 127.0.0.1"),
	})
	if err = server.Open(ctx); err != nil {
		return out.nameSettings(err, "listen")
	}
	cfg := worker.Config{ID: dbaas.WorkerID(w.ID), Dir: w.Dir, Control: cmp.Or(w.ControlURL, server.URL()), Log: log}
	cfg.Reads.AnswerBytes = w.AnswerMiB << 20
	cfg.Replica.Limits, cfg.Replica.OnStuck = limits, endStuck(log)
	failure := permanentFailure{why: make(chan error, 1), end: end}
	store, err := w.connect(&cfg, busURL, out.tls, failure.giveUp)
	if err != nil {
		return err
	}
	life := worker.New(cfg)
	own := func(context.Context) []workerapi.Status { return []workerapi.Status{life.Status()} }
	if err = telemetry.Register(out.metrics, slices.Concat(system.WorkerMetrics(own), system.BusMetrics(cfg.Bus), []telemetry.Sampled{system.ClockMetric(store.ClockDifference)})...); err != nil {
		return err
	}
	routes.Set(settings.With(out.settings, telemetry.WithMetrics(out.metrics, life.Handler())))
	err = life.Run(ctx)
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	return errors.Join(failure.reason(), err, server.Close(stopCtx))
}

// permanentFailure keeps the first reason why a part can never work, and ends the part.
type permanentFailure struct {
	why chan error // buffers one
	end func()
}

func (h permanentFailure) giveUp(err error) {
	select {
	case h.why <- err:
		h.end()
	default: // there already is a reason
	}
}

// reason returns the reason, or nil.
func (h permanentFailure) reason() error {
	select {
	case err := <-h.why:
		return err
	default:
		return nil
	}
}

// name sets the id to the host name if none is given.
func (w *workerCommand) name() (err error) {
	if w.ID != "" {
		return nil
	}
	if w.ID, err = os.Hostname(); err != nil {
		return usagef("--id: none given, and the host has no name: %v", err)
	}
	return nil
}

func (w *workerCommand) checkAnswer() error {
	if w.AnswerMiB < 1 {
		return usagef("--answer-mib: %d is not at least 1", w.AnswerMiB)
	}
	return nil
}

// connect creates the connections to broker, coordinator and persdb. None of them needs to be up yet. giveUp is called
// when one of them can never be made.
func (s stack) connect(cfg *worker.Config, busURL string, files *tlsfiles.Files, giveUp func(error)) (*client.Client, error) {
	bus, err := amqp.Dial(amqp.Config{URL: busURL, Prefix: s.Prefix, Name: string(cfg.ID), Log: cfg.Log, GiveUp: giveUp})
	if err != nil {
		return nil, usagef("--bus: %v", err)
	}
	cfg.Bus = bus
	if cfg.Coordinator, err = zookeeper.New(zookeeper.Config{URL: s.Coordinator, SessionTimeout: s.Session, Log: cfg.Log, GiveUp: giveUp}); err != nil {
		return nil, usagef("--coordinator: %v", err)
	}
	store, err := client.New(client.Config{URL: s.PersdbURL, TLS: files})
	if err != nil {
		return nil, usagef("--persdb-url: %v", err)
	}
	cfg.Store = store
	return store, nil
}
