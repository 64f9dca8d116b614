package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"

	"github.com/google/go-cmp/cmp"
)

var (
	cluster = dbaas.ClusterID{1, 2, 3}
	writer  = archive.WriterID{4, 5, 6}
	noon    = time.UnixMilli(1_700_000_000_000)
)

// entryAt is the entry of a position. Two entries share each second.
func entryAt(seq dbaas.Seq) archive.Entry {
	return archive.Entry{
		Seq: seq, Epoch: 1 + dbaas.Epoch(seq/10), At: noon.Add(time.Duration(seq/2) * time.Second),
		Operations: fmt.Appendf(nil, "operations of %d", seq), Changes: fmt.Appendf(nil, "changes of %d", seq),
	}
}

// putSegment stores the segment of the entries from first to last.
func putSegment(t *testing.T, p place.Place, first, last, trimmed dbaas.Seq) string {
	t.Helper()
	name := archive.SegmentName(cluster, first, last, writer)
	putSegmentAs(t, p, name, archive.Header{Cluster: cluster, First: first, Last: last, FirstAt: entryAt(first).At, LastAt: entryAt(last).At, Trimmed: trimmed})
	return name
}

func putSegmentAs(t *testing.T, p place.Place, name string, h archive.Header) {
	t.Helper()
	var b bytes.Buffer
	err := archive.WriteSegment(&b, h, func(add func(*archive.Entry) error) error {
		for seq := h.First; seq <= h.Last; seq++ {
			e := entryAt(seq)
			if err := add(&e); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = p.Create(t.Context(), name, &b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// putSnapshot stores a snapshot of a position.
func putSnapshot(t *testing.T, p place.Place, seq dbaas.Seq) string {
	t.Helper()
	body := fmt.Sprintf("database at %d", seq)
	h := archive.Header{Cluster: cluster, Last: seq, Trimmed: seq / 2, Bytes: int64(len(body)), Tables: map[string]string{"t": "hash"}}
	if seq > 0 {
		h.LastAt = entryAt(seq).At
	}
	var b bytes.Buffer
	if err := archive.WriteSnapshot(&b, h, strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	name := archive.SnapshotName(cluster, seq)
	if err := p.Create(t.Context(), name, &b); err != nil {
		t.Fatal(err)
	}
	return name
}

func catalog(t *testing.T, p place.Place) *archive.Catalog {
	t.Helper()
	c, err := archive.Read(t.Context(), p, cluster)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// readAll reads every object of the cluster, and returns the entries.
func readAll(ctx context.Context, p place.Place, c *archive.Catalog) (entries []archive.Entry, err error) {
	for _, s := range c.Segments {
		_, failed := archive.ReadSegment(ctx, p, s, func(e archive.Entry) error {
			entries = append(entries, e)
			return nil
		})
		err = errors.Join(err, failed)
	}
	for _, s := range c.Snapshots {
		_, failed := archive.ReadSnapshot(ctx, p, s, io.Discard)
		err = errors.Join(err, failed)
	}
	_, failed := archive.ReadCluster(ctx, p, cluster)
	_, failedToo := archive.ReadWriter(ctx, p, cluster)
	return entries, errors.Join(err, failed, failedToo)
}

// What is read is what was written.
func TestObjects_AreReadAsWritten(t *testing.T) {
	t.Parallel()
	p := place.Folder(t.TempDir())
	putSegment(t, p, 3, 7, 2)
	putSnapshot(t, p, 5)
	parent := &archive.Position{Cluster: dbaas.ClusterID{9}, Seq: 77}
	if err := archive.WriteCluster(t.Context(), p, archive.Cluster{ID: cluster, Parent: parent}); err != nil {
		t.Fatal(err)
	}
	if err := archive.WriteCluster(t.Context(), p, archive.Cluster{ID: cluster}); !errors.Is(err, place.ErrExists) {
		t.Errorf("cluster.json written over: got %v, want ErrExists", err)
	}
	for _, w := range []archive.WriterID{{1}, writer} {
		if err := archive.WriteWriter(t.Context(), p, cluster, w); err != nil {
			t.Fatal(err)
		}
	}
	c := catalog(t, p)
	var got []archive.Entry
	h, err := archive.ReadSegment(t.Context(), p, c.Segments[0], func(e archive.Entry) error { got = append(got, e); return nil })
	var want []archive.Entry
	for seq := dbaas.Seq(3); seq <= 7; seq++ {
		want = append(want, entryAt(seq))
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" || h.Trimmed != 2 || !h.LastAt.Equal(entryAt(7).At) {
		t.Errorf("segment: %v, header %+v, entries (-want +got):\n%s", err, h, diff)
	}
	var file bytes.Buffer
	h, err = archive.ReadSnapshot(t.Context(), p, c.Snapshots[0], &file)
	if err != nil || file.String() != "database at 5" || h.Tables["t"] != "hash" {
		t.Errorf("snapshot: %v, %q, %+v", err, file.String(), h)
	}
	info, err := archive.ReadCluster(t.Context(), p, cluster)
	if diff := cmp.Diff(archive.Cluster{Format: archive.Version, ID: cluster, Parent: parent}, info); err != nil || diff != "" {
		t.Errorf("cluster.json: %v\n%s", err, diff)
	}
	w, err := archive.ReadWriter(t.Context(), p, cluster)
	if err != nil || w != writer {
		t.Errorf("writer.json: got %v, %v", w, err)
	}
	ids, err := archive.Clusters(t.Context(), p)
	if diff := cmp.Diff([]dbaas.ClusterID{cluster}, ids); err != nil || diff != "" {
		t.Errorf("clusters: %v\n%s", err, diff)
	}
	if c.Bytes == 0 || len(c.Others) != 0 {
		t.Errorf("got %d bytes and others %v", c.Bytes, c.Others)
	}
}

// Each changed byte, and each end that is cut off, is found in any object, which is named.
func TestObjects_ChangedByte_IsNamed(t *testing.T) {
	t.Parallel()
	p := place.Folder(t.TempDir())
	putSegment(t, p, 1, 3, 0)
	putSnapshot(t, p, 2)
	if err := archive.WriteCluster(t.Context(), p, archive.Cluster{ID: cluster}); err != nil {
		t.Fatal(err)
	}
	if err := archive.WriteWriter(t.Context(), p, cluster, writer); err != nil {
		t.Fatal(err)
	}
	c := catalog(t, p)
	objects, err := p.List(t.Context(), "")
	if _, bad := readAll(t.Context(), p, c); err != nil || bad != nil || len(objects) != 4 {
		t.Fatalf("got %v, %v, %d objects, want 4 good ones", err, bad, len(objects))
	}
	for _, o := range objects {
		body, err := p.Open(t.Context(), o.Name)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := io.ReadAll(body)
		_ = body.Close()
		if err != nil {
			t.Fatal(err)
		}
		try := func(what string, changed []byte) {
			one := object{Place: p, name: o.Name, body: bytes.NewReader(changed)}
			_, err := readAll(t.Context(), one, c)
			var bad *archive.BadObjectError
			if !errors.As(err, &bad) || bad.Name != o.Name {
				t.Errorf("%s of %s: got %v, want its name", what, o.Name, err)
			}
		}
		for i := range whole {
			changed := bytes.Clone(whole)
			changed[i] ^= 1 << (i % 8)
			try(fmt.Sprintf("byte %d changed", i), changed)
			try(fmt.Sprintf("cut at %d", i), whole[:i])
		}
		try("longer", append(bytes.Clone(whole), 0))
	}
}

// object is a place in which one object has other bytes.
type object struct {
	place.Place
	name string
	body io.Reader
}

func (o object) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == o.name {
		return io.NopCloser(o.body), nil
	}
	return o.Place.Open(ctx, name)
}

// A place that fails does not make an object bad, and neither does the reader of its content.
func TestObjects_FailureElsewhere_BlamesNoObject(t *testing.T) {
	t.Parallel()
	p := place.Folder(t.TempDir())
	name := putSegment(t, p, 1, 3, 0)
	putSnapshot(t, p, 2)
	c := catalog(t, p)
	away, enough := errors.New("the place is away"), errors.New("enough")
	body, err := p.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = body.Close() }()
	cutOff := object{Place: p, name: name, body: io.MultiReader(io.LimitReader(body, 150), iotest.ErrReader(away))}
	_, failed := archive.ReadSegment(t.Context(), cutOff, c.Segments[0], func(archive.Entry) error { return nil })
	_, stopped := archive.ReadSegment(t.Context(), p, c.Segments[0], func(archive.Entry) error { return enough })
	_, full := archive.ReadSnapshot(t.Context(), p, c.Snapshots[0], failingWriter{enough})
	var bad *archive.BadObjectError
	if !errors.Is(failed, away) || errors.As(failed, &bad) {
		t.Errorf("place: got %v, want its error", failed)
	}
	for _, err := range []error{stopped, full} {
		if !errors.Is(err, enough) || errors.As(err, &bad) {
			t.Errorf("reader: got %v, want its error", err)
		}
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// An object under another name than its own, of another cluster, or of another version is bad.
func TestObjects_OfAnotherName_AreBad(t *testing.T) {
	t.Parallel()
	p := place.Folder(t.TempDir())
	h := archive.Header{Cluster: cluster, First: 1, Last: 3}
	putSegmentAs(t, p, archive.SegmentName(cluster, 2, 4, writer), h)
	h.Cluster = dbaas.ClusterID{8}
	putSegmentAs(t, p, archive.SegmentName(cluster, 1, 3, writer), h)
	for _, s := range catalog(t, p).Segments {
		_, err := archive.ReadSegment(t.Context(), p, s, func(archive.Entry) error { return nil })
		var bad *archive.BadObjectError
		if !errors.As(err, &bad) || bad.Name != s.Name {
			t.Errorf("%s: got %v, want its name", s.Name, err)
		}
	}
}

// WriteSegment refuses entries that do not follow each other or are not all.
func TestWriteSegment_RefusesHoles(t *testing.T) {
	t.Parallel()
	for _, seqs := range [][]dbaas.Seq{{1, 3}, {2, 3}, {1, 2}, {1, 2, 3, 4}, nil} {
		err := archive.WriteSegment(io.Discard, archive.Header{Cluster: cluster, First: 1, Last: 3}, func(add func(*archive.Entry) error) error {
			for _, seq := range seqs {
				e := entryAt(seq)
				if err := add(&e); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			t.Errorf("%v: got nil, want an error", seqs)
		}
	}
}
