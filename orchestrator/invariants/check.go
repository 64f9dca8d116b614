// Package invariants verifies a running system from outside its data path: the log is dense, every replica equals
// persdb at an equal position, every running worker is registered, and every registered worker runs. It gathers data
// through small interfaces and judges it with pure functions.
package invariants

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/launch"
)

// LogStore is what the check of the log needs from persdb.
type LogStore interface {
	Head(ctx context.Context) (dbaas.Head, error)
	// Log returns the entries after a position. CodeGone: they were trimmed, and the page's First says where the log
	// begins. CodeDamaged: the first entry is damaged.
	Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error)
}

// Store is what this package needs from persdb.
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

// Config holds the dependencies and settings of a Checker. Log, Store, Workers, Launcher and Coordinator are required.
type Config struct {
	Log         *slog.Logger
	Store       Store
	Workers     Workers
	Launcher    Launcher
	Coordinator coord.Coordinator
	// Cache compares cached answers with a worker's, and returns how many it compared and how many were wrong. It is nil
	// if there is no read cache.
	Cache func(ctx context.Context) (compared, mismatches int, err error)
	// Settle is how long the check waits for conditions that change all the time, such as workers that come and go and
	// replicas that catch up. What is still wrong after Settle is reported. Default 10 s: replacing a worker, including
	// its catching up, takes less.
	Settle time.Duration
	// Session is how long the coordinator keeps the registration of a worker that was killed. New makes Settle at least
	// 4 s longer than Session, but no longer than 30 s for that.
	Session time.Duration
	// Poll is the time between two attempts within Settle. Default 50 ms.
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
	maxSettle     = 30 * time.Second
	// lateExpiry is how much later than meant a session may end: ZooKeeper looks once in each tick, of 2 s at most.
	lateExpiry = 4 * time.Second
)

// Checker checks one system. It is safe for concurrent use.
type Checker struct {
	cfg     Config
	running sync.Mutex // held while a check runs
}

// New returns a Checker.
func New(cfg Config) *Checker {
	cfg.Settle = cmp.Or(cfg.Settle, defaultSettle)
	if cfg.Session > 0 {
		cfg.Settle = max(cfg.Settle, min(cfg.Session+lateExpiry, maxSettle))
	}
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	cfg.Limit = cmp.Or(cfg.Limit, defaultLimit)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Checker{cfg: cfg}
}

// Run checks everything and returns a report. If a part of the system does not answer, its invariant fails, with the
// reason. A replica that differs is reported, and its worker is instructed to rebuild the replica from a snapshot.
//
// The only error is CodeConflict, while another check runs: a check reads the whole log and all tables, so one at a time
// is enough.
func (c *Checker) Run(ctx context.Context) (Report, error) {
	if !c.running.TryLock() {
		return Report{}, dbaas.Errorf(dbaas.CodeConflict, "another check is running")
	}
	defer c.running.Unlock()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Limit)
	defer cancel()
	report := Report{At: c.cfg.Now()}
	var log, members, replicas []Invariant
	var workers []WorkerReport
	var parts sync.WaitGroup
	parts.Go(func() { log = Log(ctx, c.cfg.Store) })
	parts.Go(func() {
		var who census
		// Replicas are compared once the set of workers is known.
		members, who = c.members(ctx)
		replicas, workers = c.replicas(ctx, who)
	})
	var cached []Invariant
	if c.cfg.Cache != nil {
		parts.Go(func() { cached = append(cached, judgeCache(c.cfg.Cache(ctx))) })
	}
	parts.Wait()
	report.Workers = workers
	for _, group := range [][]Invariant{log, members, replicas, cached} {
		report.Invariants = append(report.Invariants, group...)
	}
	report.OK = holds(report.Invariants)
	return report, nil
}

// judgeCache judges the answers of the read cache. An error means that none could be compared.
func judgeCache(compared, mismatches int, err error) Invariant {
	switch {
	case mismatches > 0:
		return Invariant{Name: CacheEqual, Detail: fmt.Sprintf("%d of %d cached answers differ from a worker's; they were removed", mismatches, compared)}
	case err != nil:
		return Invariant{Name: CacheEqual, Detail: "not compared: " + reason(err)}
	default:
		return Invariant{Name: CacheEqual, OK: true, Detail: fmt.Sprintf("%d cached answers equal a worker's", compared)}
	}
}

// await calls look until it returns true, or the time to await is over.
func (c *Checker) await(ctx context.Context, look func() (well bool)) {
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
