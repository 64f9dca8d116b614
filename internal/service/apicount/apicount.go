// Package apicount counts the HTTP requests of a service in the table apicount, which all instances of the service
// share. It is off the data path: counting is one atomic addition, and a single goroutine writes the sum at most
// every 100 ms.
package apicount

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/logkey"
	"rideshare/internal/tracing"
	"rideshare/internal/wait"
)

const (
	// interval is the minimum time between two writes of one process, so that counting does not cost a write per
	// request.
	interval = 100 * time.Millisecond
	// maxBackoff is the longest time between two attempts while the database is not available.
	maxBackoff = 5 * time.Second
)

// DB is the part of the database client that this package needs. *dbclient.Client implements it.
type DB interface {
	Query(ctx context.Context, opts dbclient.Options, stmts ...dbaas.Statement) (dbclient.Answer, error)
	Execute(ctx context.Context, opts dbclient.Options, stmts ...dbaas.Statement) (dbclient.Answer, error)
}

// Config is the settings of a Counter. All fields except Interval are required.
type Config struct {
	Service string // the key in apicount
	DB      DB
	Log     *slog.Logger
	// Interval is the minimum time between two writes; zero means 100 ms.
	Interval time.Duration
}

// Counter counts requests. It is safe for concurrent use.
//
// Requests that another instance has counted but not yet written, for one interval at most, are missing from Value's
// result, and survive a Reset.
type Counter struct {
	cfg     Config
	pending atomic.Int64       // counted, not in a batch yet
	wake    wait.Token         // something is pending
	stop    context.CancelFunc // ends the goroutine after the write in flight
	abort   context.CancelFunc // ends the write in flight too
	done    chan struct{}      // closed when the goroutine has ended

	writing chan struct{} // of capacity 1: held while writing; guards batch
	batch   batch
}

// batch is a sum being written. It keeps its key until it is certain whether it was written, so that it counts
// exactly once.
type batch struct {
	n   int64
	key string
}

// New returns a running Counter. The caller must Close it.
func New(cfg Config) *Counter {
	cfg.Interval = cmp.Or(cfg.Interval, interval)
	abortCtx, abort := context.WithCancel(context.Background())
	drainCtx, stop := context.WithCancel(abortCtx)
	c := &Counter{
		cfg: cfg, wake: wait.NewToken(), stop: stop, abort: abort, done: make(chan struct{}), writing: make(chan struct{}, 1),
	}
	go c.run(drainCtx, abortCtx)
	return c
}

// Add counts one request. It never blocks.
func (c *Counter) Add() {
	c.pending.Add(1)
	c.wake.Give()
}

// Value writes what this process has counted and returns the sum of all instances, with the position of the read. If
// the database fails it returns the error, never an old value.
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

// Reset sets the counter to 0. It first writes what this process has counted, so that a failed Reset loses nothing.
// Requests that arrive while it runs count after the Reset. key makes it idempotent; "" if the client gave none.
func (c *Counter) Reset(ctx context.Context, key string) (dbaas.Seq, error) {
	if _, err := c.flush(ctx); err != nil {
		return 0, err
	}
	ans, err := c.cfg.DB.Execute(ctx, dbclient.Options{Key: key}, dbclient.SQL(
		"INSERT INTO apicount(service_name, count) VALUES(?, 0) ON CONFLICT(service_name) DO UPDATE SET count = 0",
		dbaas.Text(c.cfg.Service)))
	return ans.Seq, err
}

// Close writes the pending counts and ends the counter. An error means that ctx or the database prevented the write,
// and that counts were lost. Requests counted after Close are lost too.
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

// run writes the pending counts until drainCtx ends: immediately after a quiet time, then at most once per interval, less
// often while the database is not available. A write in flight continues until abortCtx ends: otherwise the database
// would still be running it when Close sends it again, and would answer that with a conflict.
func (c *Counter) run(drainCtx, abortCtx context.Context) {
	defer close(c.done)
	var bad wait.Streak
	backoff := wait.Backoff{First: 2 * c.cfg.Interval, Cap: maxBackoff}
	for {
		rest := c.cfg.Interval
		select {
		case <-drainCtx.Done():
			return
		case <-c.wake:
		}
		if _, err := c.flush(tracing.Unrecorded(abortCtx)); err != nil {
			if bad.Fail() {
				c.cfg.Log.WarnContext(abortCtx, "request counts kept back", logkey.Error, err.Error())
			}
			rest = backoff.Next()
			c.wake.Give() // run continues even if no request follows
		} else if failures := bad.End(); failures > 0 {
			c.cfg.Log.WarnContext(abortCtx, "request counts written again", logkey.Count, failures)
			backoff.Reset()
		}
		select {
		case <-drainCtx.Done():
			return
		case <-time.After(rest):
		}
	}
}
