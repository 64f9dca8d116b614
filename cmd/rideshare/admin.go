package main

import (
	"context"
	"io"
	"os"
	"runtime/debug"

	"rideshare/internal/httpapi"
	"rideshare/internal/logkey"
	"rideshare/internal/telemetry"
)

const (
	envAdmin = "RIDESHARE_ADMIN"
	// childAdmin is where the processes that this one starts have theirs: a free port, which they log.
	childAdmin = "127.0.0.1:0"
)

// admin is the settings of every process that are for its operators.
type admin struct {
	Admin string `default:"" placeholder:"ADDR" env:"RIDESHARE_ADMIN" help:"Listen address for the metrics of this process (/metrics) and Go profiles (/debug/pprof), without authentication; port 0 picks a free one. Workers and persdb that this process starts get one each on a free loopback port, and log it. Default: none."`
}

// open starts the admin listener, if one is wanted, with what is registered in metrics, and returns what ends it.
func (a admin) open(ctx context.Context, out io.Writer, metrics *telemetry.Registry) (end func(), err error) {
	if a.Admin == "" {
		return func() {}, nil
	}
	if err = checkAddress("--admin", a.Admin); err != nil {
		return nil, err
	}
	log, err := telemetry.NewLogger(out, "info", "admin")
	if err != nil {
		return nil, err
	}
	server := httpapi.NewServer(httpapi.ServerConfig{Addr: a.Admin, Handler: telemetry.WithMetrics(metrics, telemetry.Profiles()), Log: log})
	if err = server.Open(ctx); err != nil {
		return nil, err
	}
	log.InfoContext(ctx, "admin listener started", logkey.Addr, server.Addr())
	if err = os.Setenv(envAdmin, childAdmin); err != nil { // only what is started from here on sees it
		return nil, err
	}
	return func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		_ = server.Close(stopCtx) // a profile under way is cut off; there is nothing to lose.
	}, nil
}

const (
	// gcPercent lets the heap grow to five times what is live before it is collected. What is
	// live is a few MiB and requests leave much garbage: measured, 2 to 18 % more requests a second.
	gcPercent = 400
	// workerGCPercent is that of a worker, which makes little garbage, and of which there are many: its heap is
	// smaller by two fifths for that.
	workerGCPercent = 200
	// softMemory is where collecting becomes as frequent as it must to stay there, in bytes: a
	// bulk load or a full index of stored answers shall not take five times its size.
	softMemory = 512 << 20
)

// tuneMemory sets up the garbage collector, but for what the environment says.
func tuneMemory() {
	letHeapGrow(gcPercent)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
}

// letHeapGrow lets the heap grow by so many percent of what is live before it is collected, unless the environment says
// something else.
func letHeapGrow(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
