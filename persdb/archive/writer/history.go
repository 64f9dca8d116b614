package writer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/persdb/archive"
)

// HistoryError says that the archive and the data folder have different histories.
type HistoryError struct {
	Cluster          dbaas.ClusterID
	Archived, Folder dbaas.Seq // the newest positions
	Differs          dbaas.Seq // the position at which their entries differ; 0 if the folder lacks positions
}

func (e *HistoryError) Error() string {
	what := fmt.Sprintf("the archive of cluster %s goes up to position %d, and the data folder up to %d: the folder lacks acknowledged writes",
		e.Cluster, e.Archived, e.Folder)
	if e.Differs > 0 {
		what = fmt.Sprintf("the archive of cluster %s, which goes up to position %d, and the data folder, which goes up to %d, have different entries at position %d",
			e.Cluster, e.Archived, e.Folder, e.Differs)
	}
	return what + "; to go on from the archive: rideshare restore --from ARCHIVE --data NEWDIR; to go on from the folder and give up what only the archive has: " +
		"move the archive's " + e.Cluster.String() + " away"
}

// comparedWriters is the number of writers whose newest entries are compared. Every start compares, so a writer of
// another history is found long before eight others have followed it.
const comparedWriters = 8

// compareWith returns a *HistoryError if the archive has another history than the store. It compares the newest
// position, and the newest entry of each of the last comparedWriters writers.
func (a *Archiver) compareWith(ctx context.Context, c *archive.Catalog) error {
	// Call Head after the archive was read: Head fails if another process has taken over the shared log. Otherwise the
	// store would be compared although it lacks entries of that process.
	if _, err := a.store.Head(ctx); err != nil {
		return err
	}
	state := a.store.ArchiveState()
	newest, _ := c.Newest()
	if newest > state.Head {
		return &HistoryError{Cluster: state.Cluster, Archived: newest, Folder: state.Head}
	}
	latest := map[archive.WriterID]archive.Segment{}
	for _, s := range c.Segments {
		if s.Writer != a.id && s.Last > state.Trimmed && s.Last > latest[s.Writer].Last {
			latest[s.Writer] = s
		}
	}
	ends := slices.SortedFunc(maps.Values(latest), func(a, b archive.Segment) int { return cmp.Compare(b.Last, a.Last) })
	for _, s := range ends[:min(len(ends), comparedWriters)] {
		same, err := a.sameEnd(ctx, s)
		if err != nil {
			return err
		}
		if !same {
			return &HistoryError{Cluster: state.Cluster, Archived: newest, Folder: state.Head, Differs: s.Last}
		}
	}
	return nil
}

// sameEnd reports whether the store has the same entry as the end of a segment.
func (a *Archiver) sameEnd(ctx context.Context, s archive.Segment) (bool, error) {
	var end archive.Entry
	if _, err := archive.ReadSegment(ctx, a.cfg.Place, s, func(e archive.Entry) error {
		end = e
		return nil
	}); err != nil {
		return false, err
	}
	records, err := a.store.Records(ctx, s.Last-1, 1)
	if code := dbaas.CodeOf(err); code == dbaas.CodeGone || code == dbaas.CodeDamaged { // the store's entry was trimmed or is damaged: nothing to compare
		return true, nil
	}
	if err != nil || len(records) == 0 {
		return false, err
	}
	return equal(&end, entryOf(&records[0])), nil
}

// held is what the archive must have at one moment.
type held struct {
	after, position dbaas.Seq // every entry from after+1 to position
	restorable      bool      // position can be restored: no gap waits for a snapshot
}

// holds returns what the archive has if it has lost nothing.
func (a *Archiver) holds() held {
	trimmed := a.store.ArchiveState().Trimmed
	a.mu.Lock()
	defer a.mu.Unlock()
	return held{after: max(trimmed, a.skipped), position: a.position, restorable: !a.want}
}

// in reports whether c, a catalog that was read after the call of holds, has all of h.
func (h held) in(c *archive.Catalog) bool {
	_, reached := c.Chain(h.after)
	ranges := c.Ranges()
	return reached >= h.position && (!h.restorable || len(ranges) > 0 && ranges[len(ranges)-1].Last >= h.position)
}

// beginAgain counts a loss and makes begin run again. The archive has lost entries and now has only c: an old copy of the
// archive was put in its place, or objects were removed. The entries that the log still has are stored again. A snapshot ends the
// gap of the others.
func (a *Archiver) beginAgain(ctx context.Context, had held, c *archive.Catalog) {
	a.cfg.Log.ErrorContext(ctx, "the archive has lost entries, those that the log still has are stored again; see rideshare archive list", logkey.Seq, had.position)
	a.mu.Lock()
	a.gaps++
	a.mu.Unlock()
	a.unsettle(c)
}

// unsettle makes begin run again. Until then the log keeps all entries that a catalog lacks.
func (a *Archiver) unsettle(c *archive.Catalog) {
	_, reached := c.Chain(a.store.ArchiveState().Trimmed)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = false
	a.store.Archived(reached)
}
