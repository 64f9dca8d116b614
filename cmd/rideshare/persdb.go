package main

import (
	"context"
	"errors"
	"time"

	"rideshare/cmd/rideshare/assembly"
	"rideshare/internal/telemetry"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/server"
)

// persdbCommand is `rideshare persdb`.
type persdbCommand struct {
	Listen    string        `default:"127.0.0.1:9530" placeholder:"ADDR" env:"PERSDB_LISTEN" help:"Listen address of the internal API; it has no authentication (${default})."`
	Data      string        `default:"./data" placeholder:"DIR" env:"PERSDB_DATA" help:"Where the database and the log live (${default})."`
	RetainFor time.Duration `default:"1h" env:"PERSDB_RETAIN_FOR" help:"How long log entries and stored answers are kept (${default})."`
	RetainOps int           `default:"1000000" env:"PERSDB_RETAIN_OPS" help:"How many operations are kept at most; entries younger than a minute always are (${default})."`
	LogLevel  string        `default:"info" enum:"debug,info,warn,error" env:"LOG_LEVEL" help:"Lowest level that is logged: debug, info, warn or error (${default})."`
}

// pollTimeout is longer than the longest poll of the log, a minute.
const pollTimeout = 90 * time.Second

// Run serves until ctx ends.
func (p *persdbCommand) Run(ctx context.Context, out *output) error {
	log, err := telemetry.NewLogger(out.stdout, p.LogLevel, "persdb")
	if err != nil {
		return usagef("%v", err)
	}
	if p.RetainFor < time.Minute || p.RetainOps < 1 {
		return usagef("PERSDB_RETAIN_FOR must be at least 1m and PERSDB_RETAIN_OPS at least 1")
	}
	commits, err := telemetry.NewCommits(out.metrics)
	if err != nil {
		return err
	}
	store, err := commitlog.Open(ctx, commitlog.Config{
		Dir: p.Data, Log: log, Retain: commitlog.Retention{For: p.RetainFor, Ops: p.RetainOps},
		OnCommit: commits.Observe, OnSync: commits.ObserveSync,
	})
	if err != nil && ctx.Err() != nil {
		return nil //nolint:nilerr // told to stop while opening: nothing went wrong.
	}
	if err != nil {
		return err
	}
	if err = telemetry.Register(out.metrics, assembly.StoreMetrics(store)...); err != nil {
		return errors.Join(err, store.Close())
	}
	return serve(ctx, part{
		addr: p.Listen, inherited: true, writeTimeout: pollTimeout, log: log,
		handler: telemetry.WithMetrics(out.metrics, server.New(store, log)),
		close:   func(context.Context) error { return store.Close() },
	})
}
