package readcache_test

import (
	"context"
	"encoding/binary"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"
	"rideshare/internal/wire"
	"rideshare/orchestrator/readcache"
)

func lookAtHead(t *testing.T, m *model, c *readcache.Cache) {
	t.Helper()
	page, err := m.Log(t.Context(), m.head(), 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Looked(page.Head, time.Now())
}

// Another cluster, a head that has gone back, or another entry at the cache's position empties the cache.
func TestCache_OtherLog_IsEmptied(t *testing.T) {
	broadcast := func(t *testing.T, m *model, c *readcache.Cache) {
		t.Helper()
		c.Subscriber().Entry(m.frame(t, m.head()))
	}
	for name, other := range map[string]struct {
		change func(*model)
		notice func(*testing.T, *model, *readcache.Cache)
	}{
		"Cluster":                     {func(m *model) { m.mu.Lock(); m.cluster = dbaas.ClusterID{2}; m.mu.Unlock() }, lookAtHead},
		"Head":                        {(*model).lose, lookAtHead},
		"EntryReplaced/Head":          {func(m *model) { m.lose(); m.change(5) }, lookAtHead},
		"EntryReplaced/Broadcast":     {func(m *model) { m.lose(); m.change(5) }, broadcast},
		"EntryReplaced/NextBroadcast": {func(m *model) { m.lose(); m.change(5); m.change(6) }, broadcast},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, c := upToDate(t, readcache.Config{})
				seq := m.change(5)
				c.Subscriber().Entry(m.frame(t, seq))
				r := read(1)
				r.Recent = false
				wantLevel(t, c, r, dbaas.LevelMiss)
				other.change(m)
				other.notice(t, m, c)
				await(t, func() bool { return c.Status().Resets == 2 && c.Status().Serving })
				wantLevel(t, c, r, dbaas.LevelMiss)
			})
		})
	}
}

// A new epoch alone, or its next entry, does not empty the cache.
func TestCache_NewEpoch_AnswersStay(t *testing.T) {
	m, c := upToDate(t, readcache.Config{})
	r := read(1)
	r.Recent = false
	wantLevel(t, c, r, dbaas.LevelMiss)
	for range 2 {
		m.mu.Lock()
		m.epoch++
		m.mu.Unlock()
		lookAtHead(t, m, c)
		await(t, func() bool { return c.Status().Serving })
		c.Subscriber().Entry(m.frame(t, m.change(2)))
	}
	await(t, func() bool { applied, _, serving := c.Position(); return serving && applied == m.head() })
	wantLevel(t, c, r, dbaas.LevelHit)
}

// After the log has lost entries, an answer of a slave that still has them is not kept: the next entry may have the lost
// entry's position.
func TestCache_LostEntry_AnswersNotKept(t *testing.T) { synctest.Test(t, lostEntry) }

func lostEntry(t *testing.T) {
	m, c := upToDate(t, readcache.Config{})
	lost := m.change(5)
	c.Subscriber().Entry(m.frame(t, lost))
	m.slave = func(*model, dbaas.Seq) dbaas.Seq { return lost }
	m.lose()
	lookAtHead(t, m, c)
	await(t, func() bool { return c.Status().Resets == 2 && c.Status().Serving })
	r := read(5)
	r.Recent = false
	wantLevel(t, c, r, dbaas.LevelMiss) // with the lost row
	if again := m.change(5); again != lost {
		t.Fatalf("got position %d, want %d", again, lost)
	}
	c.Subscriber().Entry(m.frame(t, lost))
	await(t, func() bool { applied, _, serving := c.Position(); return serving && applied == lost })
	wantLevel(t, c, r, dbaas.LevelMiss)
	<-time.After(5 * time.Second) // the slave has noticed
	wantLevel(t, c, r, dbaas.LevelMiss)
	wantLevel(t, c, r, dbaas.LevelHit)
}

// A read that comes while an entry is processed gets no answer from before the entry as one at its position. The entry
// touches all slots, that of the read last.
func TestCache_ReadWhileAnEntryIsProcessed_NotStale(t *testing.T) {
	const entries = 100    // a break shows at one in ten
	var head atomic.Uint64 // each entry changes the answer to its position
	m, c := upToDate(t, readcache.Config{Now: standingClock(), Ask: func(context.Context, dbaas.Read) (dbaas.ReadResult, error) {
		p := head.Load()
		return dbaas.ReadResult{Seq: dbaas.Seq(p), Body: strconv.AppendUint(nil, p, 10), Tags: readtags.Tags{}.Add(readtags.KindRow, readtags.Slots-1)}, nil
	}})
	head.Store(uint64(m.head()))
	data := binary.AppendUvarint([]byte{readtags.RecordTouched}, 2*readtags.Slots)
	for slot := range readtags.Slots {
		data = binary.LittleEndian.AppendUint16(data, uint16(slot))
	}
	entry := dbaas.Entry{Cluster: cluster, Epoch: 1, Changes: []dbaas.Change{{Kind: dbaas.ChangeRows, Data: data}}}
	var hit atomic.Uint64 // the position of the last hit
	var reader sync.WaitGroup
	reader.Go(func() {
		r := read(1)
		for r.Recent = false; hit.Load() < entries; runtime.Gosched() {
			result, err := c.Read(t.Context(), r)
			if want := strconv.FormatUint(uint64(result.Seq), 10); err != nil || string(result.Body) != want {
				t.Errorf("got %s at %s, %s, %v", result.Body, want, result.Level, err)
				return
			}
			if result.Level == dbaas.LevelHit {
				hit.Store(uint64(result.Seq))
			}
		}
	})
	for range entries {
		for hit.Load() < head.Load() && !t.Failed() {
			runtime.Gosched()
		}
		entry.Seq = dbaas.Seq(head.Add(1))
		frame, err := wire.EncodeEntry(entry)
		if err != nil {
			t.Fatal(err)
		}
		c.Subscriber().Entry(frame)
	}
	reader.Wait()
}
