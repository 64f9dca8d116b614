package readcache_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
	"rideshare/orchestrator/readcache"
)

const modelKeys = 40

var cluster = dbaas.ClusterID{1}

// model is a table of modelKeys rows whose answers are known at every position. It stands in for persdb and slaves.
type model struct {
	mu      sync.Mutex
	entries []dbaas.Entry
	rows    [modelKeys][]version // the values of each row, by position
	sums    []version            // of all rows
	cluster dbaas.ClusterID
	epoch   dbaas.Epoch
	away    atomic.Bool  // persdb does not answer
	pieces  atomic.Int64 // in how many pieces a page comes, a second apart
	asked   atomic.Int64
	slave   func(*model, dbaas.Seq) dbaas.Seq // the position of the slave that answers
}

// version is a value from a position on.
type version struct {
	seq   dbaas.Seq
	value int64
}

func at(list []version, seq dbaas.Seq) int64 {
	for _, v := range slices.Backward(list) {
		if v.seq <= seq {
			return v.value
		}
	}
	return 0
}

func (m *model) head() dbaas.Seq {
	m.mu.Lock()
	defer m.mu.Unlock()
	return dbaas.Seq(len(m.entries))
}

// frame returns entry seq as it is broadcast.
func (m *model) frame(tb testing.TB, seq dbaas.Seq) []byte {
	tb.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := wire.EncodeEntry(m.entries[seq-1])
	if err != nil {
		tb.Error(err)
	}
	return b
}

// change commits an entry that sets rows.
func (m *model) change(keys ...int) dbaas.Seq { return m.commit("", keys) }

// schema commits a schema change, which alters every row.
func (m *model) schema() { m.commit("ALTER", rand.Perm(modelKeys)) }

// lose takes the newest entry out of the log and begins an epoch, as an operator does who goes on without it.
func (m *model) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = m.entries[:len(m.entries)-1]
	m.epoch++
}

// commit commits an entry that sets rows, by a change of the schema if there is one.
func (m *model) commit(schema string, keys []int) dbaas.Seq {
	m.mu.Lock()
	defer m.mu.Unlock()
	seq := dbaas.Seq(len(m.entries) + 1)
	var touched readtags.Touched
	var sum int64
	for _, key := range keys {
		m.rows[key] = append(m.rows[key], version{seq, int64(seq)})
		touched.Row("t")
		v := dbaas.Integer(int64(key))
		touched.Key(&v)
	}
	for i := range m.rows {
		sum += at(m.rows[i], seq)
	}
	m.sums = append(m.sums, version{seq, sum})
	slots := touched.Append(nil)
	data := append(binary.AppendUvarint([]byte{readtags.RecordTouched}, uint64(len(slots))), slots...)
	change := dbaas.Change{Kind: dbaas.ChangeRows, Data: data}
	if schema != "" {
		change = dbaas.Change{Kind: dbaas.ChangeSchema, Data: []byte(schema)}
	}
	m.entries = append(m.entries, dbaas.Entry{Cluster: m.cluster, Seq: seq, Epoch: m.epoch, Changes: []dbaas.Change{change}})
	return seq
}

func (m *model) Log(ctx context.Context, after dbaas.Seq, _ time.Duration) (dbaas.Page, error) {
	if m.away.Load() {
		return dbaas.Page{}, errors.New("away")
	}
	for range m.pieces.Load() {
		wait.ReportProgress(ctx)
		if !wait.For(ctx, time.Second) {
			return dbaas.Page{}, ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	page := dbaas.Page{Head: dbaas.Head{Cluster: m.cluster, Seq: dbaas.Seq(len(m.entries)), Epoch: m.epoch}, First: 1}
	if int(after) < len(m.entries) {
		page.Entries = m.entries[after:min(int(after)+100, len(m.entries))]
	}
	return page, nil
}

// read is a read of a row, or of the sum if key is modelKeys.
func read(key int) dbaas.Read {
	if key == modelKeys {
		return dbaas.Read{Format: dbaas.FormatArrays, Recent: true, Statements: []dbaas.Statement{{SQL: "sum"}}}
	}
	return dbaas.Read{Format: dbaas.FormatArrays, Recent: true, Statements: []dbaas.Statement{{SQL: "row", Args: []dbaas.Value{dbaas.Integer(int64(key))}}}}
}

func (m *model) want(key int, seq dbaas.Seq) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if key == modelKeys {
		return fmt.Sprint(at(m.sums, seq))
	}
	return fmt.Sprint(at(m.rows[key], seq))
}

func (m *model) ask(_ context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
	m.asked.Add(1)
	head := m.head()
	want := r.MinSeq
	if r.Recent {
		want = head
	}
	p := max(want, m.slave(m, head))
	tags, key := readtags.Tags{}.Add(readtags.KindTable, readtags.Table("t")), modelKeys
	if r.Statements[0].SQL == "row" {
		key = int(r.Statements[0].Args[0].Int)
		tags = readtags.Tags{}.Add(readtags.KindRow, readtags.Key("t", r.Statements[0].Args...)).Add(readtags.KindWhole, readtags.Whole("t"))
	}
	return dbaas.ReadResult{Seq: p, Body: []byte(m.want(key, p)), Tags: tags}, nil
}

func newModel() *model {
	return &model{cluster: cluster, epoch: 1, slave: func(_ *model, head dbaas.Seq) dbaas.Seq { return head - min(head, dbaas.Seq(rand.IntN(4))) }}
}

// start runs a cache of the model until the test ends.
func start(t *testing.T, m *model, cfg readcache.Config) *readcache.Cache {
	t.Helper()
	cfg.Log, cfg.Store = slog.New(slog.DiscardHandler), m
	if cfg.Ask == nil {
		cfg.Ask = m.ask
	}
	cfg.Seen = m.head
	cfg.Cluster = func() dbaas.ClusterID {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.cluster
	}
	c := readcache.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = c.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return c
}

// follow lets the cache answer.
func follow(t *testing.T, c *readcache.Cache, m *model) {
	t.Helper()
	c.Subscriber().Gap()
	c.Looked(dbaas.Head{Cluster: m.cluster, Seq: m.head()}, time.Now())
	await(t, func() bool { applied, _, serving := c.Position(); return serving && applied == m.head() })
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to that")
		}
		time.Sleep(time.Millisecond)
	}
}

const (
	modelSteps   = 1_000_000
	modelReaders = 8
)

// Every answer is the model's at its position, and the position is at least what was asked for, while broadcasts are
// lost, doubled and reordered, slaves lag, and the schema changes.
func TestCache_Read_NeverStale(t *testing.T) {
	m := newModel()
	m.change(0)
	c := start(t, m, readcache.Config{Bytes: 12 << 10}) // some items are evicted
	follow(t, c, m)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	stop := make(chan struct{})
	var writer, readers sync.WaitGroup
	writer.Go(func() { writeModel(t, m, c, rand.New(rand.NewPCG(seed, 0)), stop) })
	var levels [5]atomic.Int64
	for n := range modelReaders {
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(n+1)))
			for range modelSteps / modelReaders {
				if !readModel(t, m, c, rnd, &levels) {
					return
				}
			}
		})
	}
	readers.Wait()
	close(stop)
	writer.Wait()
	hits, misses := levels[0].Load(), levels[2].Load()
	t.Logf("%d hits, %d flights, %d misses, %d entries", hits, levels[1].Load(), misses, m.head())
	if hits < modelSteps/100 || misses == 0 {
		t.Errorf("got %d hits and %d misses, which proves little", hits, misses)
	}
}

func readModel(t *testing.T, m *model, c *readcache.Cache, rnd *rand.Rand, levels *[5]atomic.Int64) bool {
	t.Helper()
	key := min(rnd.IntN(modelKeys+5), modelKeys)
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

// writeModel commits entries and broadcasts them badly.
func writeModel(t *testing.T, m *model, c *readcache.Cache, rnd *rand.Rand, stop chan struct{}) {
	t.Helper()
	offer := c.Subscriber().Entry
	for {
		select {
		case <-stop:
			return
		default:
		}
		if m.head() > 20_000 {
			return // the model's own cost grows with its history
		}
		if rnd.IntN(500) == 0 {
			m.schema()
		} else {
			m.change(rnd.Perm(modelKeys)[:1+rnd.IntN(3)]...)
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
