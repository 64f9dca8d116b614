package writer

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
	"rideshare/persdb/archive"
)

// tidy runs tidyObjects, and then removes unfinished uploads, even if tidyObjects failed.
func (a *Archiver) tidy(ctx context.Context) error {
	ctx, cancel := wait.UntilStalled(ctx, quiet)
	defer cancel()
	if err := a.checkWriter(ctx); err != nil {
		return err
	}
	return errors.Join(a.tidyObjects(ctx), a.cfg.Place.RemoveUnfinished(ctx, a.cfg.Now().Add(-day)))
}

// tidyObjects compares histories, merges segments, and removes objects that are no longer needed. After each step the same
// positions can be restored as before, so an interrupted step is simply repeated by the next tidy. If the archive has lost
// entries, tidyObjects only makes begin run again.
func (a *Archiver) tidyObjects(ctx context.Context) error {
	had := a.holds()
	c, err := archive.Read(ctx, a.cfg.Place, a.store.ArchiveState().Cluster)
	if err == nil {
		err = a.compareWith(ctx, c)
	}
	if err == nil && !had.in(c) {
		a.beginAgain(ctx, had, c)
		return nil
	}
	if err == nil {
		err = a.merge(ctx, c)
	}
	if err == nil {
		err = a.removeOld(ctx, c)
	}
	return err
}

// merge merges the segments of past hours, and removes the segments that merged ones replace.
func (a *Archiver) merge(ctx context.Context, c *archive.Catalog) error {
	headers := make(map[string]archive.Header, len(c.Segments))
	for i := range c.Segments {
		h, err := a.header(ctx, c.Segments[i].Name)
		if err != nil {
			return err
		}
		headers[c.Segments[i].Name] = h
	}
	a.forget(headers)
	for _, group := range mergeable(c.Segments, func(s archive.Segment) time.Time { return headers[s.Name].FirstAt }, a.cfg.Now()) {
		merged, err := a.mergeOne(ctx, group, headers)
		if err != nil {
			return err
		}
		c.Segments = append(c.Segments, merged)
	}
	return a.removeReplaced(ctx, c.Segments)
}

// header returns the header of a segment, from memory or else from the archive.
func (a *Archiver) header(ctx context.Context, name string) (archive.Header, error) {
	a.mu.Lock()
	h, ok := a.headers[name]
	a.mu.Unlock()
	if ok {
		return h, nil
	}
	h, err := archive.ReadHeader(ctx, a.cfg.Place, name)
	if err == nil {
		a.mu.Lock()
		a.headers[name] = h
		a.mu.Unlock()
	}
	return h, err
}

// forget drops the headers of removed segments: those not in present. It keeps headers made within the last hour, since
// a new segment may not be in present yet.
func (a *Archiver) forget(present map[string]archive.Header) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, h := range a.headers {
		if _, ok := present[name]; !ok && a.cfg.Now().Sub(h.Made) > tidyEvery {
			delete(a.headers, name)
		}
	}
}

// mergeable returns groups of segments, each of which can be merged into one segment. The segments of a group follow
// each other, began in the same past hour, and have at most mergedBytes together. segments must be in the order of a
// Catalog.
func mergeable(segments []archive.Segment, began func(archive.Segment) time.Time, now time.Time) [][]archive.Segment {
	var groups [][]archive.Segment
	var group []archive.Segment
	var bytes int64
	var reached dbaas.Seq
	end := func() {
		if len(group) > 1 {
			groups = append(groups, group)
		}
		group, bytes = nil, 0
	}
	for _, s := range segments {
		if s.Last <= reached { // an earlier segment has all its entries.
			continue
		}
		hour := began(s).Truncate(time.Hour)
		if len(group) > 0 && (s.First > reached+1 || !hour.Equal(began(group[0]).Truncate(time.Hour)) || bytes+s.Bytes > mergedBytes) {
			end()
		}
		reached = s.Last
		if !now.Truncate(time.Hour).After(hour) {
			break
		}
		group, bytes = append(group, s), bytes+s.Bytes
	}
	end()
	return groups
}

// mergeOne stores one segment with all entries of a group.
func (a *Archiver) mergeOne(ctx context.Context, group []archive.Segment, headers map[string]archive.Header) (archive.Segment, error) {
	last := group[len(group)-1]
	h := headers[group[0].Name]
	h.Last, h.LastAt, h.Epoch, h.Made = last.Last, headers[last.Name].LastAt, headers[last.Name].Epoch, a.cfg.Now()
	merged := archive.Segment{Cluster: last.Cluster, First: h.First, Last: h.Last, Writer: a.id}
	merged.Name = archive.SegmentName(h.Cluster, h.First, h.Last, a.id)
	err := a.stream(ctx, kindMerged, merged.Name, func(w io.Writer) error {
		return archive.WriteSegment(w, h, func(add func(*archive.Entry) error) error {
			next := h.First
			for _, s := range group {
				if _, err := archive.ReadSegment(ctx, a.cfg.Place, s, func(e archive.Entry) error {
					if e.Seq < next {
						return nil
					}
					next++
					return add(&e)
				}); err != nil {
					return err
				}
				failpoint.Hit(failpoint.ArchiveMerging)
			}
			return nil
		})
	})
	if err == nil {
		failpoint.Hit(failpoint.ArchiveMerged)
	}
	return merged, err
}

// removeReplaced removes each segment whose entries a longer segment has, after it has read the longer segment back.
func (a *Archiver) removeReplaced(ctx context.Context, segments []archive.Segment) error {
	readBack := map[string]bool{}
	for _, s := range segments {
		by := replacement(segments, s)
		if by == nil {
			continue
		}
		if !readBack[by.Name] {
			if _, err := archive.ReadSegment(ctx, a.cfg.Place, *by, func(archive.Entry) error { return nil }); err != nil {
				return err
			}
			readBack[by.Name] = true
		}
		if err := a.remove(ctx, s.Name); err != nil {
			return err
		}
	}
	return nil
}

// replacement returns the longest segment that has all entries of s and more, or nil.
func replacement(segments []archive.Segment, s archive.Segment) *archive.Segment {
	var by *archive.Segment
	for i := range segments {
		o := &segments[i]
		if o.First <= s.First && o.Last >= s.Last && o.Last-o.First > s.Last-s.First && (by == nil || o.Last-o.First > by.Last-by.First) {
			by = o
		}
	}
	return by
}

func (a *Archiver) remove(ctx context.Context, name string) error {
	wait.ReportProgress(ctx)
	err := a.cfg.Place.Remove(ctx, name)
	if err == nil {
		failpoint.Hit(failpoint.ArchiveRemoved)
	}
	return err
}

// removeOld removes the objects that no position younger than Keep needs: the snapshots before the newest snapshot that
// is older than Keep, and the segments that end at or before that snapshot's Trimmed. An older program may have written a
// Trimmed above the snapshot's position: the segments after that position are replayed, so they stay.
func (a *Archiver) removeOld(ctx context.Context, c *archive.Catalog) error {
	oldest, h, err := a.oldestNeeded(ctx, c)
	if err != nil || oldest == nil {
		return err
	}
	h.Trimmed = min(h.Trimmed, oldest.Seq)
	var names []string
	for _, s := range c.Snapshots {
		if s.Seq < oldest.Seq {
			names = append(names, s.Name)
		}
	}
	for _, s := range c.Segments {
		if s.Last <= h.Trimmed {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	for _, s := range []archive.Snapshot{*oldest, c.Snapshots[len(c.Snapshots)-1]} {
		if _, err = archive.ReadSnapshot(ctx, a.cfg.Place, s, io.Discard); err != nil {
			return err
		}
	}
	for _, name := range names {
		err = errors.Join(err, a.remove(ctx, name))
	}
	a.cfg.Log.InfoContext(ctx, "old objects of the archive removed", logkey.Count, len(names))
	return err
}

// oldestNeeded returns the newest snapshot that is older than Keep, with its header; nil if there is none. The age of a
// snapshot is counted back from the earliest of three times: Now, the time of the newest entry, and the time of the newest
// object by the clock of the place. So a clock that is ahead does not make everything old.
func (a *Archiver) oldestNeeded(ctx context.Context, c *archive.Catalog) (*archive.Snapshot, archive.Header, error) {
	entry, stored := a.newestTimes(c)
	for i := len(c.Snapshots) - 1; i >= 0; i-- {
		h, err := archive.ReadHeader(ctx, a.cfg.Place, c.Snapshots[i].Name)
		if err != nil {
			return nil, h, err
		}
		entry = later(entry, h.LastAt)
		now := slices.MinFunc([]time.Time{a.cfg.Now(), entry, stored}, time.Time.Compare)
		if !h.LastAt.After(now.Add(-a.cfg.Keep)) {
			return &c.Snapshots[i], h, nil
		}
	}
	return nil, archive.Header{}, nil
}

// newestTimes returns the time of the newest entry in a segment whose header is in memory, and the time of the newest
// object by the clock of the place.
func (a *Archiver) newestTimes(c *archive.Catalog) (entry, stored time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.headers {
		entry = later(entry, h.LastAt)
	}
	for i := range c.Segments {
		stored = later(stored, c.Segments[i].Modified)
	}
	for i := range c.Snapshots {
		stored = later(stored, c.Snapshots[i].Modified)
	}
	return entry, stored
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
