package restore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/archivetest"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/restore"
)

// seedEnv repeats a run of random operations.
const seedEnv = "RIDESHARE_RESTORE_SEED"

// A restore at any position, or at any time, has the rows, row ids, counters and schema of the database then. Every key
// with a stored answer then gets it; each other one that was used later runs once. The epochs go on.
func TestFromArchive_LikeTheDatabaseThen(t *testing.T) {
	first := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedEnv); text != "" {
		var err error
		if first, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedEnv, err)
		}
	}
	for i := range uint64(2) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			seed := first + i
			t.Logf("%s=%d repeats this run as the first", seedEnv, seed)
			r := newRun(t, seed, place.Folder(t.TempDir()))
			r.snapshot(t) // of position 0
			r.play(t, seed)
			known := slices.Sorted(maps.Keys(r.states))
			for range 2 {
				seq := known[r.rnd.IntN(len(known))]
				want := restore.Want{Seq: &seq}
				if r.rnd.IntN(2) == 0 {
					want = restore.Want{At: new(r.states[seq].at.Add(time.Duration(r.rnd.IntN(int(time.Second)))))}
				}
				r.check(t, seq, want)
			}
			r.check(t, r.head.Seq, restore.Want{Cluster: r.head.Cluster})
		})
	}
}

// check restores a position and compares.
func (r *run) check(t *testing.T, seq dbaas.Seq, want restore.Want) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	made, err := restore.FromArchive(t.Context(), in(dir), r.p, want)
	if err != nil {
		t.Fatalf("restore %d: %v", seq, err)
	}
	s := open(t, dir)
	head, err := s.Head(t.Context())
	if err != nil || head.Seq != seq || head.Cluster == r.head.Cluster || head.Cluster != made.Cluster {
		t.Fatalf("restored %d: got %+v, %v", seq, head, err)
	}
	if parent, err := archive.ReadParent(dir); err != nil || parent == nil || *parent != (archive.Position{Cluster: r.head.Cluster, Seq: seq}) {
		t.Errorf("restored %d: got parent %+v, %v", seq, parent, err)
	}
	then := r.states[seq]
	if !made.At.Equal(then.at) {
		t.Errorf("restored %d: got the time %v, want %v", seq, made.At, then.at)
	}
	if diff := cmp.Diff(then.content, contents(t, s, dir)); diff != "" {
		t.Fatalf("position %d (-then +restored):\n%s", seq, diff)
	}
	epoch := storetest.Claim(t, s)
	if page, err := r.Log(t.Context(), r.head.Seq-1, 0); err != nil || epoch <= page.Entries[0].Epoch {
		t.Errorf("the first epoch is %d, %v, want more than that of the archive's newest entry", epoch, err)
	}
	for id, answer := range then.answers {
		c, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{r.sent[id]})
		if err != nil || c.Entry != nil {
			t.Fatalf("position %d: repeated operation: entry %v, %v; want no second effect", seq, c.Entry, err)
		}
		if diff := cmp.Diff(answer, c.Results[0]); diff != "" {
			t.Fatalf("position %d: repeated operation (-first +again):\n%s", seq, diff)
		}
	}
}

// Each byte of each object counts: a restore that needs the object names it, and says what can be restored without it.
func TestFromArchive_ChangedByte_IsNamed(t *testing.T) {
	t.Parallel()
	r := filled(t)
	objects, err := r.p.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		seq := dbaas.Seq(2) // the position that needs the object
		for _, c := range r.catalog(t).Snapshots {
			if c.Name == o.Name {
				seq = c.Seq
			}
		}
		for _, c := range r.catalog(t).Segments {
			if c.Name == o.Name {
				seq = max(seq, c.Last)
			}
		}
		parent, damaged := t.TempDir(), &changed{Place: r.p, name: o.Name, at: r.rnd.Int64N(o.Bytes)}
		_, err := restore.FromArchive(t.Context(), in(filepath.Join(parent, "data")), damaged, restore.Want{Seq: &seq})
		bad, ok := errors.AsType[*archive.BadObjectError](err)
		if !ok || bad.Name != o.Name || !strings.Contains(err.Error(), "without it") {
			t.Errorf("byte %d of %s, position %d: got %v, want its name and what can be restored", damaged.at, o.Name, seq, err)
		}
		if left := names(t, parent); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// A restore up to a time that needs a bad object says what can be restored without it. One that does not need it succeeds.
func TestFromArchive_At_BadObject(t *testing.T) {
	t.Parallel()
	r := filled(t)
	p := &changed{Place: r.p, name: r.catalog(t).Segments[5].Name, at: 100}
	_, err := restore.FromArchive(t.Context(), in(filepath.Join(t.TempDir(), "data")), p, restore.Want{At: new(r.states[6].at)})
	if err == nil || !strings.Contains(err.Error(), p.name) || !strings.HasSuffix(err.Error(), "can be restored: up to position 5") {
		t.Errorf("got %v, want %s named, and up to position 5", err, p.name)
	}
	p = &changed{Place: r.p, name: r.catalog(t).Snapshots[1].Name, at: 100} // of position 4
	made, err := restore.FromArchive(t.Context(), in(filepath.Join(t.TempDir(), "data")), p, restore.Want{At: new(r.states[3].at)})
	if err != nil || made.Seq != 3 {
		t.Errorf("got %+v, %v, want position 3", made, err)
	}
}

// changed is a place with one changed byte.
type changed struct {
	place.Place
	name string
	at   int64
}

func (c *changed) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	body, err := c.Place.Open(ctx, name)
	if err != nil || name != c.name {
		return body, err
	}
	return &flipped{ReadCloser: body, at: c.at}, nil
}

type flipped struct {
	io.ReadCloser
	at int64
}

func (f *flipped) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if f.at >= 0 && f.at < int64(n) {
		p[f.at] ^= 1
	}
	f.at -= int64(n)
	return n, err
}

// What the archive cannot give is refused with the reason.
func TestFromArchive_Refused(t *testing.T) {
	t.Parallel()
	r, other := filled(t), newRun(t, 2, place.Folder(t.TempDir()))
	seq := func(n dbaas.Seq) *dbaas.Seq { return &n }
	into := func(p place.Place, want restore.Want, text string, is error) {
		t.Helper()
		parent := t.TempDir()
		_, err := restore.FromArchive(t.Context(), in(filepath.Join(parent, "data")), p, want)
		if err == nil || !strings.Contains(err.Error(), text) || is != nil && !errors.Is(err, is) || len(names(t, parent)) > 0 {
			t.Errorf("got %v, left %v; want %q, %v, and nothing left", err, names(t, parent), text, is)
		}
	}
	into(place.Folder(t.TempDir()), restore.Want{}, "the archive is empty", nil)
	into(r.p, restore.Want{Seq: seq(1)}, "the nearest after it is 2", nil)
	into(r.p, restore.Want{Seq: seq(7)}, "the nearest before it is 6", nil)
	into(r.p, restore.Want{At: new(r.states[2].at.Add(-time.Millisecond))}, "begins after this time", archive.ErrBeforeAll)
	into(r.p, restore.Want{At: new(time.Time)}, "begins after this time", archive.ErrBeforeAll)
	into(r.p, restore.Want{Cluster: dbaas.NewClusterID()}, r.head.Cluster.String(), restore.ErrCluster)
	other.p = r.p
	other.remember(t)
	other.snapshot(t)
	into(r.p, restore.Want{}, other.head.Cluster.String(), restore.ErrCluster)
	r.check(t, 5, restore.Want{Cluster: r.head.Cluster, Seq: seq(5)})
}

// If the archive has a snapshot and no entry up to it, as after a gap, the snapshot alone makes the database.
func TestFromArchive_SnapshotAlone(t *testing.T) {
	t.Parallel()
	r := filled(t)
	c := r.catalog(t)
	for i := range c.Segments {
		if c.Segments[i].First <= 4 {
			if err := r.p.Remove(t.Context(), c.Segments[i].Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, seq := range []dbaas.Seq{4, 6} {
		then := r.states[seq]
		for id, answer := range then.answers {
			if answer.Seq <= 4 {
				delete(then.answers, id) // lost with the gap
			}
		}
		r.check(t, seq, restore.Want{Seq: &seq})
	}
}

// From a bucket of a server that checks signatures, a restore at each position has the database of then, and a drill passes. A
// changed byte is named.
func TestFromArchive_Bucket(t *testing.T) {
	t.Parallel()
	p, err := place.Open(archivetest.StartBucket(t))
	if err != nil {
		t.Fatal(err)
	}
	r := filledIn(t, p)
	for _, seq := range slices.Sorted(maps.Keys(r.states)) {
		if seq >= 2 { // before the first snapshot nothing can be restored
			r.check(t, seq, restore.Want{Seq: &seq})
		}
	}
	if report := verify(t, p); report.Objects != 8 || len(report.Positions) != 4 || len(report.Bad)+len(report.Gaps) > 0 {
		t.Errorf("verify: got %+v, want 8 good objects and 4 positions", report)
	}
	name := r.catalog(t).Segments[3].Name
	if report := verify(t, &changed{Place: p, name: name, at: 100}); len(report.Bad) != 1 || !strings.Contains(report.Bad[0], name) {
		t.Errorf("verify with a changed byte: got %+v, want %s named", report, name)
	}
}

// A restore says of which time the next entry of the archive is, in whatever object the entry is. A bad object that has only
// the next entry does not prevent the restore.
func TestFromArchive_NextEntry(t *testing.T) {
	t.Parallel()
	r := filled(t)
	at := func(seq dbaas.Seq) time.Time { return r.states[seq].at }
	for name, c := range map[string]struct {
		p         place.Place
		seq       dbaas.Seq
		wantsNext time.Time
	}{
		"in another segment": {r.p, 3, at(4)},
		"in the same one":    {r.tidied(t, 1, false), 3, at(4)},
		"none":               {r.p, 6, time.Time{}},
		"bad":                {&changed{Place: r.p, name: r.catalog(t).Segments[5].Name, at: 100}, 5, time.Time{}},
	} {
		made, err := restore.FromArchive(t.Context(), in(filepath.Join(t.TempDir(), "data")), c.p, restore.Want{Seq: &c.seq})
		if err != nil || made.Seq != c.seq || !made.At.Equal(at(c.seq)) || !made.Next.Equal(c.wantsNext) {
			t.Errorf("%s: got %+v, %v, want position %d of %v, and the next of %v", name, made, err, c.seq, at(c.seq), c.wantsNext)
		}
	}
}
