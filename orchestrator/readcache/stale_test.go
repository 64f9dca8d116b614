package readcache_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/readcache"
)

const (
	modelSteps   = 1_000_000
	modelReaders = 8
	// modelPace is how many steps there are for each write, so that writes go on until the last step. The model's own cost
	// grows with its history.
	modelPace = 50
)

// Every answer is the model's at its position, and the position is at least what was asked for, while broadcasts are
// lost, doubled and reordered, slaves lag, rows are deleted, the table is emptied, and the schema changes.
func TestCache_Read_NeverStale(t *testing.T) {
	m := newModel()
	m.change(0)
	c := start(t, m, readcache.Config{Bytes: 12 << 10}) // some items are evicted
	follow(t, c, m)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	due := make(chan struct{}, modelReaders)
	var writer, readers sync.WaitGroup
	writer.Go(func() { writeModel(t, m, c, rand.New(rand.NewPCG(seed, 0)), due) })
	var levels [5]atomic.Int64
	for n := range modelReaders {
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(n+1)))
			for i := range modelSteps / modelReaders {
				if i%modelPace == 0 {
					due <- struct{}{}
				}
				if !readModel(t, m, c, rnd, &levels) {
					return
				}
			}
		})
	}
	readers.Wait()
	close(due)
	writer.Wait()
	hits, misses := levels[0].Load(), levels[2].Load()
	t.Logf("%d hits, %d flights, %d misses, %d entries", hits, levels[1].Load(), misses, m.head())
	if hits < modelSteps/100 || misses == 0 {
		t.Errorf("got %d hits and %d misses, which proves little", hits, misses)
	}
}

func readModel(t *testing.T, m *model, c *readcache.Cache, rnd *rand.Rand, levels *[5]atomic.Int64) bool {
	t.Helper()
	key := rnd.IntN(modelKeys + 1 + modelGroups)
	r := read(key)
	asked := m.head()
	switch rnd.IntN(4) {
	case 0:
		r.Recent, asked = false, 0
	case 1:
		r.Recent, r.MinSeq = false, asked
	}
	result, err := c.Read(t.Context(), r)
	if err != nil {
		t.Error(err)
		return false
	}
	for i, l := range readcache.Levels() {
		if l == result.Level {
			levels[i].Add(1)
		}
	}
	if got, want := string(result.Body), m.want(key, result.Seq); got != want || result.Seq < asked {
		t.Errorf("read %d, %s: got %s at %d, want %s; position %d was asked for", key, result.Level, got, result.Seq, want, asked)
		return false
	}
	return true
}

// writeModel commits an entry whenever one is due, and broadcasts it badly.
func writeModel(t *testing.T, m *model, c *readcache.Cache, rnd *rand.Rand, due chan struct{}) {
	t.Helper()
	offer := c.Subscriber().Entry
	for range due {
		some := rnd.Perm(modelKeys)[:1+rnd.IntN(3)]
		switch n := rnd.IntN(500); {
		case n == 0:
			m.schema()
		case n < 20:
			m.commit(empties, rnd.Perm(modelKeys))
		case n < 100:
			m.commit(deletes, some)
		default:
			m.change(some...)
		}
		last := m.head()
		switch rnd.IntN(20) {
		case 0: // lost
		case 1:
			offer(m.frame(t, last))
			offer(m.frame(t, max(1, last-1)))
		case 2:
			seq := m.change(rnd.IntN(modelKeys))
			offer(m.frame(t, seq))
			offer(m.frame(t, last))
		default:
			offer(m.frame(t, last))
		}
		if rnd.IntN(10) == 0 {
			c.Looked(dbaas.Head{Cluster: m.cluster, Seq: m.head()}, time.Now())
		}
	}
}
