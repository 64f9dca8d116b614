package writer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/commitlog"
)

// The kinds of objects, as metrics name them.
const (
	kindSegment  = "segment"
	kindSnapshot = "snapshot"
	kindMerged   = "merged"
)

// Kinds are the kinds of objects that OnUpload is called with.
func Kinds() []string { return []string{kindSegment, kindSnapshot, kindMerged} }

func entryOf(r *commitlog.Record) *archive.Entry {
	e := &r.Entry
	return &archive.Entry{Seq: e.Seq, Epoch: e.Epoch, At: e.At, Operations: r.Operations, Changes: wire.AppendChanges(nil, e.Changes)}
}

func equal(a, b *archive.Entry) bool {
	return a.Seq == b.Seq && a.Epoch == b.Epoch && a.At.Equal(b.At) && bytes.Equal(a.Operations, b.Operations) && bytes.Equal(a.Changes, b.Changes)
}

// next stores the next segment, if the store has more entries. Entries that can no longer be read are skipped. The
// archive then has a gap, which a snapshot ends.
func (a *Archiver) next(ctx context.Context) error {
	a.mu.Lock()
	position, trimmed := a.position, a.trimmed
	a.mu.Unlock()
	present := a.store.ArchiveState()
	records, err := a.store.Records(ctx, position, a.cfg.segmentBytes)
	switch dbaas.CodeOf(err) { //nolint:exhaustive // all others are alike.
	case dbaas.CodeOK:
	case dbaas.CodeGone:
		a.skip(ctx, a.store.ArchiveState().Trimmed)
		return nil
	case dbaas.CodeDamaged:
		a.mu.Lock()
		a.gaps++
		a.mu.Unlock()
		a.skip(ctx, position+1)
		return nil
	default:
		return err
	}
	if len(records) == 0 {
		return nil
	}
	h := headerOf(records)
	h.Cluster, h.Trimmed, h.Made = a.store.ArchiveState().Cluster, trimmed, a.cfg.Now()
	var body bytes.Buffer
	size := int64(0)
	err = archive.WriteSegment(&body, h, func(add func(*archive.Entry) error) (err error) {
		for i := range records {
			size += int64(len(records[i].Operations) + records[i].Entry.Size())
			err = errors.Join(err, add(entryOf(&records[i])))
		}
		return err
	})
	name := archive.SegmentName(h.Cluster, h.First, h.Last, a.id)
	if err == nil {
		err = a.put(ctx, kindSegment, name, &body)
	}
	if err == nil {
		if h.Last >= present.Head { // the entries after h.Last were committed after this trimming.
			trimmed = present.Trimmed
		}
		a.stored(name, h, trimmed, size)
	}
	return err
}

// stored records that a segment is in the archive and continues after it. trimmed is the position up to which the log
// was trimmed before the entries after the segment were committed.
func (a *Archiver) stored(name string, h archive.Header, trimmed dbaas.Seq, size int64) {
	a.mu.Lock()
	a.position, a.before, a.trimmed = h.Last, h.Trimmed, trimmed
	a.headers[name] = h
	a.since += size
	if a.since >= a.cfg.SnapshotBytes || h.First <= a.goal && a.goal <= h.Last {
		a.due.Give()
	}
	a.tell()
	a.mu.Unlock()
}

// tell reports to the store what the archive has, unless begin must find that out first. The caller holds mu.
func (a *Archiver) tell() {
	if a.ready {
		a.store.Archived(a.position)
	}
}

func headerOf(records []commitlog.Record) archive.Header {
	first, last := &records[0].Entry, &records[len(records)-1].Entry
	return archive.Header{First: first.Seq, Last: last.Seq, FirstAt: first.At, LastAt: last.At, Epoch: last.Epoch}
}

// skip continues after position to: the archive never gets the entries up to it.
func (a *Archiver) skip(ctx context.Context, to dbaas.Seq) {
	a.mu.Lock()
	a.cfg.Log.ErrorContext(ctx, "entries cannot be archived any more, positions from here to the next snapshot cannot be restored", logkey.Seq, a.position+1)
	a.position, a.want = max(a.position, to), true
	a.skipped = a.position
	a.asked++
	a.tell()
	a.mu.Unlock()
	a.due.Give()
}

// put stores one object if this process is still the archive's writer. If the name is taken, put returns nil: the
// object is this process's own, from an attempt whose answer was lost.
func (a *Archiver) put(ctx context.Context, kind, name string, body io.Reader) error {
	ctx, cancel := wait.UntilStalled(ctx, quiet)
	defer cancel()
	began := time.Now()
	err := a.checkWriter(ctx)
	if err == nil {
		err = a.storeAs(name)(ctx, name, body)
	}
	if errors.Is(err, place.ErrExists) {
		err = nil
	}
	if a.cfg.OnUpload != nil {
		a.cfg.OnUpload(kind, err, time.Since(began))
	}
	return err
}

// storeAs returns the call that stores an object of this name: Create, or Replace for the name of the bad snapshot.
func (a *Archiver) storeAs(name string) func(context.Context, string, io.Reader) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name == a.bad {
		return a.cfg.Place.Replace
	}
	return a.cfg.Place.Create
}

// checkWriter returns errOtherWriter if another process has become the writer. A missing writer.json means that the
// archive was emptied, and a bad one counts as missing; begin then runs again.
func (a *Archiver) checkWriter(ctx context.Context) error {
	writer, err := archive.ReadWriter(ctx, a.cfg.Place, a.store.ArchiveState().Cluster)
	if errors.Is(err, place.ErrNotFound) || a.isBad(ctx, err) {
		a.unsettle(&archive.Catalog{})
	}
	if err == nil && writer != a.id {
		err = errOtherWriter
	}
	return err
}
