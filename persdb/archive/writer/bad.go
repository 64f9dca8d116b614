package writer

import (
	"context"
	"errors"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/persdb/archive"
)

// isBad reports whether err says that an object of the archive is bad, and logs that. An object of another version is not
// bad: a newer program may have written it.
func (a *Archiver) isBad(ctx context.Context, err error) bool {
	bad, ok := errors.AsType[*archive.BadObjectError](err)
	if !ok || errors.Is(err, archive.ErrVersion) {
		return false
	}
	a.cfg.Log.ErrorContext(ctx, "an object of the archive is bad, archiving goes on as if it were missing; see rideshare archive verify", logkey.Error, bad)
	return true
}

// compareGood compares histories as compareWith does. It leaves out bad segments and returns the catalog without them.
func (a *Archiver) compareGood(ctx context.Context, c *archive.Catalog) (*archive.Catalog, error) {
	for {
		err := a.compareWith(ctx, c)
		if !a.isBad(ctx, err) {
			return c, err
		}
		bad, _ := errors.AsType[*archive.BadObjectError](err)
		c = c.Without(bad.Name)
	}
}

// newestSnapshot returns the newest snapshot. If its header is bad, newestSnapshot returns the snapshot's name and no
// snapshot, so that a new snapshot is due.
func (a *Archiver) newestSnapshot(ctx context.Context, c *archive.Catalog) (last lastSnapshot, bad string, err error) {
	n := len(c.Snapshots)
	if n == 0 {
		return last, "", nil
	}
	name := c.Snapshots[n-1].Name
	h, err := archive.ReadHeader(ctx, a.cfg.Place, name)
	if a.isBad(ctx, err) {
		return last, name, nil
	}
	return lastSnapshot{seq: h.Last, made: h.Made}, "", err
}

// newestSegment returns a lower bound for the position up to which the log was trimmed when the entry after the last
// segment was committed; present is how far it is trimmed now. Segments at the end whose headers are bad are left out:
// newestSegment returns the catalog without them.
func (a *Archiver) newestSegment(ctx context.Context, c *archive.Catalog, present dbaas.Seq) (*archive.Catalog, dbaas.Seq, error) {
	for n := len(c.Segments); n > 0; n = len(c.Segments) {
		name := c.Segments[n-1].Name
		h, err := archive.ReadHeader(ctx, a.cfg.Place, name)
		if !a.isBad(ctx, err) {
			return c, min(present, h.Trimmed), err
		}
		c = c.Without(name)
	}
	return c, present, nil
}
