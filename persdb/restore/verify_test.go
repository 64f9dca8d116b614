package restore_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/restore"
)

func verify(t *testing.T, p place.Place) restore.Report {
	t.Helper()
	temp := t.TempDir()
	report, err := restore.Verify(t.Context(), in(temp), p, dbaas.ClusterID{}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if left := names(t, temp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return report
}

// A whole archive passes: each snapshot as it is and made from the one before, and the newest position.
func TestVerify_Whole(t *testing.T) {
	t.Parallel()
	r := filled(t)
	report := verify(t, r.p)
	type way struct{ Seq, Snapshot dbaas.Seq }
	var got []way
	hashes := map[dbaas.Seq]string{}
	for _, d := range report.Positions {
		got = append(got, way{d.Seq, d.Snapshot})
		if was, known := hashes[d.Seq]; known && was != d.Hash || d.Hash == "" || !d.At.Equal(r.states[d.Seq].at) {
			t.Errorf("position %d: got %+v, before %q, time %v", d.Seq, d, was, r.states[d.Seq].at)
		}
		hashes[d.Seq] = d.Hash
	}
	if diff := cmp.Diff([]way{{2, 2}, {4, 4}, {4, 2}, {6, 4}}, got); diff != "" || report.Objects != 8 || len(report.Bad)+len(report.Gaps) > 0 {
		t.Errorf("got %+v, positions (-want +got):\n%s", report, diff)
	}
}

// Each object that is bad is named, and the rest is verified all the same.
func TestVerify_ChangedByte_IsNamed(t *testing.T) {
	t.Parallel()
	r := filled(t)
	c := r.catalog(t)
	for _, name := range []string{c.Snapshots[1].Name, c.Segments[0].Name} {
		report := verify(t, &changed{Place: r.p, name: name, at: 100})
		if len(report.Bad) != 1 || !strings.Contains(report.Bad[0], name) || len(report.Positions) == 0 {
			t.Errorf("%s: got %+v, want it named alone, and positions", name, report)
		}
	}
	if report := verify(t, &changed{Place: r.p, name: c.Segments[4].Name, at: 100}); len(report.Bad) != 2 || report.Positions[len(report.Positions)-1].Seq != 4 {
		t.Errorf("the entry 5 is bad: got %+v, want it named, and 4 as the newest position", report)
	}
	err := errors.Join(archive.WriteCluster(t.Context(), r.p, archive.Cluster{ID: r.head.Cluster}),
		archive.WriteWriter(t.Context(), r.p, r.head.Cluster, archive.NewWriterID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cluster.json", "writer.json"} {
		report := verify(t, &changed{Place: r.p, name: r.head.Cluster.String() + "/" + name, at: 20})
		if len(report.Bad) != 1 || !strings.Contains(report.Bad[0], name) || len(report.Positions) != 4 {
			t.Errorf("%s is bad: got %+v, want it named alone, and 4 positions", name, report)
		}
	}
}

// A snapshot that is whole but has other rows than persdb had is named.
func TestVerify_WrongSnapshot_IsNamed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h *archive.Header, body []byte){
		"rows":   func(_ *archive.Header, body []byte) { body[bytes.Index(body, []byte("name 2"))] = 'N' },
		"hashes": func(h *archive.Header, _ []byte) { h.Tables["app"] = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := filled(t)
			c := r.catalog(t)
			var body, wrong bytes.Buffer
			h, err := archive.ReadSnapshot(t.Context(), r.p, c.Snapshots[1], &body)
			if err != nil {
				t.Fatal(err)
			}
			change(&h, body.Bytes())
			err = errors.Join(archive.WriteSnapshot(&wrong, h, &body), r.p.Remove(t.Context(), c.Snapshots[1].Name))
			if err == nil {
				err = r.p.Create(t.Context(), c.Snapshots[1].Name, &wrong)
			}
			if err != nil {
				t.Fatal(err)
			}
			report := verify(t, r.p)
			if len(report.Bad) == 0 || !strings.Contains(report.Bad[0], c.Snapshots[1].Name) {
				t.Errorf("got %+v, want snapshot 4 named", report)
			}
		})
	}
}

// Entries that cannot be restored, as one before them is missing, are told by the list, the drill and the restore of the
// newest position. A restore up to a time among them is refused.
func TestHoleAtTheEnd_IsTold(t *testing.T) {
	t.Parallel()
	r := filled(t)
	if err := r.p.Remove(t.Context(), r.catalog(t).Segments[4].Name); err != nil { // of entry 5
		t.Fatal(err)
	}
	gap := archive.Range{First: 5, Last: 6}
	if got := verify(t, r.p); len(got.Gaps) != 1 || got.Gaps[0] != gap || !slices.Equal(got.Bad, []string{"nothing after position 4 can be restored"}) {
		t.Errorf("verify: got %+v, want the gap %v, and that nothing after 4 can be restored", got, gap)
	}
	if got, err := restore.List(t.Context(), r.p, dbaas.ClusterID{}); err != nil || len(got) != 1 || len(got[0].Gaps) != 1 || got[0].Gaps[0] != gap {
		t.Errorf("list: got %+v, %v, want the gap %v", got, err, gap)
	}
	made, err := restore.FromArchive(t.Context(), in(filepath.Join(t.TempDir(), "data")), r.p, restore.Want{})
	if err != nil || made.Seq != 4 || made.Gap == nil || *made.Gap != gap {
		t.Errorf("the newest: got %+v, %v, want position 4 and the gap %v", made, err, gap)
	}
	made, err = restore.FromArchive(t.Context(), in(filepath.Join(t.TempDir(), "data")), r.p, restore.Want{At: new(r.states[6].at)})
	if _, not := errors.AsType[*archive.NotRestorableError](err); !not {
		t.Errorf("the time of entry 6: got %+v, %v, want it refused", made, err)
	}
}

// A gap that a snapshot has ended is told, and is not bad.
func TestVerify_EndedGap_IsNotBad(t *testing.T) {
	t.Parallel()
	r := filled(t)
	if err := r.p.Remove(t.Context(), r.catalog(t).Segments[2].Name); err != nil { // of entry 3
		t.Fatal(err)
	}
	gap := archive.Range{First: 3, Last: 3}
	if got := verify(t, r.p); len(got.Gaps) != 1 || got.Gaps[0] != gap || len(got.Bad) > 0 {
		t.Errorf("got %+v, want the gap %v and nothing bad", got, gap)
	}
}

// A list has each cluster with its parent, its restorable positions and times, its gaps and its bytes.
func TestList(t *testing.T) {
	t.Parallel()
	r := filled(t)
	parent := &archive.Position{Cluster: dbaas.NewClusterID(), Seq: 9}
	if err := archive.WriteCluster(t.Context(), r.p, archive.Cluster{ID: r.head.Cluster, Parent: parent}); err != nil {
		t.Fatal(err)
	}
	c := r.catalog(t)
	if err := r.p.Remove(t.Context(), c.Segments[2].Name); err != nil { // of entry 3
		t.Fatal(err)
	}
	span := func(first, last dbaas.Seq) restore.Span {
		return restore.Span{Range: archive.Range{First: first, Last: last}, FirstAt: r.states[first].at, LastAt: r.states[last].at}
	}
	want := []restore.Listed{{
		Cluster: r.head.Cluster, Parent: parent, Ranges: []restore.Span{span(2, 2), span(4, 6)}, Gaps: []archive.Range{{First: 3, Last: 3}},
		Bytes: r.catalog(t).Bytes, Bad: []string{}, Others: []string{},
	}}
	for _, id := range []dbaas.ClusterID{{}, r.head.Cluster} {
		got, err := restore.List(t.Context(), r.p, id)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	got, err := restore.List(t.Context(), &changed{Place: r.p, name: c.Segments[5].Name, at: 20}, dbaas.ClusterID{})
	if err != nil || len(got) != 1 || len(got[0].Bad) != 1 || len(got[0].Ranges) != 2 {
		t.Errorf("a bad header: got %+v, %v, want it named, and the rest", got, err)
	}
	if _, err = restore.List(t.Context(), r.p, dbaas.NewClusterID()); !errors.Is(err, restore.ErrCluster) {
		t.Errorf("another cluster: got %v", err)
	}
}

// If the disk of a drill fails, the drill ends with that error. The report says nothing bad of the archive.
func TestVerify_DiskFails_IsNoDamage(t *testing.T) {
	t.Parallel()
	r, temp := filled(t), t.TempDir()
	report, err := restore.Verify(t.Context(), in(temp), r.p, dbaas.ClusterID{}, func(what string) {
		if strings.HasPrefix(what, "restore position 4") { // no work folder can be made where a file is.
			work, _ := filepath.Glob(filepath.Join(temp, "*"))
			if failed := os.WriteFile(filepath.Join(work[0], ".data.restoring"), nil, 0o600); failed != nil {
				t.Error(failed)
			}
		}
	})
	if !errors.Is(err, syscall.ENOTDIR) || len(report.Bad) > 0 || len(report.Positions) != 1 {
		t.Errorf("got %+v, %v, want one position, the disk's error and nothing bad", report, err)
	}
}
