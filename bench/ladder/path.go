package ladder

import (
	"context"
	"log/slog"
	"slices"

	"rideshare/bench/tutorial"
	"rideshare/orchestrator/admission"
	"rideshare/system"
)

// The paths: the systems to which the same requests are sent.
const (
	pathHTTP             = "http"
	pathInProcess        = "inprocess"
	pathBatched          = "batched" // the product as delivered
	pathNoSlave          = "batched-0"
	pathPostgres         = "batched-postgres" // measured if Environment.Postgres is known
	pathTwoSlaves        = "batched-2"
	pathUncached         = "batched-uncached"
	pathTwoUncached      = "batched-2-uncached"
	pathEmbedded         = "embedded"
	pathEmbeddedUncached = "embedded-uncached"
	pathUnbatched        = "unbatched"
	pathTutorial         = "tutorial"
	pathBestRPC          = "rpc-best"
	// These three paths compare with rqlite. They are measured if Environment.Rqlite is known.
	pathSQL     = "batched-sql"
	pathRqlite  = "rqlite"
	pathRqlite3 = "rqlite-3"
	// These four paths show what the protection from overload costs: with all its stages on, and off. They are measured
	// only if Config.Paths names them.
	pathGuarded           = "batched-guarded"
	pathUnguarded         = "batched-unguarded"
	pathEmbeddedGuarded   = "embedded-guarded"
	pathEmbeddedUnguarded = "embedded-unguarded"
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
	archived    bool              // with an archive in a folder beside the data
	starts      int               // of workers a minute; zero means the product's default
	rpc         tutorial.Settings // of a path that is served by that package
	stages      stages            // of the protection from overload
	postgres    bool              // the log is in PostgreSQL
	sql         bool              // asked in the SQL form, to compare with rqlite
	nodes       int               // of rqlite; zero: it is not rqlite
}

// stages says which stages of the protection from overload a path has.
type stages int

const (
	defaultStages stages = iota
	noStages             // ADMISSION=off
	allStages            // the limits too, which are so high that they refuse nothing
)

// highLimit is a limit (rate:burst) that no measurement reaches.
const highLimit = "1000000:1000000"

// settings returns the settings of the protection, nil if it is off.
func (s stages) settings() *admission.Settings {
	if s == noStages {
		return nil
	}
	settings := admission.Defaults()
	if l := &settings.Limits; s == allStages {
		l.Read, l.Write, l.Async, l.ReadTotal, l.WriteTotal, l.AsyncTotal = highLimit, highLimit, highLimit, highLimit, highLimit, highLimit
	}
	return &settings
}

// onlyNamed reports whether the path is measured only if it is named.
func (p path) onlyNamed() bool { return p.stages != defaultStages }

func paths() []path {
	return []path{
		{name: pathHTTP, about: "HTTP server, an answer without work", serve: serveEmpty},
		{name: pathInProcess, about: "same HTTP server, SQLite in its process; writes with group commit and fsync", serve: serveBare},
		{name: pathBatched, about: "this system on RabbitMQ, worker and persdb processes, 1 slave", serve: serveSystem, queue: true, product: true, slaves: 1},
		{name: pathNoSlave, about: "the same, no slave fed", serve: serveSystem, queue: true, product: true},
		{name: pathTwoSlaves, about: "the same, 2 slaves", serve: serveSystem, queue: true, product: true, slaves: 2},
		{name: pathPostgres, about: "batched, the log in PostgreSQL with a synchronous standby", serve: serveSystem, queue: true, product: true, slaves: 1, postgres: true},
		{name: pathEmbedded, about: "this system in one process, 1 slave", serve: serveSystem, product: true, slaves: 1},
		{name: pathUncached, about: "batched, the read cache off", serve: serveSystem, queue: true, product: true, slaves: 1, uncached: true},
		{name: pathTwoUncached, about: "batched-2, the read cache off", serve: serveSystem, queue: true, product: true, slaves: 2, uncached: true},
		{name: pathEmbeddedUncached, about: "embedded, the read cache off", serve: serveSystem, product: true, slaves: 1, uncached: true},
		{name: pathUnbatched, about: "this system on RabbitMQ, 1 slave, batching off", serve: serveSystem, queue: true, product: true, slaves: 1, unbatched: true},
		{name: pathGuarded, about: "batched, all stages of the protection from overload on", serve: serveSystem, queue: true, product: true, slaves: 1, stages: allStages},
		{name: pathUnguarded, about: "batched, the protection from overload off", serve: serveSystem, queue: true, product: true, slaves: 1, stages: noStages},
		{name: pathEmbeddedGuarded, about: "embedded, all stages of the protection on", serve: serveSystem, product: true, slaves: 1, stages: allStages},
		{name: pathEmbeddedUnguarded, about: "embedded, the protection off", serve: serveSystem, product: true, slaves: 1, stages: noStages},
		{name: pathTutorial, about: "tutorial, one consumer: RPC over RabbitMQ, a message a request, prefetch 1, a commit and a confirm a write", serve: serveRPC, queue: true, rpc: tutorial.Tutorial()},
		{name: pathBestRPC, about: "the best RPC with a message a request: two consumers of reads, prefetch 16, a write is committed while the one before is confirmed", serve: serveRPC, queue: true, rpc: tutorial.Best()},
		{name: pathSQL, about: "batched, asked in the SQL form with level=weak, which is rqlite's API", serve: serveSystem, queue: true, product: true, slaves: 1, sql: true},
		{name: pathRqlite, about: "rqlite with its default settings, one node: reads with level=weak, a request for each write, its Raft log synced", serve: serveRqlite, sql: true, nodes: 1},
		{name: pathRqlite3, about: "the same, three nodes, asked at the leader", serve: serveRqlite, sql: true, nodes: 3},
	}
}

func pathOf(name string) (path, bool) {
	for _, p := range slices.Concat(paths(), costPaths(false), costPaths(true), standalonePaths()) {
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
