package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/rideschema"
	"rideshare/internal/settings"
	"rideshare/internal/sqlite"
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
	LogURL          string        `name:"log" default:"file" placeholder:"URL" env:"PERSDB_LOG" help:"Where the commit log is: file, in the data folder, or a PostgreSQL database with a synchronous standby, postgres://user@host1:5432,host2:5432/database. Several persdb, each with its own data folder, can have the same database: one is active, the others follow it (${default})."`
	LogPasswordFile string        `name:"log-password-file" placeholder:"FILE" env:"PERSDB_LOG_PASSWORD_FILE" help:"File with the password of the database's user, read at each connect. Default: what PGPASSFILE has for it."`
	LogSingle       bool          `name:"log-single" env:"PERSDB_LOG_SINGLE" help:"Accept a PostgreSQL server without a synchronous standby: committed writes are then on one machine."`
	archiveSettings `group:"Archive:"`
	internalAPI     `group:"Access:"`
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
	place, placeErr := p.place()
	if err = joinUsage(limitsErr, archiveErr, placeErr, p.check(), out.verifiesCallers(), p.checkListen(out, "--listen", p.Listen, "", p.LogURL)); err != nil {
		return err
	}
	if err = out.follow(ctx, log); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	listener, err := bind(ctx, out, log, p.Listen, end)
	if err != nil {
		return err
	}
	if listener != nil {
		defer func() { _ = listener.Close() }() // a second time if it was served, which does no harm
	}
	commits, err := telemetry.NewCommits(out.metrics)
	if err != nil {
		return err
	}
	cfg := p.config(log, commits, limits)
	place.Use(ctx, &cfg)
	store, err := system.OpenStore(ctx, cfg, kept, out.metrics)
	if err != nil && ctx.Err() != nil {
		return nil // stopped while opening: nothing went wrong
	}
	if err != nil {
		return err
	}
	if err = telemetry.Register(out.metrics, append(system.StoreMetrics(store), system.ActiveMetric(store.Active))...); err != nil {
		return errors.Join(err, store.Close())
	}
	return serve(ctx, out, part{
		ServerConfig: httpapi.ServerConfig{
			Addr: p.Listen, AllowedHosts: p.AllowedHosts, Listener: listener, WriteTimeout: pollTimeout,
			Exposed: p.exposed(out, "everybody who reaches it may commit: let only the orchestrator and the workers reach it, set --tls-ca, or listen on 127.0.0.1"),
			Handler: settings.With(out.settings, telemetry.WithMetrics(out.metrics, server.New(store.Store, log))), TLS: out.tls.Server(true), Log: log,
		},
		close: func(context.Context) error { return store.Close() },
	})
}

// place returns where the log is.
func (p *persdbCommand) place() (system.Log, error) {
	at := system.Log{URL: p.LogURL, PasswordFile: p.LogPasswordFile, Single: p.LogSingle}
	if err := at.Check(); err != nil {
		return at, usagef("--log: %v", err)
	}
	return at, nil
}

// config returns the settings of the store, except those of the log's place.
func (p *persdbCommand) config(log *slog.Logger, commits *telemetry.Commits, limits sqlite.Limits) commitlog.Config {
	return commitlog.Config{
		Dir: p.Data, Schema: rideschema.Create(), Protected: rideschema.Protected(), Log: log,
		Retain: commitlog.Retention{For: p.RetainFor, Ops: p.RetainOps, Bytes: p.RetainBytes}, MaxTables: p.MaxDatabase << 20, Reserve: commitlog.DefaultReserve,
		OnCommit: commits.Observe, OnSync: commits.ObserveSync, StatementLimit: p.SQLWriteTime, OperationLimit: p.SQLOperationTime, Limits: limits, OnStuck: endStuck(log),
	}
}
