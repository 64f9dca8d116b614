package writer_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/archivetest"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/archive/writer"
	"rideshare/persdb/commitlog"
)

func config(s *source, p place.Place) writer.Config {
	return writer.Config{Place: p, Now: s.Now, SnapshotEvery: time.Hour, Keep: 3 * time.Hour}
}

func work(t *testing.T, a *writer.Archiver) {
	t.Helper()
	if err := a.Work(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func to(first, last dbaas.Seq) archive.Range { return archive.Range{First: first, Last: last} }

// On each kind of place: the log is archived, then a snapshot; later snapshots follow; segments of past hours become one;
// what no young position needs goes.
func TestArchiver_KeepsAnArchive(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, p place.Place) {
		t.Helper()
		s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
		s.insert(t, 4)
		a := writer.New(s.Store, writer.Small(config(s, p)))
		work(t, a)
		if c := verify(t, s, p, to(4, 4)); len(c.Segments) != 4 {
			t.Errorf("got %d segments, want 4", len(c.Segments))
		}
		s.advance(time.Hour)
		s.insert(t, 2)
		work(t, a)
		if c := verify(t, s, p, to(4, 6)); len(c.Segments) != 3 || c.Segments[0].Last != 4 {
			t.Errorf("got %d segments, want the first hour as one, and two", len(c.Segments))
		}
		s.advance(90 * time.Minute)
		s.trim(t, 5)
		work(t, a)
		s.commit(t, "ALTER TABLE t ADD c")
		s.insert(t, 1)
		s.advance(time.Hour)
		work(t, a)
		if c := verify(t, s, p, to(4, 8)); len(c.Segments) != 3 || len(c.Snapshots) != 3 || c.Segments[1].Last != 6 {
			t.Errorf("got %d segments and %d snapshots, want three hours and 3", len(c.Segments), len(c.Snapshots))
		}
		s.advance(4 * time.Hour)
		s.insert(t, 1)
		work(t, a)
		c := verify(t, s, p, to(8, 9))
		if len(c.Segments) != 3 || len(c.Snapshots) != 2 || c.Segments[0].First != 5 {
			t.Errorf("got %+v, want 5 to 6, 7 to 8 and 9, since the log began after 5 at the snapshot of 8", c)
		}
		plan, err := c.Plan(t.Context(), p, 8)
		if err != nil || plan.Trimmed != 5 {
			t.Errorf("got %+v, %v, want the log after 5", plan, err)
		}
	}
	t.Run("folder", func(t *testing.T) { run(t, place.Folder(t.TempDir())) })
	t.Run("bucket", func(t *testing.T) {
		p, err := place.Open(archivetest.StartBucket(t))
		if err != nil {
			t.Fatal(err)
		}
		run(t, p)
	})
}

// The process dies at any change of the archive, before it or after it. The next process makes of it what it would have
// been, and at no moment is a position lost or wrong.
func TestArchiver_DiesAtAnyChange(t *testing.T) {
	t.Parallel()
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	template := t.TempDir()
	a := writer.New(s.Store, writer.Small(config(s, place.Folder(template))))
	s.insert(t, 3)
	work(t, a)
	s.advance(2 * time.Hour)
	s.insert(t, 1)
	work(t, a)
	s.advance(2 * time.Hour)
	s.trim(t, 3)
	work(t, a)
	s.insert(t, 3)
	s.advance(time.Hour)
	work(t, a)
	s.advance(4 * time.Hour)
	s.insert(t, 2)
	verify(t, s, place.Folder(template), to(3, 7))
	for n, done := 1, false; !done; n++ {
		for _, after := range []bool{false, true} {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
				t.Fatal(err)
			}
			p := &archivetest.Unruly{Place: place.Folder(dir)}
			p.Set(archivetest.Behaviour{DiesAt: n, DiesAfter: after})
			err := writer.New(s.Store, writer.Small(config(s, p))).Work(t.Context())
			if err != nil && !errors.Is(err, archivetest.ErrAway) {
				t.Fatalf("change %d: %v", n, err)
			}
			done = p.Changes() < n
			p.Set(archivetest.Behaviour{})
			left := catalog(t, s, p).Ranges()
			if len(left) != 1 || left[0].First > 7 || left[0].Last < 7 {
				t.Errorf("died at change %d: got %v, want what was there", n, left)
			}
			verify(t, s, p, left...)
			work(t, writer.New(s.Store, writer.Small(config(s, p))))
			c := verify(t, s, p, to(7, 9))
			if t.Failed() {
				t.Fatalf("died at change %d, after it: %v", n, after)
			}
			for _, segment := range c.Segments {
				if segment.Last <= 3 {
					t.Errorf("died at change %d: %s is left", n, segment.Name)
				}
			}
		}
	}
}

// A restart goes on where the archive ends, and uploads nothing again.
func TestArchiver_GoesOn(t *testing.T) {
	t.Parallel()
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	p := place.Folder(t.TempDir())
	s.insert(t, 2)
	work(t, writer.New(s.Store, config(s, p)))
	uploads := map[string]int{}
	cfg := config(s, p)
	cfg.OnUpload = func(kind string, err error, _ time.Duration) { uploads[fmt.Sprint(kind, err)]++ }
	a := writer.New(s.Store, cfg)
	work(t, a)
	if len(uploads) != 0 {
		t.Errorf("got uploads %v, want none", uploads)
	}
	s.insert(t, 1)
	work(t, a)
	if uploads["segment<nil>"] != 1 || len(uploads) != 1 {
		t.Errorf("got uploads %v, want one segment", uploads)
	}
	verify(t, s, p, to(2, 3))
}

// A database in which nothing happens gets no further snapshots, and does not count as one without a snapshot.
func TestArchiver_Idle(t *testing.T) {
	t.Parallel()
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	p := place.Folder(t.TempDir())
	a := writer.New(s.Store, config(s, p))
	for range 3 {
		work(t, a)
		if age := a.Stats().SnapshotAge; age != 0 {
			t.Errorf("got a snapshot %v old, want a new one", age)
		}
		s.advance(5 * time.Hour)
	}
	if c := verify(t, s, p, to(0, 0)); len(c.Snapshots) != 1 {
		t.Errorf("got %d snapshots, want 1", len(c.Snapshots))
	}
}

// A snapshot follows so many bytes of the log.
func TestArchiver_SnapshotAfterBytes(t *testing.T) {
	t.Parallel()
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	p := place.Folder(t.TempDir())
	cfg := config(s, p)
	s.insert(t, 1)
	size := s.ArchiveState().Backlog
	cfg.SnapshotBytes = 3 * size
	a := writer.New(s.Store, cfg)
	for range 7 {
		work(t, a)
		s.insert(t, 1)
	}
	if c := verify(t, s, p, to(1, 7)); len(c.Snapshots) != 3 {
		t.Errorf("got %d snapshots, want those of 1, 4 and 7", len(c.Snapshots))
	}
}

// What was trimmed before the archive had it is a gap, and the next snapshot ends it.
func TestArchiver_Gap(t *testing.T) {
	t.Parallel()
	s := newSource(t, commitlog.Archive{})
	p := place.Folder(t.TempDir())
	s.insert(t, 2)
	a := writer.New(s.Store, config(s, p))
	work(t, a)
	s.insert(t, 4)
	s.advance(90 * time.Minute)
	s.insert(t, 1)
	s.trim(t, 6)
	work(t, a)
	c := verify(t, s, p, to(2, 2), to(7, 7))
	if gaps := c.Gaps(); len(gaps) != 1 || gaps[0] != to(3, 6) {
		t.Errorf("got gaps %v, want 3 to 6", gaps)
	}
	if got := s.ArchiveState(); got.Archived != 7 || got.Gaps != 1 {
		t.Errorf("got %+v, want all archived but one gap", got)
	}
	s.insert(t, 2)
	s.advance(90 * time.Minute)
	s.insert(t, 1)
	s.trim(t, 9)
	work(t, writer.New(s.Store, config(s, p))) // found by a start too
	verify(t, s, p, to(2, 2), to(7, 7), to(10, 10))
}

// A folder that lacks positions of the archive, or has another entry there, is refused with both positions.
func TestArchiver_TwoHistories(t *testing.T) {
	t.Parallel()
	p := place.Folder(t.TempDir())
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	s.insert(t, 3)
	dir := t.TempDir()
	old := copyOf(t, s, dir)
	s.insert(t, 2)
	work(t, writer.New(s.Store, config(s, p)))
	check := func(folder, differs dbaas.Seq) {
		t.Helper()
		_, err := writer.Start(t.Context(), old.Store, config(old, p))
		var two *writer.HistoryError
		if !errors.As(err, &two) || two.Archived != 5 || two.Folder != folder || two.Differs != differs {
			t.Errorf("got %v, want a HistoryError with 5 and %d, different at %d", err, folder, differs)
		}
	}
	check(3, 0)
	old.insert(t, 2)
	check(5, 5)
	old.insert(t, 2)
	check(7, 5)
	verify(t, s, p, to(5, 5))
}

// copyOf returns another store that begins as a copy of the first, as an old backup of a folder does.
func copyOf(t *testing.T, s *source, dir string) *source {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	other := &source{now: s.Now(), entries: map[dbaas.Seq]archive.Entry{}, ops: 1000}
	other.open(t, dir, commitlog.Archive{Backlog: 1 << 30})
	return other
}

// When another process becomes the writer, this one stops before its next upload, and trims nothing from then on.
func TestArchiver_OtherWriter_Stops(t *testing.T) {
	t.Parallel()
	p := place.Folder(t.TempDir())
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	s.insert(t, 1)
	first := writer.New(s.Store, config(s, p))
	work(t, first)
	if err := archive.WriteWriter(t.Context(), p, s.ArchiveState().Cluster, archive.NewWriterID()); err != nil {
		t.Fatal(err)
	}
	s.insert(t, 1)
	if err := first.Work(t.Context()); err == nil {
		t.Error("got nil, want an error")
	}
	if got := s.ArchiveState(); got.Archived != 1 {
		t.Errorf("got %+v, want only the first entry archived", got)
	}
	verify(t, s, p, to(1, 1))
}

// An archive that was emptied while persdb runs gets the retained log and a snapshot again.
func TestArchiver_EmptiedArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := place.Folder(dir)
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	s.insert(t, 3)
	a := writer.New(s.Store, config(s, p))
	work(t, a)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	s.insert(t, 1)
	if err := a.Work(t.Context()); !errors.Is(err, place.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	work(t, a)
	if c := verify(t, s, p, to(4, 4)); len(c.Segments) != 1 || c.Segments[0].First != 1 {
		t.Errorf("got %+v, want the retained log", c.Segments)
	}
}

// Segments are merged if they follow each other, began in the same past hour, and are not too large together.
func TestMergeable(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	var segments []archive.Segment
	began := map[string]time.Time{}
	add := func(first, last dbaas.Seq, minute int, bytes int64) {
		s := archive.Segment{First: first, Last: last}
		s.Name, s.Bytes = fmt.Sprintf("%d-%d", first, last), bytes
		segments = append(segments, s)
		began[s.Name] = midnight.Add(time.Duration(minute) * time.Minute)
	}
	add(1, 2, 0, mib)
	add(3, 3, 10, mib)
	add(3, 6, 10, 40*mib) // overlaps with the one before
	add(7, 8, 20, 30*mib) // over 64 MiB together
	add(9, 9, 59, mib)
	add(10, 11, 60, mib) // another hour
	add(10, 10, 60, mib) // contained in the one before
	add(14, 15, 70, mib) // after a hole
	add(16, 17, 80, mib)
	add(18, 18, 120, mib) // the present hour
	add(19, 19, 121, mib)
	got := ""
	for _, group := range writer.Mergeable(segments, func(s archive.Segment) time.Time { return began[s.Name] }, midnight.Add(2*time.Hour+time.Second)) {
		for _, s := range group {
			got += s.Name + " "
		}
		got += "| "
	}
	if want := "1-2 3-3 3-6 | 7-8 9-9 | 14-15 16-17 | "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
