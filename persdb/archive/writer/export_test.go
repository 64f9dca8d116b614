package writer

import (
	"context"
	"time"

	"rideshare/persdb/archive"
	"rideshare/persdb/commitlog"
)

// New returns an Archiver that does nothing by itself.
func New(store *commitlog.Store, cfg Config) *Archiver { return newArchiver(store, cfg) }

// Small makes each entry a segment of its own.
func Small(cfg Config) Config { return Sized(cfg, 1) }

// Sized makes a segment end at so many bytes.
func Sized(cfg Config, bytes int) Config {
	cfg.segmentBytes = bytes
	return cfg
}

// Work does everything that is due, once.
func (a *Archiver) Work(ctx context.Context) error {
	if !a.isReady() {
		if err := a.begin(ctx); err != nil {
			return err
		}
	}
	if err := a.Upload(ctx); err != nil {
		return err
	}
	a.tidied = time.Time{}
	return a.upkeep(ctx)
}

// Upload stores all segments that the archive lacks.
func (a *Archiver) Upload(ctx context.Context) error {
	for a.lag() > 0 {
		if err := a.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Tidy does what is due once an hour.
func (a *Archiver) Tidy(ctx context.Context) error { return a.tidy(ctx) }

// Mergeable returns the groups of segments that are merged.
func Mergeable(segments []archive.Segment, began func(archive.Segment) time.Time, now time.Time) [][]archive.Segment {
	return mergeable(segments, began, now)
}
