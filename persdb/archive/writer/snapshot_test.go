package writer_test

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/archive/writer"
	"rideshare/persdb/commitlog"
)

// hooked is a place that calls snapshot, if it is set, before it stores the next snapshot.
type hooked struct {
	place.Place

	snapshot func()
}

func (h *hooked) Create(ctx context.Context, name string, body io.Reader) error {
	if call := h.snapshot; call != nil && strings.Contains(name, "/snapshot/") {
		h.snapshot = nil
		call()
	}
	return h.Place.Create(ctx, name, body)
}

// A gap that is found while a snapshot is stored is ended by another snapshot.
func TestArchiver_GapDuringASnapshot(t *testing.T) {
	t.Parallel()
	s := newSource(t, commitlog.Archive{})
	p := &hooked{Place: place.Folder(t.TempDir())}
	cfg := config(s, p)
	cfg.SnapshotEvery, cfg.Keep = 24*time.Hour, 48*time.Hour
	s.insert(t, 2)
	a := writer.New(s.Store, cfg)
	p.snapshot = func() {
		s.insert(t, 4)
		s.advance(90 * time.Minute)
		s.insert(t, 1)
		s.trim(t, 6)
		if err := a.Upload(t.Context()); err != nil {
			t.Error(err)
		}
	}
	work(t, a)
	work(t, a)
	verify(t, s, p, to(2, 2), to(7, 7))
}

// The log that is in the archive since the last snapshot counts for the next one after a restart too.
func TestArchiver_SnapshotAfterBytes_Restarted(t *testing.T) {
	t.Parallel()
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	p := place.Folder(t.TempDir())
	cfg := config(s, p)
	s.insert(t, 1)
	size := s.ArchiveState().Backlog
	work(t, writer.New(s.Store, cfg))
	cfg.SnapshotBytes = size + 3*catalog(t, s, p).Segments[0].Bytes/2 // reached with the third segment after a snapshot
	for range 6 {
		s.insert(t, 1)
		work(t, writer.New(s.Store, cfg))
	}
	if c := verify(t, s, p, to(1, 7)); len(c.Snapshots) != 3 || c.Snapshots[1].Seq != 4 {
		t.Errorf("got snapshots %v, want those of 1, 4 and 7", c.Snapshots)
	}
}

// While no copy of the tables can be made, segments are merged all the same.
func TestArchiver_NoCopy_Merges(t *testing.T) {
	t.Parallel()
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	p := place.Folder(t.TempDir())
	a := writer.New(s.Store, writer.Small(config(s, p)))
	s.insert(t, 3)
	work(t, a)
	s.advance(5 * time.Hour)
	for range 2 { // as many as there may be at a time
		b, err := s.Backup(t.Context(), dbaas.BackupForm{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Body.Close() })
	}
	if err := a.Work(t.Context()); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
		t.Errorf("got %v, want that no snapshot could be made", err)
	}
	if c := catalog(t, s, p); len(c.Segments) != 1 {
		t.Errorf("got segments %v, want a merged one", c.Segments)
	}
}

// A snapshot is stored although the log is trimmed past it while it is made.
func TestArchiver_TrimmedDuringASnapshot(t *testing.T) {
	t.Parallel()
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	p := place.Folder(t.TempDir())
	cfg := config(s, p)
	calls := 0
	cfg.Now = func() time.Time {
		if calls++; calls == 4 { // for New, the segment, the decision on the snapshot, and now its header
			s.advance(2 * time.Hour)
			s.insert(t, 1)
			s.trim(t, 3)
		}
		return s.Now()
	}
	s.insert(t, 3)
	work(t, writer.New(s.Store, cfg))
	if c := catalog(t, s, p); len(c.Snapshots) != 1 || c.Snapshots[0].Seq != 3 {
		t.Errorf("got snapshots %v, want one at 3", c.Snapshots)
	}
}

// copied is a store's log that calls copying, if it is set, in the middle of the next copy of the tables: its position is
// fixed, and nothing is copied yet. Its entry damaged cannot be read.
type copied struct {
	commitlog.Log

	copying func()
	damaged dbaas.Seq
}

func (c *copied) Read(ctx context.Context, after dbaas.Seq, limit commitlog.Limit) ([]commitlog.Record, error) {
	records, err := c.Log.Read(ctx, after, limit)
	if call := c.copying; call != nil && limit == (commitlog.Limit{Records: 1, NoChanges: true}) { // Copy asks for the time of its position.
		c.copying = nil
		call()
	}
	for i := range records {
		if records[i].Entry.Seq == c.damaged && i == 0 {
			return nil, dbaas.Errorf(dbaas.CodeDamaged, "entry %d is damaged", c.damaged)
		}
		if records[i].Entry.Seq == c.damaged {
			return records[:i], nil
		}
	}
	return records, err
}

// newCopied returns a source and its log.
func newCopied(t *testing.T, a commitlog.Archive) (*source, *copied) {
	t.Helper()
	c, dir := &copied{}, t.TempDir()
	s := &source{now: midnight, entries: map[dbaas.Seq]archive.Entry{}}
	s.openLog = func(cluster dbaas.ClusterID) (_ commitlog.Log, err error) {
		c.Log, err = commitlog.OpenFileLog(filepath.Join(dir, commitlog.LogFileName), cluster)
		return c, err
	}
	s.open(t, dir, a)
	return s, c
}

// While the tables are copied, entries are committed, archived and trimmed. The snapshot says nothing of that trimming,
// and these entries count for the next snapshot.
func TestArchiver_UploadedDuringACopy(t *testing.T) {
	t.Parallel()
	s, log := newCopied(t, commitlog.Archive{Backlog: 1 << 30})
	p := place.Folder(t.TempDir())
	cfg := config(s, p)
	cfg.SnapshotEvery, cfg.Keep = 24*time.Hour, 48*time.Hour
	s.insert(t, 2)
	cfg.SnapshotBytes = 2 * s.ArchiveState().Backlog
	a := writer.New(s.Store, cfg)
	upload := func(n int) {
		s.insert(t, n)
		if err := a.Upload(t.Context()); err != nil {
			t.Error(err)
		}
	}
	log.copying = func() {
		upload(4)
		s.advance(2 * time.Hour)
		upload(1)
		s.trim(t, 6)
		upload(1)
		upload(1) // the first segment that was committed after the trimming
	}
	work(t, a)
	first := catalog(t, s, p).Snapshots
	if log.copying != nil || len(first) != 1 || first[0].Seq != 2 {
		t.Fatalf("got snapshots %v, want one at 2, and entries committed during it", first)
	}
	h, err := archive.ReadHeader(t.Context(), p, first[0].Name)
	if err != nil || h.Trimmed > h.Last {
		t.Errorf("got %+v, %v, want it trimmed up to 2 at most", h, err)
	}
	work(t, a)
	if c := verify(t, s, p, to(2, 9)); len(c.Snapshots) != 2 {
		t.Errorf("got snapshots %v, want another one, since more than SnapshotBytes follow the first", c.Snapshots)
	}
}

// A snapshot whose Trimmed is above its position, as an older program wrote it, keeps the segments after its position.
func TestArchiver_TrimmedAboveASnapshot(t *testing.T) {
	t.Parallel()
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	p := place.Folder(t.TempDir())
	a := writer.New(s.Store, config(s, p))
	s.insert(t, 2)
	work(t, a)
	setTrimmed(t, p, catalog(t, s, p).Snapshots[0], 6)
	for _, n := range []int{4, 2} { // segments of different hours, which are not merged
		s.advance(time.Hour)
		s.insert(t, n)
		if err := a.Upload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.advance(4 * time.Hour)
	s.insert(t, 1)
	work(t, a)
	c := verify(t, s, p, to(2, 9))
	if len(c.Snapshots) != 2 || len(c.Segments) != 3 || c.Segments[0].First != 3 || c.Segments[0].Last != 6 {
		t.Errorf("got %+v, want snapshots at 2 and 9, and segments 3 to 6, 7 to 8 and 9", c)
	}
}

// setTrimmed stores a snapshot again, with another Trimmed in its header.
func setTrimmed(t *testing.T, p place.Place, s archive.Snapshot, trimmed dbaas.Seq) {
	t.Helper()
	var file, body bytes.Buffer
	h, err := archive.ReadSnapshot(t.Context(), p, s, &file)
	if err != nil {
		t.Fatal(err)
	}
	h.Trimmed = trimmed
	if err = archive.WriteSnapshot(&body, h, &file); err != nil {
		t.Fatal(err)
	}
	if err = p.Replace(t.Context(), s.Name, &body); err != nil {
		t.Fatal(err)
	}
}
