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

const (
	modelKeys   = 40
	groupSize   = 8
	modelGroups = modelKeys / groupSize
)

var cluster = dbaas.ClusterID{1}

// model is a table t with the key (g, k) and modelKeys rows in modelGroups groups, whose answers are known at every
// position. It stands in for persdb and slaves. The value of a row that is not there is 0.
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
func (m *model) change(keys ...int) dbaas.Seq { return m.commit(sets, keys) }

// schema commits a schema change, which alters every row.
func (m *model) schema() { m.commit(alters, rand.Perm(modelKeys)) }

// change is what an entry does to its rows.
type change int

const (
	sets change = iota
	deletes
	empties // all rows, without visiting them
	alters  // the schema
)

// lose takes the newest entry out of the log and begins an epoch, as an operator does who goes on without it.
func (m *model) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = m.entries[:len(m.entries)-1]
	m.epoch++
}

// commit commits an entry.
func (m *model) commit(what change, keys []int) dbaas.Seq {
	m.mu.Lock()
	defer m.mu.Unlock()
	seq := dbaas.Seq(len(m.entries) + 1)
	var touched readtags.Touched
	var sum, value int64
	if what == sets || what == alters {
		value = int64(seq)
	}
	for _, key := range keys {
		m.rows[key] = append(m.rows[key], version{seq, value})
		if what != empties {
			touched.Row("t")
			for _, v := range keyOf(key) {
				touched.Key(&v)
			}
		}
	}
	if what == empties {
		touched.Emptied("t")
	}
	for i := range m.rows {
		sum += at(m.rows[i], seq)
	}
	m.sums = append(m.sums, version{seq, sum})
	slots := touched.Append(nil)
	data := append(binary.AppendUvarint([]byte{readtags.RecordTouched}, uint64(len(slots))), slots...)
	entry := dbaas.Change{Kind: dbaas.ChangeRows, Data: data}
	if what == alters {
		entry = dbaas.Change{Kind: dbaas.ChangeSchema, Data: []byte("ALTER")}
	}
	m.entries = append(m.entries, dbaas.Entry{Cluster: m.cluster, Seq: seq, Epoch: m.epoch, Changes: []dbaas.Change{entry}})
	return seq
}

// keyOf returns the key of a row.
func keyOf(key int) []dbaas.Value {
	return []dbaas.Value{dbaas.Integer(int64(key / groupSize)), dbaas.Integer(int64(key))}
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

// read is a read of a row, of the sum if key is modelKeys, or of a group: modelKeys+1 is the first.
func read(key int) dbaas.Read {
	st := dbaas.Statement{SQL: "row", Args: []dbaas.Value{dbaas.Integer(int64(key))}}
	switch {
	case key == modelKeys:
		st = dbaas.Statement{SQL: "sum"}
	case key > modelKeys:
		st.SQL = "group"
	}
	return dbaas.Read{Format: dbaas.FormatArrays, Recent: true, Statements: []dbaas.Statement{st}}
}

func (m *model) want(key int, seq dbaas.Seq) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case key == modelKeys:
		return fmt.Sprint(at(m.sums, seq))
	case key < modelKeys:
		return fmt.Sprint(at(m.rows[key], seq))
	}
	var values [groupSize]int64
	for i := range values {
		values[i] = at(m.rows[(key-modelKeys-1)*groupSize+i], seq)
	}
	return fmt.Sprint(values)
}

func (m *model) ask(_ context.Context, r dbaas.Read) (dbaas.ReadResult, error) {
	m.asked.Add(1)
	head := m.head()
	want := r.MinSeq
	if r.Recent {
		want = head
	}
	p := max(want, m.slave(m, head))
	tags, key := readtags.Tags{}, modelKeys
	if len(r.Statements[0].Args) > 0 {
		key = int(r.Statements[0].Args[0].Int)
	}
	switch {
	case key == modelKeys:
		tags = tags.Add(readtags.KindTable, readtags.Table("t"))
	case key < modelKeys:
		tags = tags.Add(readtags.KindRow, readtags.Key("t", keyOf(key)...)).Add(readtags.KindWhole, readtags.Whole("t"))
	default:
		group := dbaas.Integer(int64(key - modelKeys - 1))
		tags = tags.Add(readtags.KindPrefix, readtags.Key("t", group)).Add(readtags.KindWhole, readtags.Whole("t"))
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
