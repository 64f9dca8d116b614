package restore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/sqlgen"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/wire"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/commitlog"
)

// state is what a database was at a position.
type state struct {
	at      time.Time
	content map[string]string
	answers map[dbaas.OpID]dbaas.OperationResult // stored then
}

// run is a store that random operations change, and its archive. It remembers each state.
type run struct {
	*commitlog.Store
	dir     string
	rnd     *rand.Rand
	p       place.Place
	now     time.Time
	elapsed time.Duration
	seq     dbaas.Seq // up to here the log is archived
	trimmed dbaas.Seq
	sent    map[dbaas.OpID]dbaas.Operation
	states  map[dbaas.Seq]state
	head    dbaas.Head
}

// newRun returns a run whose archive is in p.
func newRun(t *testing.T, seed uint64, p place.Place) *run {
	t.Helper()
	r := &run{
		dir: t.TempDir(), rnd: rand.New(rand.NewPCG(seed, 1)), p: p, now: time.Now().Truncate(time.Millisecond),
		sent: map[dbaas.OpID]dbaas.Operation{}, states: map[dbaas.Seq]state{},
	}
	cfg := in(r.dir)
	cfg.Now, cfg.Elapsed = func() time.Time { return r.now }, func() time.Duration { return r.elapsed }
	var err error
	if r.Store, err = commitlog.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// play runs a random script, archives a part of the log now and then, and trims some of it.
func (r *run) play(t *testing.T, seed uint64) {
	t.Helper()
	epoch := storetest.Claim(t, r)
	for _, b := range sqlgen.Make(seed).Batches {
		for i := range b.Operations {
			op := storetest.Op(b.Operations[i].Number)
			op.Atomic, op.Statements = b.Operations[i].Atomic, b.Operations[i].SQL()
			op.Fingerprint = wire.FingerprintOf(op.Atomic, op.Statements)
			if c := storetest.Commit(t, r, epoch, op); c.Results[0].Code == dbaas.CodeOK {
				r.sent[op.ID] = op
			}
			r.now, r.elapsed = r.now.Add(time.Second), r.elapsed+time.Minute
			if i == len(b.Operations)-1 {
				r.remember(t)
			}
		}
		switch r.rnd.IntN(4) {
		case 0:
			r.snapshot(t)
		case 1:
			r.segment(t)
		case 2:
			epoch = storetest.Claim(t, r)
		case 3:
			r.segment(t) // what is not archived is not trimmed.
			r.trim(t)
		}
	}
	r.segment(t)
}

func (r *run) trim(t *testing.T) {
	t.Helper()
	if _, err := r.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := r.Log(t.Context(), r.head.Seq, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.trimmed = page.First - 1
}

// remember keeps the present state.
func (r *run) remember(t *testing.T) {
	t.Helper()
	head, err := r.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.head = head; head.Seq == 0 {
		return
	}
	if _, known := r.states[head.Seq]; known {
		return
	}
	s := state{content: contents(t, r.Store, r.dir), answers: map[dbaas.OpID]dbaas.OperationResult{}}
	for id := range r.sent {
		if answer, unknown := r.Lookup(t.Context(), id); unknown == nil {
			s.answers[id] = answer
		}
	}
	page, err := r.Log(t.Context(), head.Seq-1, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.at = page.Entries[0].At
	r.states[head.Seq] = s
}

func (r *run) snapshot(t *testing.T) {
	t.Helper()
	r.segment(t)
	c, err := r.Copy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	h := archive.Header{Cluster: c.Head.Cluster, Last: c.Head.Seq, LastAt: r.states[c.Head.Seq].at, Epoch: c.Head.Epoch, Trimmed: r.trimmed, Tables: c.Tables, Bytes: c.Bytes}
	err = errors.Join(archive.WriteSnapshot(&body, h, c.Body), c.Body.Close())
	if err == nil {
		err = r.p.Create(t.Context(), archive.SnapshotName(h.Cluster, h.Last), &body)
	}
	if err != nil && !errors.Is(err, place.ErrExists) {
		t.Fatal(err)
	}
}

// segment archives the entries since the last one, and some before it.
func (r *run) segment(t *testing.T) {
	t.Helper()
	r.segmentAfter(t, max(r.trimmed, r.seq-min(r.seq, dbaas.Seq(r.rnd.IntN(3)))))
}

func (r *run) segmentAfter(t *testing.T, after dbaas.Seq) {
	t.Helper()
	records, err := r.Records(t.Context(), after, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if len(records) == 0 || records[len(records)-1].Entry.Seq == r.seq {
		return
	}
	first, last := records[0].Entry, records[len(records)-1].Entry
	h := archive.Header{Cluster: r.head.Cluster, First: first.Seq, Last: last.Seq, FirstAt: first.At, LastAt: last.At, Epoch: last.Epoch, Trimmed: r.trimmed}
	var body bytes.Buffer
	err = archive.WriteSegment(&body, h, func(add func(*archive.Entry) error) error {
		for i := range records {
			e := records[i].Entry
			entry := archive.Entry{Seq: e.Seq, Epoch: e.Epoch, At: e.At, Operations: records[i].Operations, Changes: wire.AppendChanges(nil, e.Changes)}
			if failed := add(&entry); failed != nil {
				return failed
			}
		}
		return nil
	})
	if err == nil {
		err = r.p.Create(t.Context(), archive.SegmentName(h.Cluster, h.First, h.Last, archive.NewWriterID()), &body)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.seq = last.Seq
}

// catalog returns what the archive has of the run.
func (r *run) catalog(t *testing.T) *archive.Catalog {
	t.Helper()
	c, err := archive.Read(t.Context(), r.p, r.head.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// filled returns a run with rows, two snapshots and a segment for each entry.
func filled(t *testing.T) *run {
	t.Helper()
	return filledIn(t, place.Folder(t.TempDir()))
}

// filledIn is filled with an archive in p.
func filledIn(t *testing.T, p place.Place) *run {
	t.Helper()
	r := newRun(t, 1, p)
	epoch := storetest.Claim(t, r)
	for n := range 6 {
		if n == 5 {
			epoch = storetest.Claim(t, r)
		}
		op := storetest.Op(n, fmt.Sprintf("INSERT INTO app(name) VALUES('name %d')", n))
		storetest.Commit(t, r, epoch, op)
		r.sent[op.ID] = op
		r.now = r.now.Add(time.Second)
		r.remember(t)
		r.segmentAfter(t, r.head.Seq-1)
		if n == 1 || n == 3 {
			r.snapshot(t)
		}
	}
	return r
}
