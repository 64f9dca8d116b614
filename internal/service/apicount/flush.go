package apicount

import (
	"context"
	"time"

	"github.com/google/uuid"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/logkey"
)

// flushWait is how long a flush waits for another one, about as long as that may take.
const flushWait = 10 * time.Second

// flush writes the counts that were pending when it was called and returns the position of the write, zero if there
// was nothing to write. Only one flush runs at a time; waiting for the other ends with ctx, or after flushWait. An error loses
// no counts.
func (c *Counter) flush(ctx context.Context) (dbaas.Seq, error) {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-ctx.Done():
		return 0, dbaas.WrapError(dbaas.CodeUnavailable, "the request counter is busy", ctx.Err())
	case <-time.After(flushWait):
		return 0, dbaas.Errorf(dbaas.CodeUnavailable, "the request counter is busy")
	}
	// A batch with an unknown outcome is written first and alone, under its old key.
	old, err := c.writePending(ctx)
	if err != nil {
		return 0, err
	}
	c.batch = batch{n: c.pending.Swap(0), key: uuid.NewString()}
	seq, err := c.writePending(ctx)
	return max(old, seq), err
}

// writePending writes the batch and clears it, unless its outcome is unknown. The caller holds writing.
func (c *Counter) writePending(ctx context.Context) (dbaas.Seq, error) {
	if c.batch.n == 0 {
		return 0, nil
	}
	ans, err := c.cfg.DB.Execute(ctx, dbclient.Options{Key: c.batch.key}, dbclient.SQL(
		"INSERT INTO apicount(service_name, count) VALUES(?, ?) ON CONFLICT(service_name) DO UPDATE SET count = count + excluded.count",
		dbaas.Text(c.cfg.Service), dbaas.Integer(c.batch.n)))
	switch {
	case dbaas.CodeOf(err) == dbaas.CodeExpired:
		// Too old: the database can no longer tell whether it has the batch. Counting it again could count it twice.
		// Losing the count is the smaller error, and is logged.
		c.cfg.Log.WarnContext(ctx, "request counts given up", logkey.Count, c.batch.n, logkey.Error, err.Error())
	case err != nil && ans.Seq > 0: // the database has recorded a failure under this key: a repetition would get the failure again
		c.batch.key = uuid.NewString()
		return ans.Seq, err
	case err != nil:
		return ans.Seq, err
	}
	c.batch = batch{}
	return ans.Seq, nil
}
