// Package readcache answers reads from the memory of the orchestrator. The cache follows the log over syncQ, so a cached
// answer is never stale: it is the answer at one position, and is used only if that position meets what the read asked
// for. DESIGN.md has the rule and its reasons.
package readcache

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"

	"github.com/maypok86/otter/v2"
)

// Store is the part of persdb that this package needs.
type Store interface {
	Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error)
}

// Config is what New needs. Only Bytes and Now have defaults.
type Config struct {
	Log   *slog.Logger
	Store Store
	// Ask sends a read to a worker.
	Ask func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error)
	// Seen returns the highest position that this orchestrator knows to be committed, and Cluster its cluster.
	Seen    func() dbaas.Seq
	Cluster func() dbaas.ClusterID
	// Bytes bounds keys, answers, tags and overhead. Default 64 MiB.
	Bytes int64
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

const (
	// DefaultBytes is the default of Config.Bytes.
	DefaultBytes = 64 << 20
	// headLife is how long a look at persdb's head counts, from its beginning. Afterwards the cache answers only reads
	// of level none without X-Min-Seq, until the next look succeeds.
	headLife = 2 * time.Second
	// overhead is roughly how many bytes an item takes besides its key, answer and tags.
	overhead = 320
	// maxStatement is the longest statement whose answers are cached, and maxValues the most values.
	maxStatement, maxValues = 16 << 10, 256
)

// Cache is the read cache of one orchestrator. It is safe for concurrent use.
type Cache struct {
	cfg       Config
	items     *otter.Cache[string, *item]
	era       atomic.Pointer[era] // nil until the log was seen once
	serving   atomic.Bool         // no entry is missing, as far as is known
	began     time.Time
	looked    atomic.Int64 // when the last successful look at persdb's head began, in ns since began
	storeFrom atomic.Int64 // answers to reads sent before are not stored, in ns since began
	auditFrom atomic.Int64 // how many items the next audit passes over before its colder half
	known     statements
	stats     stats
	feed      feed

	mu      sync.Mutex // guards flights
	flights map[flightKey]*flight
}

// New returns a Cache. Until Run has read the log, every read is a miss.
func New(cfg Config) *Cache {
	cfg.Bytes = cmp.Or(cfg.Bytes, DefaultBytes)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Cache{cfg: cfg, began: cfg.Now(), known: newStatements(), flights: map[flightKey]*flight{}}
	c.looked.Store(int64(-headLife))
	c.feed.wake = make(chan struct{}, 1)
	c.items = otter.Must(&otter.Options[string, *item]{
		MaximumWeight: uint64(cfg.Bytes),
		Weigher: func(key string, it *item) uint32 {
			return uint32(overhead + len(key) + len(key)/8 + cap(it.body) + cap(it.tags))
		},
		Executor: func(fn func()) { fn() }, // the size is right when a call returns
	})
	return c
}

// Read answers r from the cache, or asks a worker. The result's Level says where the answer came from. Errors are those
// of Config.Ask, and CodeTimeout if r joined another read that did not end in time.
func (c *Cache) Read(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
	if bypasses(&r) {
		result, err := c.cfg.Ask(ctx, r)
		result.Level = dbaas.LevelBypass
		return result, err
	}
	key := keyOf(&r)
	if r.Cache == dbaas.CacheRefresh {
		return c.fill(ctx, r, key)
	}
	want := r.MinSeq
	if r.Recent {
		want = max(want, c.cfg.Seen())
	}
	if result, ok := c.lookUp(&r, key, want); ok {
		return result, nil
	}
	if !c.known.cacheable(r.Statements[0].SQL) {
		return c.fill(ctx, r, key)
	}
	return c.fly(ctx, r, key, want)
}

// bypasses reports whether the answer to r is never cached.
func bypasses(r *dbaas.Read) bool {
	if r.Linearizable || r.Timings || r.Cache == dbaas.CacheNone || len(r.Statements) != 1 {
		return true
	}
	st := &r.Statements[0]
	return len(st.SQL) > maxStatement || len(st.Args)+len(st.Named) > maxValues
}

// lookUp returns the cached answer if there is one and it is valid at position want or later.
func (c *Cache) lookUp(r *dbaas.Read, key string, want dbaas.Seq) (result dbaas.ReadResult, ok bool) {
	e := c.era.Load()
	if e == nil || !c.serving.Load() || e.cluster != c.cfg.Cluster() {
		return result, false
	}
	applied := e.applied.Load() // before the item and its slots: see era.process
	it, ok := c.items.GetIfPresent(key)
	if !ok {
		return result, false
	}
	ok, kind := it.valid(e)
	if !ok {
		c.stats.invalid(kind)
		return result, false
	}
	if (r.Recent || r.MinSeq > 0) && c.age()-time.Duration(c.looked.Load()) > headLife {
		return result, false
	}
	at := dbaas.Seq(max(applied, it.p))
	return dbaas.ReadResult{Seq: at, Body: it.body, Level: dbaas.LevelHit}, at >= want
}

// fill asks a worker and keeps the answer.
func (c *Cache) fill(ctx context.Context, r dbaas.Read, key string) (dbaas.ReadResult, error) {
	r.WantTags = true
	e := c.era.Load()
	storable := e != nil && e.cluster == c.cfg.Cluster() && c.age() >= time.Duration(c.storeFrom.Load())
	result, err := c.cfg.Ask(ctx, r)
	if err != nil {
		return result, err
	}
	result.Level = dbaas.LevelMiss
	if len(result.Tags) == 0 {
		result.Level = dbaas.LevelBypass
	}
	c.known.learn(r.Statements[0].SQL, len(result.Tags) > 0)
	// A worker of another cluster does not answer. So the position is of e's cluster if the cluster has not changed
	// since.
	if storable && len(result.Tags) > 0 && e.cluster == c.cfg.Cluster() {
		c.keep(key, newItem(e, &result))
	}
	return result, nil
}

// age is the time since New, by a clock whose steps do not matter.
func (c *Cache) age() time.Duration { return c.cfg.Now().Sub(c.began) }

// newItem copies the answer, so that the item does not keep the answer's whole frame in memory. The capacities of the
// copies add up to the memory that they take.
func newItem(e *era, result *dbaas.ReadResult) *item {
	n := len(result.Tags)
	b := append(append(slices.Grow([]byte(nil), n+len(result.Body)), result.Tags...), result.Body...)
	return &item{era: e, p: uint64(result.Seq), tags: b[:n:n], body: b[n:]}
}

// keep stores an item, unless a later one is there or its era is over.
func (c *Cache) keep(key string, it *item) {
	if ok, _ := it.valid(c.era.Load()); !ok {
		return
	}
	c.items.Compute(key, func(old *item, found bool) (*item, otter.ComputeOp) {
		if found && old.era == it.era && old.p > it.p {
			return old, otter.CancelOp
		}
		return it, otter.WriteOp
	})
}

// Clear removes all answers.
func (c *Cache) Clear() { c.items.InvalidateAll() }

// Items returns the number of items and the bytes that they take.
func (c *Cache) Items() (n int, size uint64) { return c.items.EstimatedSize(), c.items.WeightedSize() }

// Position returns the position up to which the cache has processed the log, and how far behind the known head it is.
// serving reports whether it answers.
func (c *Cache) Position() (applied dbaas.Seq, lag uint64, serving bool) {
	if e := c.era.Load(); e != nil {
		applied = dbaas.Seq(e.applied.Load())
	}
	if seen := c.cfg.Seen(); seen > applied {
		lag = uint64(seen - applied)
	}
	return applied, lag, c.serving.Load()
}

// statements knows which statements are cacheable. It is safe for concurrent use.
type statements struct {
	mu  sync.RWMutex // guards yes
	yes map[string]bool
}

// maxKnown is how many statements are remembered. Before one more is added, all are forgotten.
const maxKnown = 1024

func newStatements() statements { return statements{yes: map[string]bool{}} }

func (s *statements) cacheable(sql string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.yes[sql]
}

func (s *statements) learn(sql string, cacheable bool) {
	if s.cacheable(sql) == cacheable {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.yes) >= maxKnown {
		clear(s.yes)
	}
	s.yes[sql] = cacheable
}

func (s *statements) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.yes)
}

// stats are the counters of a Cache.
type stats struct {
	levels     [4]atomic.Int64 // in the order of Levels
	invalidBy  [readtags.Kinds]atomic.Int64
	resets     atomic.Int64
	audited    atomic.Int64
	mismatches atomic.Int64
}

func (s *stats) invalid(kind int) {
	if kind >= 0 {
		s.invalidBy[kind].Add(1)
	}
}

// Levels returns the levels of answered reads.
func Levels() [4]dbaas.CacheLevel {
	return [...]dbaas.CacheLevel{dbaas.LevelHit, dbaas.LevelFlight, dbaas.LevelMiss, dbaas.LevelBypass}
}

// Answered counts a read that was answered 200.
func (c *Cache) Answered(level dbaas.CacheLevel) {
	for i, l := range Levels() {
		if l == level {
			c.stats.levels[i].Add(1)
		}
	}
}
