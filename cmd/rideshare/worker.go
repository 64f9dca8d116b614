package main

import (
	"context"
	"errors"
	"os"

	"rideshare/internal/coord/zookeeper"
	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/mq/amqp"
	"rideshare/internal/telemetry"
	"rideshare/persdb/client"
	"rideshare/worker"
)

// stack is the settings of what every part of a distributed system reaches.
type stack struct {
	Bus         string `required:"" placeholder:"URL" env:"RIDESHARE_BUS" help:"The broker, amqp://user:password@host:port/vhost."`
	Coordinator string `required:"" placeholder:"URL" env:"RIDESHARE_COORDINATOR" help:"The coordinator, zk://host:port,host:port/chroot."`
	Prefix      string `default:"" env:"RIDESHARE_PREFIX" help:"Stands before the names of queues, so that systems can share a broker."`
	PersdbURL   string `required:"" placeholder:"URL" env:"PERSDB_URL" help:"Base URL of persdb."`
}

// workerCommand is `rideshare worker`.
type workerCommand struct {
	Listen     string `default:"127.0.0.1:0" placeholder:"ADDR" env:"WORKER_LISTEN" help:"Listen address of the control API; port 0 picks a free one (${default})."`
	ControlURL string `default:"" placeholder:"URL" env:"WORKER_CONTROL_URL" help:"Base URL under which the orchestrator reaches the control API. Default: the listen address."`
	ID         string `default:"" env:"WORKER_ID" help:"Names this life of the worker, never used again. Default: the host name, as in a container."`
	Dir        string `default:"./worker" placeholder:"DIR" env:"WORKER_DIR" help:"Where the replica lives; what is in it is removed (${default})."`
	LogLevel   string `default:"info" enum:"debug,info,warn,error" env:"LOG_LEVEL" help:"Lowest level that is logged: debug, info, warn or error (${default})."`
	stack
}

// Run lives until ctx ends, the worker is drained, or its parent is gone.
func (w *workerCommand) Run(ctx context.Context, out *output) error {
	log, err := telemetry.NewLogger(out.stdout, w.LogLevel, "worker")
	if err != nil {
		return usagef("%v", err)
	}
	if w.ID == "" {
		if w.ID, err = os.Hostname(); err != nil {
			return usagef("--id: none given, and the host has no name: %v", err)
		}
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	listener, err := inherit(ctx, log, end)
	if err != nil {
		return err
	}
	routes := httpapi.NewLateHandler()
	server := httpapi.NewServer(httpapi.ServerConfig{Addr: w.Listen, Listener: listener, Handler: routes, Log: log})
	if err = server.Open(ctx); err != nil {
		return err
	}
	if w.ControlURL == "" {
		w.ControlURL = server.URL()
	}
	cfg := worker.Config{ID: dbaas.WorkerID(w.ID), Dir: w.Dir, Control: w.ControlURL, Log: log}
	if err = w.connect(&cfg); err != nil {
		return err
	}
	life := worker.New(cfg)
	routes.Set(life.Handler())
	err = life.Run(ctx)
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	return errors.Join(err, server.Close(stopCtx))
}

// connect makes the ways to broker, coordinator and persdb. None of them need
// be up yet.
func (s stack) connect(cfg *worker.Config) error {
	bus, err := amqp.Dial(amqp.Config{URL: s.Bus, Prefix: s.Prefix, Name: string(cfg.ID), Log: cfg.Log})
	if err != nil {
		return usagef("--bus: %v", err)
	}
	cfg.Bus = bus
	if cfg.Coordinator, err = zookeeper.New(zookeeper.Config{URL: s.Coordinator, Log: cfg.Log}); err != nil {
		return usagef("--coordinator: %v", err)
	}
	if cfg.Store, err = client.New(client.Config{URL: s.PersdbURL}); err != nil {
		return usagef("--persdb-url: %v", err)
	}
	return nil
}
