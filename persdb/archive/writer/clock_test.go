package writer_test

import (
	"context"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/archive/writer"
	"rideshare/persdb/commitlog"
)

const day = 24 * time.Hour

// dated is a place with a clock of its own.
type dated struct {
	place.Place

	now time.Time
}

func (d dated) List(ctx context.Context, prefix string) ([]place.Object, error) {
	objects, err := d.Place.List(ctx, prefix)
	for i := range objects {
		objects[i].Modified = d.now
	}
	return objects, err
}

// A clock that is ahead removes nothing that is younger than Keep by the newest entry, or by the clock of the place.
func TestArchiver_ClockAhead_RemovesNothing(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]int{"without a commit": 0, "with commits": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
			p := place.Folder(t.TempDir())
			cfg := config(s, p)
			cfg.SnapshotEvery, cfg.Keep = day, 7*day
			for range 3 {
				s.insert(t, 2)
				work(t, writer.New(s.Store, cfg))
				s.advance(day)
			}
			right := s.Now()
			s.advance(30 * day)
			if commits > 0 {
				cfg.Place = dated{p, right}
				s.insert(t, commits)
			}
			for range 2 {
				work(t, writer.New(s.Store, cfg))
			}
			verify(t, s, p, to(2, 6+dbaas.Seq(commits)))
		})
	}
}

// A snapshot that was made while the clock was ahead does not delay the next one, and its age is not negative.
func TestArchiver_ClockWasAhead_MakesSnapshots(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"set right while persdb runs": false, "set right before a start": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
			p := place.Folder(t.TempDir())
			cfg := config(s, p)
			ahead := 30 * day
			cfg.Now = func() time.Time { return s.Now().Add(ahead) }
			s.insert(t, 1)
			a := writer.New(s.Store, cfg)
			work(t, a)
			ahead = 0
			if restarts {
				a = writer.New(s.Store, cfg)
			}
			for range 2 {
				work(t, a)
				if age := a.Stats().SnapshotAge; age != 0 {
					t.Errorf("got a snapshot %v old, want 0", age)
				}
				s.insert(t, 1)
				s.advance(cfg.SnapshotEvery)
			}
			work(t, a)
			if c := verify(t, s, p, to(1, 3)); len(c.Snapshots) != 3 {
				t.Errorf("got snapshots %v, want those of 1, 2 and 3", c.Snapshots)
			}
		})
	}
}
