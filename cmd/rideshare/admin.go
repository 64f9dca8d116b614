package main

import (
	"context"
	"os"
	"runtime/debug"

	"rideshare/internal/httpapi"
	"rideshare/internal/logkey"
	"rideshare/internal/telemetry"
)

const (
	envAdmin = "RIDESHARE_ADMIN"
	// childAdmin is the admin address of child processes: a free port, which they log.
	childAdmin = "127.0.0.1:0"
)

// admin holds the operators' settings, which every process has.
type admin struct {
	Admin string `default:"" placeholder:"ADDR" env:"RIDESHARE_ADMIN" help:"Listen address for the metrics of this process (/metrics) and Go profiles (/debug/pprof), without authentication; port 0 picks a free one. Workers and persdb that this process starts get one each on a free loopback port, and log it. Default: none."`
}

// open starts the admin listener with the metrics, if one is configured, and returns a function that stops it.
func (a admin) open(ctx context.Context, out *output) (end func(), err error) {
	if a.Admin == "" {
		return func() {}, nil
	}
	if err = checkAddress("--admin", a.Admin); err != nil {
		return nil, err
	}
	log, err := errorLogger(out, "info", "admin")
	if err != nil {
		return nil, err
	}
	server := httpapi.NewServer(httpapi.ServerConfig{
		Addr: a.Admin, Handler: telemetry.WithMetrics(out.metrics, telemetry.Profiles()), Log: log, TLS: out.tls.Server(false),
	})
	if err = server.Open(ctx); err != nil {
		return nil, out.nameSettings(err, "admin")
	}
	log.InfoContext(ctx, "admin listener started", logkey.Addr, server.Addr())
	if err = os.Setenv(envAdmin, childAdmin); err != nil { // only processes started from here on see it
		return nil, err
	}
	return func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		_ = server.Close(stopCtx) // cuts off a profile under way; there is nothing to lose.
	}, nil
}

const (
	// gcPercent lets the heap grow to five times its live size before a collection. The live heap is a few MiB and
	// requests leave much garbage. Measured: 2 to 18 % more requests per second.
	gcPercent = 400
	// workerGCPercent is the value for a worker. A worker makes little garbage, and there are many workers: this value
	// makes its heap two fifths smaller.
	workerGCPercent = 200
	// softMemory is the heap size, in bytes, above which the collector runs as often as needed to stay there: a bulk
	// load or a full index of stored answers must not take five times its size.
	softMemory = 512 << 20
)

// tuneMemory configures the garbage collector. Settings in the environment take precedence.
func tuneMemory() {
	letHeapGrow(gcPercent)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
}

// letHeapGrow lets the heap grow by percent of its live size before a collection, unless the environment sets another
// value.
func letHeapGrow(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
