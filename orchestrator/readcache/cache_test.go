package readcache_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"
	"rideshare/orchestrator/readcache"
)

func level(t *testing.T, c *readcache.Cache, r dbaas.Read) dbaas.CacheLevel {
	t.Helper()
	result, err := c.Read(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return result.Level
}

func wantLevel(t *testing.T, c *readcache.Cache, r dbaas.Read, want dbaas.CacheLevel) {
	t.Helper()
	if got := level(t, c, r); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// standingClock returns a clock on which no look at the head gets too old, however slow the machine is.
func standingClock() func() time.Time {
	now := time.Now()
	return func() time.Time { return now }
}

// upToDate returns a model whose slave is always at the head, with one entry, and a cache that follows it.
func upToDate(t *testing.T, cfg readcache.Config) (*model, *readcache.Cache) {
	t.Helper()
	m := newModel()
	m.slave = func(_ *model, head dbaas.Seq) dbaas.Seq { return head }
	m.change(0)
	c := start(t, m, cfg)
	follow(t, c, m)
	return m, c
}

// Which reads the cache may answer.
func TestCache_Read_Levels(t *testing.T) {
	m, c := upToDate(t, readcache.Config{Now: standingClock()})
	r := read(1)
	wantLevel(t, c, r, dbaas.LevelMiss)
	wantLevel(t, c, r, dbaas.LevelHit)
	for _, change := range []func(*dbaas.Read){
		func(r *dbaas.Read) { r.Linearizable = true },
		func(r *dbaas.Read) { r.Timings = true },
		func(r *dbaas.Read) { r.Cache = dbaas.CacheNone },
		func(r *dbaas.Read) { r.Statements = append(r.Statements, r.Statements[0]) },
	} {
		bypass := read(1)
		change(&bypass)
		wantLevel(t, c, bypass, dbaas.LevelBypass)
	}
	other := read(1)
	other.Format = dbaas.FormatAssociative
	wantLevel(t, c, other, dbaas.LevelMiss)
	typed := read(1)
	typed.Statements[0].Args = []dbaas.Value{dbaas.Float(1)}
	typed.Statements[0].SQL = "row" // the model takes 1.0 for row 0, which is another key
	wantLevel(t, c, typed, dbaas.LevelMiss)
	refresh := read(1)
	refresh.Cache = dbaas.CacheRefresh
	wantLevel(t, c, refresh, dbaas.LevelMiss)
	wantLevel(t, c, r, dbaas.LevelHit)
	// A write that the cache has not processed yet: only a read of level none is answered.
	m.change(2)
	wantLevel(t, c, r, dbaas.LevelMiss)
	none := read(1)
	none.Recent = false
	wantLevel(t, c, none, dbaas.LevelHit)
	c.Subscriber().Entry(m.frame(t, m.head()))
	wantLevel(t, c, r, dbaas.LevelHit)
	c.Clear()
	wantLevel(t, c, r, dbaas.LevelMiss)
}

// After each write of a row its answer is asked for again, and is then kept.
func TestCache_Read_AfterAWrite_Asked(t *testing.T) {
	m, c := upToDate(t, readcache.Config{})
	r := read(1)
	r.Recent = false
	for range 3 {
		wantLevel(t, c, r, dbaas.LevelMiss)
		wantLevel(t, c, r, dbaas.LevelHit)
		c.Subscriber().Entry(m.frame(t, m.change(1)))
	}
	wantLevel(t, c, r, dbaas.LevelMiss)
}

// Without a look at the head for two seconds only reads of level none are answered.
func TestCache_HeadNotSeen_OnlyNone(t *testing.T) {
	now := atomic.Int64{}
	now.Store(time.Now().UnixNano())
	m, c := upToDate(t, readcache.Config{Now: func() time.Time { return time.Unix(0, now.Load()) }})
	c.Looked(dbaas.Head{Cluster: m.cluster, Seq: m.head()}, time.Unix(0, now.Load())) // by the test's clock
	r := read(1)
	wantLevel(t, c, r, dbaas.LevelMiss)
	now.Add(int64(3 * time.Second))
	wantLevel(t, c, r, dbaas.LevelMiss)
	none := read(1)
	none.Recent = false
	wantLevel(t, c, none, dbaas.LevelHit)
	c.Looked(dbaas.Head{Cluster: m.cluster, Seq: m.head()}, time.Unix(0, now.Load()))
	wantLevel(t, c, r, dbaas.LevelHit)
}

// During a gap the cache answers nothing. It goes on with what it has once the log has given it the missing entries, and
// begins again if too many are missing.
func TestCache_Gap_IsFilledFromTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		missing int
		after   dbaas.CacheLevel
	}{"Some": {250, dbaas.LevelHit}, "TooMany": {1001, dbaas.LevelMiss}} {
		t.Run(name, func(t *testing.T) {
			m, cache := upToDate(t, readcache.Config{})
			r := read(1)
			r.Recent = false
			wantLevel(t, cache, r, dbaas.LevelMiss)
			m.away.Store(true)
			for range c.missing {
				m.change(2)
			}
			cache.Subscriber().Entry(m.frame(t, m.change(3)))
			wantLevel(t, cache, r, dbaas.LevelMiss)
			m.away.Store(false)
			await(t, func() bool { applied, _, serving := cache.Position(); return serving && applied == m.head() })
			wantLevel(t, cache, r, c.after)
		})
	}
}

// If syncQ is silent, a look at the head makes the cache read the log.
func TestCache_SilentSyncQ_HeadIsFollowed(t *testing.T) {
	m, c := upToDate(t, readcache.Config{})
	m.change(1)
	c.Looked(dbaas.Head{Cluster: m.cluster, Seq: m.head()}, time.Now())
	await(t, func() bool { applied, _, serving := c.Position(); return serving && applied == m.head() })
}

// An answer of a worker that was asked before a reset is not kept after it.
func TestCache_AnswerFromBeforeAReset_NotKept(t *testing.T) {
	var m *model
	var c *readcache.Cache
	m, c = upToDate(t, readcache.Config{Ask: func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
		result, err := m.ask(ctx, r)
		m.schema()
		c.Subscriber().Entry(m.frame(t, m.head()))
		result.Seq = m.head() + 100 // as a position of another log might be
		return result, err
	}})
	wantLevel(t, c, read(1), dbaas.LevelMiss)
	if c.Status().Items != 0 {
		t.Error("an answer from before the reset was kept")
	}
}

// A joined read keeps its own deadline, and asks once itself if the leader fails.
func TestCache_JoinedRead_DeadlineAndFailure(t *testing.T) { synctest.Test(t, joinedRead) }

func joinedRead(t *testing.T) {
	var calls atomic.Int64
	block := make(chan struct{})
	var m *model
	m, c := upToDate(t, readcache.Config{Ask: func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
		if r.Statements[0].Args[0].Int == 7 && calls.Add(1) == 1 {
			<-block
			return dbaas.ReadResult{}, errors.New("the leader fails")
		}
		return m.ask(ctx, r)
	}})
	wantLevel(t, c, read(1), dbaas.LevelMiss)
	var leader sync.WaitGroup
	leader.Go(func() {
		if _, err := c.Read(t.Context(), read(7)); err == nil {
			t.Error("the leader has an answer")
		}
	})
	await(t, func() bool { return calls.Load() == 1 })
	short := read(7)
	short.Deadline = time.Now().Add(20 * time.Millisecond)
	if _, err := c.Read(t.Context(), short); dbaas.CodeOf(err) != dbaas.CodeTimeout {
		t.Errorf("got %v, want a timeout", err)
	}
	joined := make(chan dbaas.CacheLevel, 1)
	go func() {
		result, _ := c.Read(context.Background(), read(7))
		joined <- result.Level
	}()
	synctest.Wait()
	close(block)
	if got := <-joined; got != dbaas.LevelMiss || calls.Load() != 2 {
		t.Errorf("got %q after %d reads of workers, want a miss after 2", got, calls.Load())
	}
	leader.Wait()
}

// A page of the log that takes long, as one with a large entry, is read to its end.
func TestCache_SlowPage_IsReadToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := upToDate(t, readcache.Config{})
		m.pieces.Store(8)
		m.change(1)
		c.Subscriber().Entry(m.frame(t, m.change(2))) // the entry before is missing
		<-time.After(10 * time.Second)
		synctest.Wait()
		if applied, _, serving := c.Position(); applied != m.head() || !serving {
			t.Errorf("got position %d, serving %t, want %d and true", applied, serving, m.head())
		}
	})
}

// A read does not wait for a leader that has been stuck for long.
func TestCache_StuckLeader_IsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		block := make(chan struct{})
		var m *model
		m, c := upToDate(t, readcache.Config{Ask: func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
			if r.Statements[0].Args[0].Int == 7 && calls.Add(1) == 1 {
				<-block
			}
			return m.ask(ctx, r)
		}})
		wantLevel(t, c, read(1), dbaas.LevelMiss)
		var leader sync.WaitGroup
		leader.Go(func() { _, _ = c.Read(context.Background(), read(7)) }) // its answer is not what is tested.
		await(t, func() bool { return calls.Load() == 1 })
		<-time.After(time.Second)
		r := read(7)
		r.Deadline = time.Now().Add(100 * time.Millisecond)
		wantLevel(t, c, r, dbaas.LevelMiss)
		close(block)
		leader.Wait()
	})
}

// The memory of the cache stays within its bound, a tenth more at most.
func TestCache_Size_IsBounded(t *testing.T) {
	for name, answers := range map[string]struct{ n, least, most int }{
		"Large": {n: 20_000, least: 1 << 10, most: 64 << 10},
		"Small": {n: 100_000, least: 1, most: 1 << 10},
	} {
		t.Run(name, func(t *testing.T) { staysWithinItsBound(t, answers.n, answers.least, answers.most) })
	}
}

func staysWithinItsBound(t *testing.T, n, least, most int) {
	t.Helper()
	const limit = 64 << 20
	rnd := rand.New(rand.NewPCG(1, 2))
	tags := readtags.Tags{}.Add(readtags.KindTable, 1)
	_, c := upToDate(t, readcache.Config{Bytes: limit, Ask: func(_ context.Context, _ dbaas.Read) (dbaas.ReadResult, error) {
		return dbaas.ReadResult{Seq: 1, Tags: tags, Body: bytes.Repeat([]byte{'x'}, least+rnd.IntN(most-least+1))}, nil
	}})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		wantLevel(t, c, dbaas.Read{Statements: []dbaas.Statement{{SQL: "x", Args: []dbaas.Value{dbaas.Integer(int64(i))}}}}, dbaas.LevelMiss)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	items, size := c.Items()
	heap := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d items, %d bytes counted, %d bytes of heap", items, size, heap)
	if heap > limit*11/10 || size > limit || items == 0 {
		t.Errorf("got %d bytes of heap, %d counted, want at most %d", heap, size, limit)
	}
	runtime.KeepAlive(c)
}
