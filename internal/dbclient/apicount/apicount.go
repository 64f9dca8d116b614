// Package apicount counts the HTTP requests of a service in the table apicount,
// which all instances of the service share. It is beside the data path: counting
// is one atomic addition, and a single goroutine writes the sum every 100 ms at most.
package apicount

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/logkey"
)

const (
	// interval is the least time between two writes of one process: counting must
	// not cost a write per request.
	interval = 100 * time.Millisecond
	// maxBackoff is the longest time between two tries while the database is away.
	maxBackoff = 5 * time.Second
)

// DB is what this package needs of the database. *dbclient.Client implements it.
type DB interface {
	Query(ctx context.Context, opts dbclient.Options, stmts ...dbaas.Statement) (dbclient.Answer, error)
	Execute(ctx context.Context, opts dbclient.Options, stmts ...dbaas.Statement) (dbclient.Answer, error)
}

// Config is what a Counter needs. All but Interval is required.
type Config struct {
	Service string // the key in apicount
	DB      DB
	Log     *slog.Logger
	// Interval is the least time between two writes; zero means 100 ms.
	Interval time.Duration
}

// Counter counts requests. It is safe for concurrent use.
//
// Requests that another instance has counted and not written yet, for an
// interval at most, are not in what Value returns, and survive a Reset.
type Counter struct {
	cfg     Config
	pending atomic.Int64       // counted, in no batch yet
	wake    chan struct{}      // of capacity 1: something is pending
	stop    context.CancelFunc // ends the goroutine after the write under way
	abort   context.CancelFunc // ends that write too
	done    chan struct{}      // closed when the goroutine has ended

	writing chan struct{} // of capacity 1: held while writing; guards batch
	batch   batch
}

// batch is a sum on its way. It keeps its key until it is known to be written or
// known not to be, so that it counts exactly once.
type batch struct {
	n   int64
	key string
}

// New returns a running Counter. Close it.
func New(cfg Config) *Counter {
	if cfg.Interval == 0 {
		cfg.Interval = interval
	}
	hard, abort := context.WithCancel(context.Background())
	soft, stop := context.WithCancel(hard)
	c := &Counter{
		cfg: cfg, wake: make(chan struct{}, 1), stop: stop, abort: abort, done: make(chan struct{}), writing: make(chan struct{}, 1),
	}
	go c.run(soft, hard)
	return c
}

// Add counts one request. It never blocks.
func (c *Counter) Add() {
	c.pending.Add(1)
	select {
	case c.wake <- struct{}{}:
	default: // A wake-up is waiting already, and will see this request.
	}
}

// Value writes what this process has counted and returns the sum of all
// instances, with the position that it was read at. It returns the database's
// errors, never an old value.
func (c *Counter) Value(ctx context.Context, minSeq dbaas.Seq) (int64, dbaas.Seq, error) {
	seq, err := c.flush(ctx)
	if err != nil {
		return 0, 0, err
	}
	ans, err := c.cfg.DB.Query(ctx, dbclient.Options{MinSeq: max(minSeq, seq)},
		dbclient.SQL("SELECT count FROM apicount WHERE service_name = ?", dbaas.Text(c.cfg.Service)))
	if err != nil {
		return 0, ans.Seq, err
	}
	if len(ans.Results[0].Rows) == 0 {
		return 0, ans.Seq, nil
	}
	n, _ := ans.Results[0].Rows[0][0].(int64) // The column is declared INTEGER.
	return n, ans.Seq, nil
}

// Reset sets the counter to 0. What this process counted before is written
// first, so that a failed Reset loses nothing; what comes while it runs counts
// afterwards. key makes it idempotent, "" if the client gave none.
func (c *Counter) Reset(ctx context.Context, key string) (dbaas.Seq, error) {
	if _, err := c.flush(ctx); err != nil {
		return 0, err
	}
	ans, err := c.cfg.DB.Execute(ctx, dbclient.Options{Key: key}, dbclient.SQL(
		"INSERT INTO apicount(service_name, count) VALUES(?, 0) ON CONFLICT(service_name) DO UPDATE SET count = 0",
		dbaas.Text(c.cfg.Service)))
	return ans.Seq, err
}

// Close writes what is pending and ends the counter. An error means that ctx or
// the database did not let it, and that counts were lost. So are requests counted
// after Close.
func (c *Counter) Close(ctx context.Context) error {
	c.stop()
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	c.abort()
	<-c.done
	_, err := c.flush(ctx)
	if err != nil {
		c.cfg.Log.WarnContext(ctx, "request counts lost at shutdown", logkey.Error, err.Error())
	}
	return err
}

// run writes what is pending until soft ends: at once after a quiet time, then every interval at
// most, more rarely while the database is away. A write under way goes on until
// hard ends: the database would still run it while Close sends it again, and
// answer that with a conflict.
func (c *Counter) run(soft, hard context.Context) {
	defer close(c.done)
	failures := 0
	pause := c.cfg.Interval
	for {
		select {
		case <-soft.Done():
			return
		case <-c.wake:
		}
		if _, err := c.flush(hard); err != nil {
			if failures++; failures == 1 {
				c.cfg.Log.WarnContext(hard, "request counts kept back", logkey.Error, err.Error())
			}
			pause = min(2*pause, maxBackoff)
			c.again()
		} else if failures > 0 {
			c.cfg.Log.WarnContext(hard, "request counts written again", logkey.Count, failures)
			failures, pause = 0, c.cfg.Interval
		}
		select {
		case <-soft.Done():
			return
		case <-time.After(pause):
		}
	}
}

// again makes run come back although no request may follow.
func (c *Counter) again() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
