package ladder

import (
	"context"
	"log/slog"

	"rideshare/bench/tutorial"
	"rideshare/system"
)

// The paths: what the same request is sent to.
const (
	pathHTTP             = "http"
	pathInProcess        = "inprocess"
	pathBatched          = "batched" // the product as delivered
	pathNoSlave          = "batched-0"
	pathTwoSlaves        = "batched-2"
	pathUncached         = "batched-uncached"
	pathEmbedded         = "embedded"
	pathEmbeddedUncached = "embedded-uncached"
	pathUnbatched        = "unbatched"
	pathTutorial         = "tutorial"
	pathBestRPC          = "rpc-best"
)

// path is one rung of the ladder.
type path struct {
	name, about string
	serve       func(context.Context, *serving, path) (addresses, error)
	queue       bool // it needs the broker
	product     bool // it has users, rides and a cluster
	slaves      int
	unbatched   bool
	uncached    bool              // the read cache is off
	rpc         tutorial.Settings // of a path that is served by that package
}

func paths() []path {
	return []path{
		{name: pathHTTP, about: "HTTP server, an answer without work", serve: serveEmpty},
		{name: pathInProcess, about: "same HTTP server, SQLite in its process; writes with group commit and fsync", serve: serveBare},
		{name: pathBatched, about: "this system on RabbitMQ, worker and persdb processes, 1 slave", serve: serveSystem, queue: true, product: true, slaves: 1},
		{name: pathNoSlave, about: "the same, no slave fed", serve: serveSystem, queue: true, product: true},
		{name: pathTwoSlaves, about: "the same, 2 slaves", serve: serveSystem, queue: true, product: true, slaves: 2},
		{name: pathEmbedded, about: "this system in one process, 1 slave", serve: serveSystem, product: true, slaves: 1},
		{name: pathUncached, about: "batched, the read cache off", serve: serveSystem, queue: true, product: true, slaves: 1, uncached: true},
		{name: pathEmbeddedUncached, about: "embedded, the read cache off", serve: serveSystem, product: true, slaves: 1, uncached: true},
		{name: pathUnbatched, about: "this system on RabbitMQ, 1 slave, batching off", serve: serveSystem, queue: true, product: true, slaves: 1, unbatched: true},
		{name: pathTutorial, about: "tutorial, one consumer: RPC over RabbitMQ, a message a request, prefetch 1, a commit and a confirm a write", serve: serveRPC, queue: true, rpc: tutorial.Tutorial()},
		{name: pathBestRPC, about: "the best RPC with a message a request: two consumers of reads, prefetch 16, a write is committed while the one before is confirmed", serve: serveRPC, queue: true, rpc: tutorial.Best()},
	}
}

func pathOf(name string) (path, bool) {
	for _, p := range paths() {
		if p.name == name {
			return p, true
		}
	}
	return path{}, false
}

// remove deletes what the path has left at the broker and the coordinator. Its process must have ended.
func (p path) remove(ctx context.Context, env Environment, prefix string) error {
	switch {
	case !p.queue:
		return nil
	case p.product:
		return system.Processes{Bus: env.Bus, Coordinator: env.Coordinator, Prefix: prefix}.Remove(ctx, slog.New(slog.DiscardHandler))
	default:
		return tutorial.Remove(ctx, env.Bus, prefix)
	}
}
