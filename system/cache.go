package system

import (
	"context"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/telemetry"
	"rideshare/orchestrator/orchestratorapi"
	"rideshare/orchestrator/readcache"
)

// Cache holds the settings of the read cache. The zero value is a cache of the default size.
type Cache struct {
	Off bool
	// Bytes bounds its size; zero means the default.
	Bytes int64
	// Audit is how often cached answers are compared with a worker's; zero means never.
	Audit time.Duration
}

// newReadCache returns the read cache, or nil if it is off. The dispatcher may be made later.
func (c *orchestratorParts) newReadCache(cfg Config) *readcache.Cache {
	if cfg.Cache.Off {
		return nil
	}
	return readcache.New(readcache.Config{
		Log: cfg.Log, Store: c.store, Bytes: cfg.Cache.Bytes,
		Ask:     func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) { return c.admitted().Read(ctx, r) },
		Seen:    func() dbaas.Seq { return c.dispatcher.SeenSeq() },
		Cluster: func() dbaas.ClusterID { return c.dispatcher.Cluster() },
	})
}

// runReadCache starts following the log.
func (c *orchestratorParts) runReadCache(ctx context.Context, cfg Config) {
	if c.reads == nil {
		return
	}
	c.background.Go(func() { c.ended("read cache", c.reads.Run(ctx)) })
	c.background.Go(func() { c.ended(mq.SyncQ, c.conn.Subscribe(ctx, c.reads.Subscriber())) })
	if cfg.Cache.Audit > 0 {
		c.background.Go(func() { c.reads.RunAudits(ctx, cfg.Cache.Audit) })
	}
}

// cachedDispatcher is a dispatcher whose reads go through the cache.
type cachedDispatcher struct {
	admittedDispatcher

	cache *readcache.Cache
}

// Read implements orchestratorapi.Dispatcher.
func (d cachedDispatcher) Read(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
	return d.cache.Read(ctx, r)
}

// shownCache adapts the cache to its routes.
type shownCache struct{ *readcache.Cache }

// Status implements orchestratorapi.Cache.
func (s shownCache) Status() any { return s.Cache.Status() }

// useCache sets what the routes need to read through the cache, if there is one.
func (c *orchestratorParts) useCache(api *orchestratorapi.Config) {
	api.Dispatcher = c.admitted()
	if c.reads != nil {
		api.Dispatcher, api.Cache = cachedDispatcher{c.admitted(), c.reads}, shownCache{c.reads}
	}
}

// audited is how many cached answers a check compares at most.
const audited = 100

// auditCache compares cached answers with a worker's, for the check of invariants.
func (c *orchestratorParts) auditCache(ctx context.Context) (compared, mismatches int, err error) {
	compared, mismatches, err = c.reads.Audit(ctx, audited)
	if err != nil {
		c.log.WarnContext(ctx, "read cache not audited", logkey.Error, err)
	}
	return compared, mismatches, err
}

// cacheMetrics returns the metrics of the cache, none if it is off.
func (c *orchestratorParts) cacheMetrics() []telemetry.Sampled {
	if c.reads == nil {
		return nil
	}
	number := func(name, help string, gauge bool, value func(*readcache.Status) float64) telemetry.Sampled {
		return telemetry.Sampled{Name: "rideshare_cache_" + name, Help: help, Gauge: gauge, Read: func(emit func(float64, ...string)) {
			s := c.reads.Status()
			emit(value(&s))
		}}
	}
	return []telemetry.Sampled{
		{
			Name: "rideshare_cache_reads_total", Help: "Reads answered 200, by where the answer came from: HIT, FLIGHT, MISS or BYPASS, as in the header X-Cache.", Labels: []string{"level"},
			Read: func(emit func(float64, ...string)) {
				for level, n := range c.reads.Status().Reads {
					emit(float64(n), string(level))
				}
			},
		},
		{
			Name: "rideshare_cache_invalid_total", Help: "Look-ups that found an answer that a change has made invalid, by the kind of tag that was touched.", Labels: []string{"tag"},
			Read: func(emit func(float64, ...string)) {
				for tag, n := range c.reads.Status().Invalid {
					emit(float64(n), tag)
				}
			},
		},
		number("items", "Answers in the read cache.", true, func(s *readcache.Status) float64 { return float64(s.Items) }),
		number("bytes", "Bytes of the answers in the read cache, with keys, tags and overhead.", true, func(s *readcache.Status) float64 { return float64(s.Bytes) }),
		number("applied_seq", "Position up to which the read cache has processed the log.", true, func(s *readcache.Status) float64 { return float64(s.Applied) }),
		number("lag_entries", "Entries that the read cache is behind the head that the orchestrator knows.", true, func(s *readcache.Status) float64 { return float64(s.Lag) }),
		number("resets_total", "How often the read cache was emptied: schema changes, large entries, gaps that were too large, another log.", false, func(s *readcache.Status) float64 { return float64(s.Resets) }),
		number("audited_total", "Cached answers that were compared with a worker's.", false, func(s *readcache.Status) float64 { return float64(s.Audited) }),
		number("mismatches_total", "Cached answers that were wrong. There must be none.", false, func(s *readcache.Status) float64 { return float64(s.Mismatches) }),
	}
}
