// Package check verifies a running system from outside its data path: the log is dense, every
// replica is what persdb is at an equal position, and nobody runs who is not
// known or is known and does not run. It gathers through small interfaces and
// judges with pure functions.
package check

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/launch"
)

// LogStore is what the check of the log needs of persdb.
type LogStore interface {
	Head(ctx context.Context) (dbaas.Head, error)
	// Log returns the entries after a position, CodeGone if they were trimmed, or CodeDamaged if the first is damaged.
	Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error)
}

// Store is what this package needs of persdb.
type Store interface {
	LogStore
	Hashes(ctx context.Context) (dbaas.TableHashes, error)
}

// Workers calls the workers' control APIs. *workerapi.Client implements it.
type Workers interface {
	Status(ctx context.Context, baseURL string) (workerapi.Status, error)
	Hashes(ctx context.Context, baseURL string) (dbaas.TableHashes, error)
	Verify(ctx context.Context, baseURL string) (workerapi.Verification, error)
}

// Launcher is the part of launch.Launcher that this package needs.
type Launcher interface {
	List(ctx context.Context) ([]launch.Instance, error)
}

// Config says what a Checker works with. Log, Store, Workers, Launcher and Coordinator are required.
type Config struct {
	Log         *slog.Logger
	Store       Store
	Workers     Workers
	Launcher    Launcher
	Coordinator coord.Coordinator
	// Settle is how long the check waits for what changes all the time: workers that
	// come and go, replicas that follow. What is wrong until then is wrong. Default 10 s: a
	// worker is replaced and caught up in less.
	Settle time.Duration
	// Poll is the time between two looks meanwhile. Default 50 ms.
	Poll time.Duration
	// Limit bounds a whole check. Default 45 s, within the server's write timeout.
	Limit time.Duration
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

const (
	defaultSettle = 10 * time.Second
	defaultPoll   = 50 * time.Millisecond
	defaultLimit  = 45 * time.Second
)

// Checker checks one system. It is safe for concurrent use.
type Checker struct {
	cfg     Config
	running chan struct{} // has a token while a check runs
}

// New returns a Checker.
func New(cfg Config) *Checker {
	cfg.Settle = cmp.Or(cfg.Settle, defaultSettle)
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	cfg.Limit = cmp.Or(cfg.Limit, defaultLimit)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Checker{cfg: cfg, running: make(chan struct{}, 1)}
}

// Run checks everything and reports. What cannot be asked is an invariant that
// does not hold, with the reason. A replica that differs is reported, and its worker is told to start
// again from a snapshot.
//
// The only error is CodeConflict, while another check runs: one reads the whole
// log and all tables, of which one at a time is enough.
func (c *Checker) Run(ctx context.Context) (Report, error) {
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
	default:
		return Report{}, dbaas.Errorf(dbaas.CodeConflict, "another check is running")
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Limit)
	defer cancel()
	report := Report{At: c.cfg.Now()}
	var log, members, replicas []Invariant
	var workers []WorkerReport
	var parts sync.WaitGroup
	parts.Go(func() { log = Log(ctx, c.cfg.Store) })
	parts.Go(func() {
		var who census
		// Replicas are compared once it is clear whose there are.
		members, who = c.members(ctx)
		replicas, workers = c.replicas(ctx, who)
	})
	parts.Wait()
	report.Workers = workers
	for _, group := range [][]Invariant{log, members, replicas} {
		report.Invariants = append(report.Invariants, group...)
	}
	report.OK = holds(report.Invariants)
	return report, nil
}

// settle calls look until it says that all is well, or the time to settle is over.
func (c *Checker) settle(ctx context.Context, look func() (well bool)) {
	deadline := time.NewTimer(c.cfg.Settle)
	defer deadline.Stop()
	tick := time.NewTicker(c.cfg.Poll)
	defer tick.Stop()
	for !look() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
