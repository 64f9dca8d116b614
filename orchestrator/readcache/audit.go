package readcache

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
)

const (
	// auditPause is the least time between two reads of an audit: at most 100 a second.
	auditPause = 10 * time.Millisecond
	// auditWait is how long an audit without a deadline of its own waits for an answer, and for the answer's position.
	auditWait = time.Second
	// auditLook is the time between two checks of the position.
	auditLook = 5 * time.Millisecond
)

// Audit compares up to n items with what a worker answers now. Up to half of them are the most used items. The others come
// after those of the last audit, so that audits reach every item. Audit returns how many items it compared and how many of
// them differ. No item may differ: a difference is logged as an error, and the item is removed. Items that a write touches
// during the comparison are skipped. A worker's answer is awaited until ctx's deadline, for a second if ctx has none. If no
// item was compared, err is ctx's or the last error of a worker.
func (c *Cache) Audit(ctx context.Context, n int) (audited, mismatches int, err error) {
	for _, key := range c.sample(n) {
		if !wait.For(ctx, auditPause) {
			err = ctx.Err()
			break
		}
		same, compared, askErr := c.compare(ctx, key)
		switch {
		case askErr != nil:
			err = askErr
		case compared:
			audited++
			c.stats.audited.Add(1)
			if !same {
				mismatches++
				c.stats.mismatches.Add(1)
			}
		}
	}
	if audited > 0 {
		err = nil
	}
	return audited, mismatches, err
}

// sample returns the keys of the items of an audit. The library promises no order of Keys, but has one that rarely changes.
func (c *Cache) sample(n int) []string {
	var keys []string
	for entry := range c.items.Hottest() {
		if len(keys) >= n/2 {
			break
		}
		keys = append(keys, entry.Key)
	}
	at, from := int64(0), c.auditFrom.Load()
	for key := range c.items.Keys() {
		if len(keys) == n {
			c.auditFrom.Store(at)
			return keys
		}
		if at++; at > from && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	c.auditFrom.Store(0)
	return keys
}

// compare compares one item with a worker's answer. compared is false if that was impossible, for example because a
// write touched the item.
func (c *Cache) compare(ctx context.Context, key string) (same, compared bool, err error) {
	e := c.era.Load()
	if e == nil || !c.serving.Load() || e.cluster != c.cfg.Cluster() {
		return false, false, nil
	}
	applied := e.applied.Load()
	it, found := c.items.GetIfPresent(key)
	if !found {
		return false, false, nil
	}
	if ok, _ := it.valid(e); !ok {
		return false, false, nil
	}
	r, err := readOf(key)
	if err != nil {
		return false, false, err
	}
	r.Deadline, r.MinSeq, r.RequestID = c.auditUntil(ctx), dbaas.Seq(max(applied, it.p)), "read-cache-audit"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the dispatcher counts the answer until then
	result, err := c.cfg.Ask(ctx, r)
	if err != nil || !c.reached(ctx, e, result.Seq) {
		return false, false, err
	}
	if ok, _ := it.valid(e); !ok || e != c.era.Load() {
		return false, false, nil
	}
	if same = bytes.Equal(it.body, result.Body); !same {
		c.items.Invalidate(key)
		c.cfg.Log.ErrorContext(ctx, "read cache has a wrong answer", logkey.Seq, it.p, "applied", applied, "worker_seq", uint64(result.Seq),
			"statement", r.Statements[0].SQL)
	}
	return same, true, nil
}

// auditUntil returns the time until which an audit awaits an answer.
func (c *Cache) auditUntil(ctx context.Context) time.Time {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline
	}
	return c.cfg.Now().Add(auditWait)
}

// reached waits until the era has processed position seq.
func (c *Cache) reached(ctx context.Context, e *era, seq dbaas.Seq) bool {
	for until := c.auditUntil(ctx); e.applied.Load() < uint64(seq); {
		if c.cfg.Now().After(until) || !wait.For(ctx, auditLook) {
			return false
		}
	}
	return true
}

// RunAudits runs an audit of up to 100 items every period, until ctx ends. It audits at most 100 items a second.
func (c *Cache) RunAudits(ctx context.Context, period time.Duration) {
	for wait.For(ctx, period) {
		_, _, err := c.Audit(ctx, max(1, int(min(period, time.Second)/auditPause)))
		if err != nil && !errors.Is(err, context.Canceled) {
			c.cfg.Log.DebugContext(ctx, "read cache not audited", logkey.Error, err)
		}
	}
}
