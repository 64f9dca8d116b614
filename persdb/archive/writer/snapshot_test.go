package writer_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

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
