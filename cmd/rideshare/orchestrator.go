package main

import (
	"context"

	"rideshare/cmd/rideshare/assembly"
	"rideshare/internal/telemetry"
)

// orchestratorCommand is `rideshare orchestrator`.
type orchestratorCommand struct {
	Listen   string `default:":9500" placeholder:"ADDR" env:"ORCHESTRATOR_LISTEN" help:"Listen address of the HTTP API (${default})."`
	Data     string `default:"./data" placeholder:"DIR" env:"ORCHESTRATOR_DATA" help:"Where the workers that it starts keep their replicas (${default})."`
	Launcher string `default:"process" enum:"process" env:"RIDESHARE_LAUNCHER" help:"What starts workers: process, as children of this process (${default})."`
	Slaves   int    `default:"1" env:"RIDESHARE_SLAVES" help:"Slaves at the first start, at least 1; afterwards the number is remembered (${default})."`
	stack
	serving
	common
}

// Run serves until ctx ends.
func (o *orchestratorCommand) Run(ctx context.Context, out *output) error {
	log, err := telemetry.NewLogger(out.stdout, o.LogLevel, "orchestrator")
	if err != nil {
		return usagef("%v", err)
	}
	auth, authErr := o.auth()
	if err = joinUsage(checkAddress("--listen", o.Listen), o.check(o.Slaves), authErr); err != nil {
		return err
	}
	system, err := assembly.StartOrchestrator(ctx, assembly.Config{
		Log: log, Name: o.Listen, Data: o.Data, Orchestrator: o.Listen, Slaves: o.Slaves, CallTimeout: o.CallTimeout,
		Scale: o.scale(), Credentials: auth.accepted,
		Processes: &assembly.Processes{Bus: o.Bus, Coordinator: o.Coordinator, Prefix: o.Prefix, Persdb: o.PersdbURL, LogLevel: o.LogLevel},
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	return system.Close(stopCtx)
}
