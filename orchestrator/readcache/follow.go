package readcache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
)

const (
	// maxBehind is how many missing entries are read from the log. If more are missing, the cache is reset at the head.
	maxBehind = 1000
	// silence is how long the head may be ahead of the cache before the log is read.
	silence = 100 * time.Millisecond
	// pageTimeout is how long a page of the log may take without progress: one entry may have 80 MiB. retryPause is the wait after a
	// failed call.
	pageTimeout, retryPause = 2 * time.Second, 200 * time.Millisecond
	// lossQuiet is how long nothing is stored after the log has lost entries: longer than a slave needs to notice that it is beyond the
	// head, which it asks for every 2 s with a timeout of 2 s.
	lossQuiet = 5 * time.Second
)

// feed is what the cache knows about the log, besides the era.
type feed struct {
	wake chan struct{} // holds a token when the log must be read

	mu      sync.Mutex    // guards the fields below, and orders the processing of entries
	gap     bool          // entries are missing, or may be
	epoch   dbaas.Epoch   // no older than the epoch of the entry at the era's position
	checked dbaas.Epoch   // in this epoch the log had the entry at the era's position
	doubt   bool          // the log has a newer epoch, so that entry must be read again
	waiting []dbaas.Entry // broadcasts that came during the gap
	bytes   int           // of waiting
	head    dbaas.Head    // as last seen
}

// maxWaiting bounds the bytes of broadcasts that wait for the end of a gap. Further broadcasts are dropped, and their
// entries are read from the log.
const maxWaiting = 16 << 20

// Subscriber returns the callbacks for the broadcasts of syncQ.
func (c *Cache) Subscriber() mq.Subscriber { return mq.Subscriber{Entry: c.offer, Gap: c.Gap} }

// Gap makes the cache read the log before it answers again.
func (c *Cache) Gap() {
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	c.lose()
}

// lose records a gap, so that Run reads the log. The caller holds feed.mu.
func (c *Cache) lose() {
	c.feed.gap = true
	c.serving.Store(false)
	select {
	case c.feed.wake <- struct{}{}:
	default: // a token is there already
	}
}

// offer processes a broadcast if it is the next entry. A later entry waits until the missing ones have been read from
// the log.
func (c *Cache) offer(frame []byte) {
	entry, err := wire.DecodeEntry(frame)
	if err != nil {
		c.cfg.Log.Warn("broadcast not understood", logkey.Queue, mq.SyncQ, logkey.Error, err)
		c.Gap()
		return
	}
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	e := c.era.Load()
	switch {
	case e == nil || c.feed.gap:
		c.defers(entry)
	case entry.Epoch > c.feed.checked: // the log decides: it may have another entry at this era's position
		c.defers(entry)
		c.lose()
	case entry.Cluster == e.cluster && uint64(entry.Seq) <= e.applied.Load(): // it came twice
	case entry.Cluster == e.cluster && uint64(entry.Seq) == e.applied.Load()+1 && !entry.ChangesOmitted && entry.Epoch >= c.feed.epoch:
		c.process(e, &entry)
	default: // the log decides
		c.defers(entry)
		c.lose()
	}
}

// defers keeps a broadcast for the end of the gap. The caller holds feed.mu.
func (c *Cache) defers(entry dbaas.Entry) {
	if size := entry.Size() + overhead; c.feed.bytes+size <= maxWaiting {
		c.feed.waiting = append(c.feed.waiting, entry)
		c.feed.bytes += size
	}
}

// process processes the next entry of the log. The caller holds feed.mu.
func (c *Cache) process(e *era, entry *dbaas.Entry) {
	c.feed.epoch = entry.Epoch
	if !e.process(entry) {
		c.reset(dbaas.Head{Cluster: e.cluster, Seq: entry.Seq, Epoch: entry.Epoch})
	}
}

// reset begins a new era at head. The caller holds feed.mu.
func (c *Cache) reset(head dbaas.Head) {
	c.feed.epoch = head.Epoch
	c.era.Store(newEra(head))
	c.items.InvalidateAll()
	c.known.forget() // the schema may have changed
	c.stats.resets.Add(1)
}

// Looked records a successful look at persdb's head, which began at the given time. If the cache stays behind the head,
// it reads the log.
func (c *Cache) Looked(head dbaas.Head, began time.Time) {
	c.looked.Store(int64(began.Sub(c.began))) // monotonic: steps of the wall clock do not matter
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	c.feed.head = head
	e := c.era.Load()
	switch {
	case e == nil: // Run reads the log once syncQ is bound
	case head.Cluster != e.cluster || uint64(head.Seq) < e.applied.Load() || head.Epoch > c.feed.checked:
		c.lose() // The look may be older than the last entries, so the log decides.
	case uint64(head.Seq) > e.applied.Load():
		time.AfterFunc(silence, func() {
			if c.era.Load() == e && uint64(head.Seq) > e.applied.Load() {
				c.Gap()
			}
		})
	}
}

// Run reads the log whenever entries are missing, until ctx ends.
func (c *Cache) Run(ctx context.Context) error {
	defer c.items.StopAllGoroutines()
	failing := false
	for {
		select {
		case <-c.feed.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		for {
			err := c.catchUp(ctx)
			if err == nil {
				failing = false
				break
			}
			if !failing && ctx.Err() == nil {
				c.cfg.Log.WarnContext(ctx, "read cache does not answer: the log was not read", logkey.Error, err)
			}
			failing = true
			if !wait.For(ctx, retryPause) {
				return ctx.Err()
			}
		}
	}
}

// catchUp reads the log until no entry is missing.
func (c *Cache) catchUp(ctx context.Context) error {
	for {
		e, after, head, gap := c.missing()
		if !gap {
			return nil
		}
		callCtx, cancel := wait.UntilStalled(ctx, pageTimeout)
		page, err := c.cfg.Store.Log(callCtx, after, 0)
		cancel()
		switch code := dbaas.CodeOf(err); {
		case err == nil:
		case code == dbaas.CodeGone && !page.Head.Cluster.IsZero():
		case code == dbaas.CodeDamaged && head.Seq > after:
			page.Head = head
		default:
			return fmt.Errorf("read the log after %d: %w", after, err)
		}
		if c.merge(e, after, page, err != nil) {
			return nil
		}
	}
}

// missing returns the era, the position after which the log must be read, the head as last seen, and whether there is a
// gap. During a gap only merge moves the position. In doubt the entry at the era's position is read again.
func (c *Cache) missing() (e *era, after dbaas.Seq, head dbaas.Head, gap bool) {
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	if e = c.era.Load(); e != nil {
		after = dbaas.Seq(e.applied.Load())
	}
	if c.feed.doubt && after > 0 {
		after--
	}
	return e, after, c.feed.head, c.feed.gap
}

// merge processes a page of the log that was read after a position. It reports whether the gap is closed.
func (c *Cache) merge(e *era, after dbaas.Seq, page dbaas.Page, unreadable bool) bool {
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	switch {
	case e == nil:
		c.reset(page.Head)
	case page.Head.Cluster != e.cluster, uint64(page.Head.Seq) < e.applied.Load(), c.replaced(e, &page):
		c.cfg.Log.Warn("read cache emptied: persdb's log is not the one that was followed",
			logkey.Cluster, page.Head.Cluster, logkey.Seq, page.Head.Seq, "applied", e.applied.Load())
		c.feed.waiting = nil // they may be of the other log
		if page.Head.Cluster == e.cluster {
			c.storeFrom.Store(int64(c.age() + lossQuiet))
		}
		c.reset(page.Head)
	case unreadable, uint64(page.Head.Seq) > e.applied.Load()+maxBehind:
		c.reset(page.Head)
	case page.Head.Epoch > c.feed.checked && after > 0 && uint64(after) == e.applied.Load():
		c.feed.doubt = true
		return false
	default:
		for i := range page.Entries {
			if e = c.era.Load(); uint64(page.Entries[i].Seq) == e.applied.Load()+1 {
				c.process(e, &page.Entries[i])
			}
		}
	}
	c.feed.doubt, c.feed.checked = false, page.Head.Epoch
	if c.era.Load().applied.Load() < uint64(page.Head.Seq) || !c.drain() && len(page.Entries) > 0 {
		return false
	}
	c.feed.gap, c.feed.waiting, c.feed.bytes = false, nil, 0
	c.serving.Store(true)
	return true
}

// replaced reports whether the log has another entry at the era's position than the one that was processed. A log that
// goes on without its newest entries does so in a newer epoch.
func (c *Cache) replaced(e *era, page *dbaas.Page) bool {
	return len(page.Entries) > 0 && uint64(page.Entries[0].Seq) == e.applied.Load() && page.Entries[0].Epoch > c.feed.epoch
}

// drain processes the broadcasts that came during the gap. It reports whether none is left. The caller holds feed.mu.
func (c *Cache) drain() bool {
	for i := range c.feed.waiting {
		entry, e := &c.feed.waiting[i], c.era.Load()
		switch next := e.applied.Load() + 1; {
		case entry.Cluster != e.cluster || uint64(entry.Seq) < next:
		case uint64(entry.Seq) > next || entry.ChangesOmitted || entry.Epoch < c.feed.epoch || entry.Epoch > c.feed.checked:
			return false // the log has the missing entries, unless the broadcast's entry never got into the log
		default:
			c.process(e, entry)
		}
	}
	return true
}
