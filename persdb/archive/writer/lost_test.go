package writer_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/archive/writer"
	"rideshare/persdb/commitlog"
)

// remove removes an object of the archive behind the back of persdb.
func remove(t *testing.T, p place.Place, name string) {
	t.Helper()
	if err := p.Remove(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// An archive that has lost entries while persdb runs is noticed once, and counts as a gap. It gets again what the log still
// has. A snapshot ends the gap of the rest.
func TestArchiver_ArchiveLostEntries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose func(t *testing.T, s *source, p place.Place, c *archive.Catalog)
		want []archive.Range
	}{
		"set back": {want: []archive.Range{to(2, 7)}, lose: func(t *testing.T, _ *source, p place.Place, c *archive.Catalog) {
			t.Helper()
			for _, segment := range c.Segments[2:] {
				remove(t, p, segment.Name)
			}
		}},
		"set back, and the log was trimmed": {want: []archive.Range{to(2, 3), to(7, 7)}, lose: func(t *testing.T, s *source, p place.Place, c *archive.Catalog) {
			t.Helper()
			for _, segment := range c.Segments[3:] {
				remove(t, p, segment.Name)
			}
			s.advance(2 * time.Hour)
			s.trim(t, 5)
		}},
		"entries that the log lacks": {want: []archive.Range{to(2, 3), to(7, 7)}, lose: func(t *testing.T, s *source, p place.Place, c *archive.Catalog) {
			t.Helper()
			for _, segment := range c.Segments[3:5] {
				remove(t, p, segment.Name)
			}
			s.advance(2 * time.Hour)
			s.trim(t, 5)
		}},
		"an entry": {want: []archive.Range{to(2, 7)}, lose: func(t *testing.T, _ *source, p place.Place, c *archive.Catalog) {
			t.Helper()
			remove(t, p, c.Segments[3].Name)
		}},
		"an entry before the snapshot": {want: []archive.Range{to(2, 7)}, lose: func(t *testing.T, _ *source, p place.Place, c *archive.Catalog) {
			t.Helper()
			remove(t, p, c.Segments[0].Name)
		}},
		"the snapshot": {want: []archive.Range{to(7, 7)}, lose: func(t *testing.T, _ *source, p place.Place, c *archive.Catalog) {
			t.Helper()
			remove(t, p, c.Snapshots[0].Name)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
			p := place.Folder(t.TempDir())
			cfg := config(s, p)
			cfg.SnapshotEvery, cfg.Keep = 24*time.Hour, 48*time.Hour
			a := writer.New(s.Store, writer.Small(cfg))
			s.insert(t, 2)
			work(t, a)
			s.advance(2 * time.Minute)
			s.insert(t, 4)
			work(t, a)
			c.lose(t, s, p, catalog(t, s, p))
			s.insert(t, 1)
			for range 3 { // notices, mends, and finds nothing more
				work(t, a)
			}
			if got := a.Stats().Gaps; got != 1 {
				t.Errorf("got %d gaps, want 1", got)
			}
			verify(t, s, p, c.want...)
		})
	}
}

// As soon as a loss is noticed, the log keeps what it has of the lost entries, and they are the backlog.
func TestArchiver_LostEntries_AreNotTrimmed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left dbaas.Seq
		lose func(t *testing.T, s *source, p place.Place)
	}{
		"set back": {2, func(t *testing.T, s *source, p place.Place) {
			t.Helper()
			for _, segment := range catalog(t, s, p).Segments[2:] {
				remove(t, p, segment.Name)
			}
		}},
		"emptied": {0, func(t *testing.T, s *source, p place.Place) {
			t.Helper()
			remove(t, p, s.ArchiveState().Cluster.String()+"/writer.json")
			for _, segment := range catalog(t, s, p).Segments {
				remove(t, p, segment.Name)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
			p := place.Folder(t.TempDir())
			a := writer.New(s.Store, writer.Small(config(s, p)))
			s.insert(t, 6)
			whole := s.ArchiveState().Backlog
			work(t, a)
			c.lose(t, s, p)
			if err := a.Tidy(t.Context()); err != nil && !errors.Is(err, place.ErrNotFound) {
				t.Fatal(err)
			}
			if got := s.ArchiveState(); got.Archived != c.left || got.Backlog < whole/2 {
				t.Errorf("got %+v, want all after %d as the backlog, of %d bytes in all", got, c.left, whole)
			}
			s.advance(2 * time.Hour)
			s.trim(t, c.left)
			work(t, a)
			verify(t, s, p, to(6, 6))
			s.trim(t, 5)
		})
	}
}

// during calls a function before it stores an object.
type during struct {
	place.Place

	create func()
}

func (d *during) Create(ctx context.Context, name string, body io.Reader) error {
	d.create()
	return d.Place.Create(ctx, name, body)
}

// A loss that is noticed while a segment is uploaded: the segment does not hide it.
func TestArchiver_LossDuringAnUpload(t *testing.T) {
	t.Parallel()
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	p := &during{Place: place.Folder(t.TempDir()), create: func() {}}
	a := writer.New(s.Store, writer.Small(config(s, p)))
	s.insert(t, 4)
	work(t, a)
	s.insert(t, 1)
	p.create = func() {
		p.create = func() {}
		remove(t, p, catalog(t, s, p).Segments[2].Name)
		if err := a.Tidy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := a.Upload(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.advance(2 * time.Hour)
	s.trim(t, 2)
	work(t, a)
	verify(t, s, p, to(4, 5))
}

// A gap that is known is no new loss, however often the archiver looks.
func TestArchiver_KnownGap_IsNoLoss(t *testing.T) {
	t.Parallel()
	s, log := newCopied(t, commitlog.Archive{Backlog: 1 << 30})
	p := place.Folder(t.TempDir())
	cfg := config(s, p)
	cfg.SnapshotEvery, cfg.Keep = 24*time.Hour, 48*time.Hour
	a := writer.New(s.Store, cfg)
	s.insert(t, 2)
	work(t, a)
	s.insert(t, 3)
	log.damaged = 4
	for range 3 {
		work(t, a)
		s.insert(t, 1)
	}
	work(t, a)
	if got := a.Stats().Gaps; got != 1 {
		t.Errorf("got %d gaps, want only the damaged entry", got)
	}
	verify(t, s, p, to(2, 3), to(5, 8))
}
