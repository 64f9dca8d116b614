package main

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/rideschema"
	"rideshare/internal/telemetry"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/server"
	"rideshare/system"
)

// persdbCommand is `rideshare persdb`.
type persdbCommand struct {
	Listen          string        `default:"127.0.0.1:9530" placeholder:"ADDR" env:"PERSDB_LISTEN" help:"Listen address of the internal API; it has no authentication (${default})."`
	Data            string        `default:"./data" placeholder:"DIR" env:"PERSDB_DATA" help:"Where the database and the log live (${default})."`
	RetainFor       time.Duration `default:"1h" env:"PERSDB_RETAIN_FOR" help:"How long log entries and stored answers are kept (${default})."`
	RetainOps       int           `default:"1000000" env:"PERSDB_RETAIN_OPS" help:"How many operations are kept at most; entries younger than a minute always are (${default})."`
	RetainBytes     int64         `default:"1073741824" env:"PERSDB_RETAIN_BYTES" help:"How many bytes of log entries and stored answers are kept at most; entries younger than a minute are kept up to twice that (${default})."`
	MaxDatabase     int64         `placeholder:"MIB" default:"0" env:"MAX_DATABASE_MIB" help:"How large the tables and indexes may get, in MiB: what would let them grow beyond it is refused. Every replica is as large. 0 is no limit (${default})."`
	archiveSettings `group:"Archive:"`
	hosts           `group:"Access:"`
	logging         `group:"Log:"`
	sqlLimits       `group:"Limits of SQL:"`
	writeTimes      `group:"Limits of SQL:"`
}

// pollTimeout is longer than the longest poll of the log, a minute.
const pollTimeout = 90 * time.Second

// Run serves until ctx ends.
func (p *persdbCommand) Run(ctx context.Context, out *output) error {
	log, err := p.logger(out, "persdb")
	if err != nil {
		return err
	}
	if p.RetainFor < time.Minute || p.RetainOps < 1 || p.RetainBytes < 1 || p.MaxDatabase < 0 {
		return usagef("PERSDB_RETAIN_FOR must be at least 1m, PERSDB_RETAIN_OPS and PERSDB_RETAIN_BYTES at least 1, MAX_DATABASE_MIB at least 0")
	}
	limits, limitsErr := p.limits()
	kept, archiveErr := p.archive()
	if err = joinUsage(limitsErr, archiveErr, p.check(), out.verifiesCallers()); err != nil {
		return err
	}
	if err = out.follow(ctx, log); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	listener, err := bind(ctx, log, p.Listen, end)
	if err != nil {
		return err
	}
	if listener != nil {
		defer func() { _ = listener.Close() }() // again, if it was served
	}
	commits, err := telemetry.NewCommits(out.metrics)
	if err != nil {
		return err
	}
	store, err := system.OpenStore(ctx, commitlog.Config{
		Dir: p.Data, Schema: rideschema.Create(), Protected: rideschema.Protected(), Log: log, Retain: commitlog.Retention{For: p.RetainFor, Ops: p.RetainOps, Bytes: p.RetainBytes}, MaxTables: p.MaxDatabase << 20, Reserve: commitlog.DefaultReserve,
		OnCommit: commits.Observe, OnSync: commits.ObserveSync, StatementLimit: p.SQLWriteTime, OperationLimit: p.SQLOperationTime, Limits: limits, OnStuck: endStuck(log),
	}, kept, out.metrics)
	if err != nil && ctx.Err() != nil {
		return nil // told to stop while opening: nothing went wrong
	}
	if err != nil {
		return err
	}
	if err = telemetry.Register(out.metrics, system.StoreMetrics(store)...); err != nil {
		return errors.Join(err, store.Close())
	}
	return serve(ctx, part{
		addr: p.Listen, hosts: p.hosts, listener: listener,
		exposed:      out.unlessVerified("everybody who reaches it may commit: let only the orchestrator and the workers reach it, set --tls-ca, or listen on 127.0.0.1"),
		writeTimeout: pollTimeout, tls: out.tls.Server(true), log: log,
		handler: telemetry.WithMetrics(out.metrics, server.New(store.Store, log)),
		close:   func(context.Context) error { return store.Close() },
	})
}
