package archive_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Ranges, Gaps and Chain find every position that the snapshots and segments allow, and no other.
func TestCatalog_FindsWhatCanBeRestored(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const positions = 14
		c := &archive.Catalog{Cluster: cluster}
		has := map[dbaas.Seq]bool{}
		for first := dbaas.Seq(1); first <= positions; first++ {
			for last := dbaas.Seq(positions); last >= first; last-- {
				if rapid.IntRange(0, 12).Draw(t, "segment") == 0 {
					c.Segments = append(c.Segments, archive.Segment{First: first, Last: last})
					for seq := first; seq <= last; seq++ {
						has[seq] = true
					}
				}
			}
		}
		restorable := map[dbaas.Seq]bool{}
		for seq := dbaas.Seq(0); seq <= positions; seq++ {
			if rapid.IntRange(0, 4).Draw(t, "snapshot") == 0 {
				c.Snapshots = append(c.Snapshots, archive.Snapshot{Seq: seq})
				restorable[seq] = true
			}
			restorable[seq] = restorable[seq] || seq > 0 && restorable[seq-1] && has[seq]
		}
		newest, _ := c.Newest()
		got, ranges := map[dbaas.Seq]bool{}, c.Ranges()
		for i, r := range ranges {
			for seq := r.First; seq <= r.Last; seq++ {
				got[seq] = true
			}
			if i > 0 && r.First <= ranges[i-1].Last+1 {
				t.Errorf("ranges %v are not apart", ranges)
			}
		}
		gaps := map[dbaas.Seq]bool{}
		for _, gap := range c.Gaps() {
			for seq := gap.First; seq <= gap.Last; seq++ {
				gaps[seq] = true
			}
		}
		for seq := dbaas.Seq(0); seq <= positions; seq++ {
			inside := len(ranges) > 0 && seq > ranges[0].First && seq <= newest
			if got[seq] != restorable[seq] || gaps[seq] != (inside && !restorable[seq]) {
				t.Errorf("%d: in ranges %v, in gaps %v, restorable %v", seq, got[seq], gaps[seq], restorable[seq])
			}
			reached := seq
			for _, s := range first(c.Chain(seq)) {
				if s.First > reached+1 || s.Last <= reached {
					t.Errorf("after %d: segment %d to %d does not go on from %d", seq, s.First, s.Last, reached)
				}
				reached = s.Last
			}
			if reached >= positions {
				continue
			}
			if has[reached+1] {
				t.Errorf("the chain after %d ends at %d, and there are more", seq, reached)
			}
		}
	})
}

func first[A, B any](a A, _ B) A { return a }

// SeqAt finds an entry that only a snapshot has, and does not pass over it to what came before.
func TestCatalog_SeqAt_SnapshotInPlaceOfASegment(t *testing.T) {
	p := place.Folder(t.TempDir())
	putSnapshot(t, p, 4)
	putSegment(t, p, 5, 9, 0)
	putSnapshot(t, p, 10)
	seqAt := func() (dbaas.Seq, error) {
		t.Helper()
		c, err := archive.Read(t.Context(), p, cluster)
		if err != nil {
			t.Fatal(err)
		}
		return c.SeqAt(t.Context(), p, entryAt(10).At.Add(time.Second))
	}
	if got, err := seqAt(); err != nil || got != 10 {
		t.Errorf("got %d, %v, want 10", got, err)
	}
	putSegment(t, p, 21, 24, 0)
	putSnapshot(t, p, 22)
	var not *archive.NotRestorableError
	if got, err := seqAt(); !errors.As(err, &not) {
		t.Errorf("beside a gap: got %d, %v, want that it cannot be restored", got, err)
	}
}

// Plan names the newest snapshot before a position, and the segments of its log's retention. SeqAt finds the last entry
// up to a time. Both refuse what lies in a gap.
func TestCatalog_Plan(t *testing.T) {
	t.Parallel()
	p := place.Folder(t.TempDir())
	putSnapshot(t, p, 4)
	putSegment(t, p, 1, 4, 0)
	putSegment(t, p, 5, 8, 1)
	putSegment(t, p, 7, 12, 5)
	putSnapshot(t, p, 10)
	putSegment(t, p, 21, 24, 16)
	putSnapshot(t, p, 22)
	c := catalog(t, p)
	names := func(segments []archive.Segment) string {
		text := ""
		for _, s := range segments {
			text += fmt.Sprintf("%d-%d ", s.First, s.Last)
		}
		return text
	}
	for _, want := range []struct {
		seq, snapshot, trimmed dbaas.Seq
		replay, log            string
	}{
		{4, 4, 2, "", "1-4 "},
		{5, 4, 1, "5-8 ", "1-4 5-8 "},
		{9, 4, 5, "5-8 7-12 ", "5-8 7-12 "},
		{10, 10, 5, "", "5-8 7-12 "},
		{12, 10, 5, "7-12 ", "5-8 7-12 "},
		{22, 22, 20, "", "21-24 "}, // the archive lacks 12 to 20
		{24, 22, 20, "21-24 ", "21-24 "},
	} {
		plan, err := c.Plan(t.Context(), p, want.seq)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Snapshot.Seq != want.snapshot || plan.Trimmed != want.trimmed || names(plan.Replay) != want.replay || names(plan.Log) != want.log {
			t.Errorf("%d: got snapshot %d, replay %s, trimmed %d, log %s", want.seq, plan.Snapshot.Seq, names(plan.Replay), plan.Trimmed, names(plan.Log))
		}
	}
	for seq, nearest := range map[dbaas.Seq][2]dbaas.Seq{3: {0, 4}, 15: {12, 22}, 25: {24, 0}} {
		_, err := c.Plan(t.Context(), p, seq)
		var not *archive.NotRestorableError
		if !errors.As(err, &not) {
			t.Fatalf("%d: got %v, want NotRestorableError", seq, err)
		}
		var got [2]dbaas.Seq
		if not.Before != nil {
			got[0] = not.Before.Last
		}
		if not.After != nil {
			got[1] = not.After.First
		}
		if got != nearest {
			t.Errorf("%d: got the nearest %v, want %v", seq, got, nearest)
		}
	}
	for _, want := range []struct {
		at  time.Time
		seq dbaas.Seq
		err error
	}{
		{entryAt(4).At, 5, nil},
		{entryAt(4).At.Add(-time.Millisecond), 0, archive.ErrBeforeAll},
		{entryAt(6).At.Add(time.Second / 2), 7, nil},
		{entryAt(11).At, 11, nil},
		{entryAt(23).At, 23, nil},
		{entryAt(24).At.Add(time.Hour), 24, nil},
	} {
		got, err := c.SeqAt(t.Context(), p, want.at)
		if got != want.seq || !errors.Is(err, want.err) {
			t.Errorf("%v: got %d, %v, want %d, %v", want.at.Sub(noon), got, err, want.seq, want.err)
		}
	}
	var not *archive.NotRestorableError
	if _, err := c.SeqAt(t.Context(), p, entryAt(18).At); !errors.As(err, &not) {
		t.Errorf("in the gap: got %v, want NotRestorableError", err)
	}
	if _, err := c.Without(c.Snapshots[2].Name).Plan(t.Context(), p, 22); !errors.As(err, &not) {
		t.Errorf("without its snapshot: got %v, want NotRestorableError", err)
	}
}

// damaged is a place with one bad object.
type damaged struct {
	place.Place
	names []string
}

func (d damaged) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if slices.Contains(d.names, name) {
		return io.NopCloser(strings.NewReader("bad")), nil
	}
	return d.Place.Open(ctx, name)
}

// SeqAt leaves out a bad object as long as the position is certain without it. Otherwise it names the object, and returns the
// first position that may need it.
func TestCatalog_SeqAt_BadObject(t *testing.T) {
	t.Parallel()
	p := place.Folder(t.TempDir())
	objects := map[string]map[dbaas.Seq]dbaas.Seq{ // for each bad object: the entries whose times need it, and what is returned
		putSnapshot(t, p, 4):        {5: 0, 7: 0, 9: 0},
		putSegment(t, p, 5, 8, 1):   {5: 5},
		putSegment(t, p, 7, 12, 5):  {9: 9, 11: 11},
		putSnapshot(t, p, 10):       {},
		putSegment(t, p, 13, 16, 5): {13: 13, 15: 13, 16: 13},
		putSegment(t, p, 14, 15, 5): {},
	}
	c := catalog(t, p)
	for name, needed := range objects {
		for _, seq := range []dbaas.Seq{5, 7, 9, 11, 13, 15, 16} {
			got, err := c.SeqAt(t.Context(), damaged{p, []string{name}}, entryAt(seq).At)
			want, needs := needed[seq]
			if !needs {
				want = seq
			}
			bad, named := errors.AsType[*archive.BadObjectError](err)
			if got != want || named != needs || !needs && err != nil || needs && bad.Name != name {
				t.Errorf("%s is bad, the time of entry %d: got %d, %v, want %d, and the object named: %v", name, seq, got, err, want, needs)
			}
		}
	}
}

// SeqAt names every bad object that it met, so that nobody believes that the others are good.
func TestCatalog_SeqAt_BadObjects(t *testing.T) {
	t.Parallel()
	p := place.Folder(t.TempDir())
	putSnapshot(t, p, 4)
	putSegment(t, p, 5, 12, 1)
	names := []string{putSnapshot(t, p, 10), putSegment(t, p, 13, 16, 5)}
	got, err := catalog(t, p).SeqAt(t.Context(), damaged{p, names}, entryAt(13).At)
	bad, named := errors.AsType[*archive.BadObjectError](err)
	if got != 13 || !named || bad.Name != names[0] || !slices.Equal(bad.Also, names[1:]) || !strings.Contains(err.Error(), names[1]) {
		t.Errorf("got %d, %v, want 13 and %v", got, err, names)
	}
}

// A hole after the last restorable position is a gap, if the archive has entries behind it.
func TestCatalog_HoleAtTheEnd(t *testing.T) {
	t.Parallel()
	p := place.Folder(t.TempDir())
	putSnapshot(t, p, 4)
	putSegment(t, p, 5, 8, 0)
	putSegment(t, p, 13, 16, 0)
	c := catalog(t, p)
	if diff := cmp.Diff([]archive.Range{{First: 9, Last: 16}}, c.Gaps()); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	for seq, want := range map[dbaas.Seq]dbaas.Seq{7: 7, 8: 0, 10: 0, 15: 0, 20: 0} {
		got, err := c.SeqAt(t.Context(), p, entryAt(seq).At)
		if _, not := errors.AsType[*archive.NotRestorableError](err); got != want || not != (want == 0) {
			t.Errorf("the time of entry %d: got %d, %v, want %d", seq, got, err, want)
		}
	}
}

// A catalog tells foreign names apart.
func TestRead_ForeignNames(t *testing.T) {
	t.Parallel()
	p := place.Folder(t.TempDir())
	good := putSegment(t, p, 1, 2, 0)
	foreign := []string{
		"/log/1-2-" + writer.String(), "/log/00000000000000000002-00000000000000000001-" + writer.String(),
		"/log/00000000000000000001-00000000000000000002-", "/log/00000000000000000001-00000000000000000002", "/snapshot/5", "/snapshot/99999999999999999999", "/x",
	}
	for _, name := range foreign {
		if err := p.Create(t.Context(), cluster.String()+name, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	c := catalog(t, p)
	if len(c.Segments) != 1 || c.Segments[0].Name != good || len(c.Snapshots) != 0 {
		t.Errorf("got %+v", c)
	}
	if diff := cmp.Diff(len(foreign), len(c.Others)); diff != "" {
		t.Errorf("others %v: %s", c.Others, diff)
	}
}
