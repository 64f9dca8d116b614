package readcache_test

import (
	"context"
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

// Concurrent reads of one key share one read of a worker, if the statement is known to be cacheable. Each write, also of
// other rows, lets each key miss once: a read that must see the write is a miss until the cache has processed it.
func TestCache_SingleFlight(t *testing.T) {
	const clients, reads, keys, writes = 128, 64_000, 30, 20
	var m *model
	m, c := upToDate(t, readcache.Config{Now: standingClock(), Ask: func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
		for range clients { // others arrive meanwhile
			runtime.Gosched()
		}
		return m.ask(ctx, r)
	}})
	wantLevel(t, c, read(39), dbaas.LevelMiss) // the statement is known
	readAll := func(reads, least, most int) {
		before := m.asked.Load()
		var all sync.WaitGroup
		for n := range clients {
			all.Go(func() {
				for i := range reads / clients {
					if _, err := c.Read(t.Context(), read((n+i)%keys)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if got := int(m.asked.Load() - before); got < least || got > most {
			t.Errorf("got %d reads of workers, want %d to %d", got, least, most)
		}
	}
	readAll(reads, keys, keys)
	for i := range writes {
		seq := m.change(i % keys)
		readAll(keys*clients, keys, keys)
		readAll(keys*clients, 0, 0)
		c.Subscriber().Entry(m.frame(t, seq))
		readAll(keys*clients, 0, 0)
	}
	// The cache has processed this write before a read comes: only its row is asked for.
	c.Subscriber().Entry(m.frame(t, m.change(0)))
	readAll(keys*clients, 1, 1)
}

// An answer without tags may be the leader's own, and rows of another cluster are not shared.
func TestCache_FlightOfAnother_IsNotShared(t *testing.T) {
	own := func(r dbaas.ReadResult) dbaas.ReadResult { return dbaas.ReadResult{Body: []byte("error"), Seq: r.Seq} }
	t.Run("OwnAnswer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { notShared(t, own, func(*model) {}) })
	})
	same := func(r dbaas.ReadResult) dbaas.ReadResult { return r }
	t.Run("OtherCluster", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { notShared(t, same, func(m *model) { m.cluster = dbaas.ClusterID{2} }) })
	})
}

func notShared(t *testing.T, leaders func(dbaas.ReadResult) dbaas.ReadResult, change func(*model)) {
	t.Helper()
	var calls atomic.Int64
	block := make(chan struct{})
	var m *model
	m, c := upToDate(t, readcache.Config{Ask: func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
		result, err := m.ask(ctx, r)
		if r.Statements[0].Args[0].Int == 7 && calls.Add(1) == 1 {
			<-block
			result = leaders(result)
		}
		return result, err
	}})
	wantLevel(t, c, read(1), dbaas.LevelMiss) // the statement is known
	var reads sync.WaitGroup
	reads.Go(func() { _, _ = c.Read(context.Background(), read(7)) }) // its answer is not what is tested.
	await(t, func() bool { return calls.Load() == 1 })
	m.mu.Lock()
	change(m)
	m.mu.Unlock()
	var got dbaas.ReadResult
	reads.Go(func() { got, _ = c.Read(context.Background(), read(7)) })
	synctest.Wait()
	close(block)
	reads.Wait()
	if want := m.want(7, m.head()); got.Level != dbaas.LevelMiss || string(got.Body) != want || calls.Load() != 2 {
		t.Errorf("got %s, %s, after %d questions, want %s, a miss, after 2", got.Body, got.Level, calls.Load(), want)
	}
}

// A read of level weak does not join a flight of level none, also while no position of the log is known.
func TestCache_FlightOfLevelNone_IsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		block := make(chan struct{})
		c := readcache.New(readcache.Config{
			Seen: func() dbaas.Seq { return 0 }, Cluster: func() dbaas.ClusterID { return dbaas.ClusterID{} },
			Ask: func(context.Context, dbaas.Read) (dbaas.ReadResult, error) {
				if calls.Add(1) == 2 {
					<-block
				}
				return dbaas.ReadResult{Body: []byte("rows"), Tags: readtags.Tags{}.Add(readtags.KindTable, readtags.Table("t"))}, nil
			},
		})
		none := read(7)
		none.Recent = false
		wantLevel(t, c, none, dbaas.LevelMiss) // the statement is known
		var flight sync.WaitGroup
		flight.Go(func() { _, _ = c.Read(context.Background(), none) }) // its answer is not what is tested.
		synctest.Wait()
		var got dbaas.ReadResult
		flight.Go(func() { got, _ = c.Read(context.Background(), read(7)) })
		synctest.Wait()
		close(block)
		flight.Wait()
		if got.Level != dbaas.LevelMiss || calls.Load() != 3 {
			t.Errorf("got %s after %d questions, want a miss after 3", got.Level, calls.Load())
		}
	})
}

// A read that waits for a position after the head, which may never come, is not joined.
func TestCache_FlightForAFuturePosition_IsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		var m *model
		m, c := upToDate(t, readcache.Config{Ask: func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
			if r.MinSeq > m.head() {
				<-block
			}
			return m.ask(ctx, r)
		}})
		wantLevel(t, c, read(1), dbaas.LevelMiss) // the statement is known
		future := read(7)
		future.MinSeq = m.head() + 5
		var leader sync.WaitGroup
		leader.Go(func() { _, _ = c.Read(context.Background(), future) }) // its answer is not what is tested.
		synctest.Wait()
		wantLevel(t, c, read(7), dbaas.LevelMiss)
		close(block)
		leader.Wait()
	})
}

// A read of level none joins no leader that may wait for a position, and joins one of its own level.
func TestCache_LevelNone_JoinsNoWaitingLeader(t *testing.T) {
	for name, c := range map[string]struct {
		leader func(*dbaas.Read, dbaas.Seq)
		want   dbaas.CacheLevel
	}{
		"Weak":   {func(r *dbaas.Read, _ dbaas.Seq) { r.Recent = true }, dbaas.LevelMiss},
		"MinSeq": {func(r *dbaas.Read, head dbaas.Seq) { r.MinSeq = head }, dbaas.LevelMiss},
		"None":   {func(*dbaas.Read, dbaas.Seq) {}, dbaas.LevelFlight},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { joinsNone(t, c.leader, c.want) }) })
	}
}

func joinsNone(t *testing.T, change func(*dbaas.Read, dbaas.Seq), want dbaas.CacheLevel) {
	t.Helper()
	var calls atomic.Int64
	var m *model
	m, c := upToDate(t, readcache.Config{Ask: func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
		if r.Statements[0].Args[0].Int == 7 && calls.Add(1) == 1 {
			<-time.After(500 * time.Millisecond) // the leader waits for its position
		}
		return m.ask(ctx, r)
	}})
	wantLevel(t, c, read(1), dbaas.LevelMiss) // the statement is known
	none := read(7)
	none.Recent = false
	leading := none
	change(&leading, m.head())
	var leader sync.WaitGroup
	leader.Go(func() { _, _ = c.Read(context.Background(), leading) }) // its answer is not what is tested.
	synctest.Wait()
	began := time.Now()
	wantLevel(t, c, none, want)
	if waited := time.Since(began); waited > 0 && want == dbaas.LevelMiss {
		t.Errorf("the read waited %s for the leader", waited)
	}
	leader.Wait()
}

// A read that must see a write does not join a flight that began before the write.
func TestCache_FlightFromBeforeAWrite_IsNotJoined(t *testing.T) { synctest.Test(t, flightBeforeWrite) }

func flightBeforeWrite(t *testing.T) {
	var calls atomic.Int64
	block := make(chan struct{})
	var m *model
	m, c := upToDate(t, readcache.Config{Ask: func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
		result, err := m.ask(ctx, r)
		if r.Statements[0].Args[0].Int == 7 && calls.Add(1) == 1 {
			<-block // with the answer from before the write
		}
		return result, err
	}})
	wantLevel(t, c, read(1), dbaas.LevelMiss) // the statement is known
	var leader sync.WaitGroup
	leader.Go(func() { _, _ = c.Read(context.Background(), read(7)) }) // its answer is not what is tested.
	await(t, func() bool { return calls.Load() == 1 })
	seq := m.change(7)
	answered := make(chan dbaas.ReadResult, 1)
	go func() {
		result, _ := c.Read(context.Background(), read(7))
		answered <- result
	}()
	synctest.Wait()
	select {
	case result := <-answered:
		if got, want := string(result.Body), m.want(7, seq); result.Level != dbaas.LevelMiss || result.Seq < seq || got != want {
			t.Errorf("got %s at %d, %s, want a miss with %s at %d", got, result.Seq, result.Level, want, seq)
		}
	default:
		t.Error("the read waits for the flight from before the write")
	}
	close(block)
	leader.Wait()
}
