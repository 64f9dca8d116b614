package writer_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/wire"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/commitlog"

	"github.com/google/go-cmp/cmp"
)

// source is a store that is archived, and what was committed to it.
type source struct {
	*commitlog.Store

	dir   string
	epoch dbaas.Epoch
	ops   int
	// openLog opens another log than the store's own; nil for its own.
	openLog func(dbaas.ClusterID) (commitlog.Log, error)

	mu      sync.Mutex // guards what follows
	now     time.Time
	entries map[dbaas.Seq]archive.Entry
}

var midnight = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func newSource(t *testing.T, a commitlog.Archive) *source {
	t.Helper()
	s := &source{now: midnight, entries: map[dbaas.Seq]archive.Entry{}}
	s.open(t, t.TempDir(), a)
	return s
}

func (s *source) open(t *testing.T, dir string, a commitlog.Archive) {
	t.Helper()
	s.dir = dir
	began := time.Now()
	var err error
	s.Store, err = commitlog.Open(t.Context(), commitlog.Config{
		Dir: dir, Schema: []string{"CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT, b)", "CREATE TABLE keyless(a, b)"},
		Archive: &a, TrimEvery: -1, StatementLimit: time.Minute, OperationLimit: time.Minute, SharedLimit: time.Minute, Retain: commitlog.Retention{For: time.Hour, Bytes: 1 << 20},
		OpenLog: s.openLog, Now: s.Now, Elapsed: func() time.Duration { return s.Now().Sub(midnight) + time.Since(began) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.epoch = storetest.Claim(t, s)
}

func (s *source) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *source) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// commit commits one entry of the statements, and remembers it.
func (s *source) commit(t *testing.T, statements ...string) {
	t.Helper()
	s.ops++
	o := storetest.Op(s.ops, statements...)
	o.SeenSeq = s.ArchiveState().Head
	storetest.Commit(t, s, s.epoch, o)
	head := s.ArchiveState().Head
	records, err := s.Records(t.Context(), head-1, 1)
	if err != nil || len(records) != 1 {
		t.Fatalf("got %d records, %v", len(records), err)
	}
	e := &records[0].Entry
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[head] = archive.Entry{Seq: e.Seq, Epoch: e.Epoch, At: e.At, Operations: records[0].Operations, Changes: wire.AppendChanges(nil, e.Changes)}
}

// insert commits n entries.
func (s *source) insert(t *testing.T, n int) {
	t.Helper()
	for range n {
		s.commit(t, fmt.Sprintf("INSERT INTO t(b) VALUES('%d')", s.ops), "INSERT INTO keyless(a) VALUES(1)")
	}
}

func (s *source) trim(t *testing.T, want dbaas.Seq) {
	t.Helper()
	if _, err := s.Trim(t.Context()); err != nil || s.ArchiveState().Trimmed != want {
		t.Fatalf("got %v, trimmed up to %d, want %d", err, s.ArchiveState().Trimmed, want)
	}
}

func catalog(t *testing.T, s *source, p place.Place) *archive.Catalog {
	t.Helper()
	c, err := archive.Read(t.Context(), p, s.ArchiveState().Cluster)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// verify checks every object of the archive. Its ranges must be want, its entries those that were committed, and the
// tables of each snapshot those that the entries make of the snapshot before. The newest tables must be the store's if the
// archive has all.
func verify(t *testing.T, s *source, p place.Place, want ...archive.Range) *archive.Catalog {
	t.Helper()
	c := catalog(t, s, p)
	if diff := cmp.Diff(want, c.Ranges()); diff != "" {
		t.Errorf("ranges (-want +got):\n%s", diff)
	}
	if len(c.Others) > 0 {
		t.Errorf("got other objects %v, want none", c.Others)
	}
	hashes := map[dbaas.Seq]map[string]string{}
	for _, snapshot := range c.Snapshots {
		h := replay(t, s, p, snapshot, hashes)
		if seen, ok := hashes[snapshot.Seq]; ok {
			if diff := cmp.Diff(h.Tables, seen); diff != "" {
				t.Errorf("tables at %d (-snapshot +replayed):\n%s", snapshot.Seq, diff)
			}
		}
	}
	for _, segment := range c.Segments {
		if _, err := archive.ReadSegment(t.Context(), p, segment, func(e archive.Entry) error {
			if diff := cmp.Diff(s.entries[e.Seq], e); diff != "" {
				t.Errorf("%s: entry %d (-committed +archived):\n%s", segment.Name, e.Seq, diff)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	return c
}

// player applies entries to a snapshot.
type player struct {
	conn *sqlite.Conn
	at   dbaas.Seq
	// hashes are those at each position that has a snapshot, and at the store's head.
	hashes map[dbaas.Seq]map[string]string
	wanted func(dbaas.Seq) bool
}

// replay applies the entries after a snapshot to it, as far as there are any, and stores the hashes at each later position
// that has a snapshot, and at the store's head, where it compares them with the store's.
func replay(t *testing.T, s *source, p place.Place, from archive.Snapshot, hashes map[dbaas.Seq]map[string]string) archive.Header {
	t.Helper()
	c := catalog(t, s, p)
	var file bytes.Buffer
	h, err := archive.ReadSnapshot(t.Context(), p, from, &file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "replayed.db")
	if err = os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	conn, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	head := s.ArchiveState().Head
	play := player{conn: conn, at: from.Seq, hashes: hashes, wanted: func(seq dbaas.Seq) bool {
		return seq == head || seq > from.Seq && slices.ContainsFunc(c.Snapshots, func(s archive.Snapshot) bool { return s.Seq == seq })
	}}
	play.take(t)
	chain, _ := c.Chain(from.Seq)
	for _, segment := range chain {
		if _, err = archive.ReadSegment(t.Context(), p, segment, func(e archive.Entry) error { return play.apply(t, c.Cluster, e) }); err != nil {
			t.Fatal(err)
		}
	}
	now, err := s.Hashes(t.Context())
	if err != nil || play.at == head && !maps.Equal(now.Tables, hashes[head]) {
		t.Errorf("replayed from %d: %v, tables (-store +replayed):\n%s", from.Seq, err, cmp.Diff(now.Tables, hashes[head]))
	}
	return h
}

func (p *player) take(t *testing.T) {
	t.Helper()
	if !p.wanted(p.at) {
		return
	}
	begun := p.conn.Begin()
	tables, hashed := replication.Hashes(p.conn, func() {})
	if err := errors.Join(begun, hashed, p.conn.End()); err != nil {
		t.Fatal(err)
	}
	p.hashes[p.at] = tables
}

func (p *player) apply(t *testing.T, cluster dbaas.ClusterID, e archive.Entry) error {
	t.Helper()
	if e.Seq <= p.at {
		return nil
	}
	entry, err := e.Decode(cluster)
	if err != nil {
		return err
	}
	p.at = e.Seq
	err = errors.Join(p.conn.BeginWrite(), replication.NewApplier(p.conn).Apply(entry), p.conn.Commit())
	p.take(t)
	return err
}
