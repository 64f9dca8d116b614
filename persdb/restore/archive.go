package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/commitlog"
)

// Want says what to restore from an archive: by default the newest position that can be restored.
type Want struct {
	// Cluster may be zero if the archive holds one cluster only.
	Cluster dbaas.ClusterID
	// Seq, if not nil, is the position.
	Seq *dbaas.Seq
	// At, if not nil, selects the last entry that was committed at or before this time. It has precedence over Seq.
	At *time.Time
	// Progress, if set, is called for each entry: seq is the position that the log has reached, last the position at which it
	// will end.
	Progress func(seq, last dbaas.Seq)
}

// ErrCluster is returned, wrapped with the archive's cluster ids, if the archive lacks the wanted cluster, or holds
// several and no cluster was named.
var ErrCluster = errors.New("name one of the archive's clusters")

// FromArchive makes the data folder cfg.Dir from an archive. The folder has the tables and stored answers of the
// database at the wanted position. Its parent is that position, and its first epoch is larger than any in the archive.
//
// Errors: ErrTarget for the folder; ErrCluster; *archive.NotRestorableError; *archive.BadObjectError, with what can still
// be restored in its text.
func FromArchive(ctx context.Context, cfg commitlog.Config, p place.Place, want Want) (Made, error) {
	p = &source{Place: p}
	id, err := choose(ctx, p, want.Cluster)
	if err != nil {
		return Made{}, err
	}
	var c *archive.Catalog
	var plan archive.Plan
	var epoch dbaas.Epoch
	var at, next time.Time
	err = again(func() (err error) {
		if c, err = archive.Read(ctx, p, id); err != nil {
			return err
		}
		if plan, err = planOf(ctx, p, c, want); err != nil {
			return nearest(c, plan.Seq, err)
		}
		if next, err = timeOf(ctx, p, c, plan.Seq+1); err != nil {
			return err
		}
		epoch, err = newestEpoch(ctx, p)
		return err
	})
	if err != nil {
		return Made{}, err
	}
	seed, end, err := seedOf(ctx, p, plan, want.Progress)
	if err != nil {
		return Made{}, nearest(c, plan.Seq, err)
	}
	defer end()
	seed.Epoch = epoch
	entries := seed.Entries
	seed.Entries = func(add func(commitlog.Record) error) error {
		return entries(func(r commitlog.Record) error {
			at = r.Entry.At // ends as the time of plan.Seq.
			return add(r)
		})
	}
	made, err := build(ctx, cfg, seed, &archive.Position{Cluster: id, Seq: plan.Seq})
	made.At, made.Next = at, next
	for _, gap := range c.Gaps() {
		if gap.First == plan.Seq+1 {
			made.Gap = &gap
		}
	}
	return made, nearest(c, plan.Seq, err)
}

// again calls f, and once more if an object was missing: the running system may have merged or removed it after f had
// listed the archive.
func again(f func() error) error {
	err := f()
	if errors.Is(err, place.ErrNotFound) {
		err = f()
	}
	return err
}

// choose returns the id of the cluster to restore.
func choose(ctx context.Context, p place.Place, want dbaas.ClusterID) (dbaas.ClusterID, error) {
	ids, err := archive.Clusters(ctx, p)
	switch {
	case err != nil:
		return want, err
	case len(ids) == 0:
		return want, errors.New("the archive is empty, or there is none")
	case want.IsZero() && len(ids) == 1:
		return ids[0], nil
	case slices.Contains(ids, want):
		return want, nil
	}
	texts := make([]string, len(ids))
	for i := range ids {
		texts[i] = ids[i].String()
	}
	return want, fmt.Errorf("%w: %s", ErrCluster, strings.Join(texts, ", "))
}

// planOf returns the plan for the wanted position. With an error, only the plan's Seq counts; it is 0 if not known.
func planOf(ctx context.Context, p place.Place, c *archive.Catalog, want Want) (archive.Plan, error) {
	ranges := c.Ranges()
	if len(ranges) == 0 {
		return archive.Plan{}, fmt.Errorf("the archive of cluster %s has no snapshot yet", c.Cluster)
	}
	seq := ranges[len(ranges)-1].Last
	if want.Seq != nil {
		seq = *want.Seq
	}
	if want.At != nil {
		var err error
		if seq, err = c.SeqAt(ctx, p, *want.At); err != nil {
			return archive.Plan{Seq: seq}, err
		}
	}
	plan, err := c.Plan(ctx, p, seq)
	plan.Seq = seq
	return plan, err
}

// timeOf returns the time of an entry, or zero if the archive lacks it. It returns zero for an entry of a bad object too: the
// restore does not need that object.
func timeOf(ctx context.Context, p place.Place, c *archive.Catalog, seq dbaas.Seq) (at time.Time, err error) {
	chain, _ := c.Chain(seq - 1)
	if len(chain) == 0 {
		return at, nil
	}
	_, err = archive.ReadSegment(ctx, p, chain[0], func(e archive.Entry) error {
		if e.Seq == seq {
			at = e.At
		}
		return nil
	})
	if _, bad := errors.AsType[*archive.BadObjectError](err); bad {
		return time.Time{}, nil
	}
	return at, err
}

// newestEpoch returns the newest epoch of any cluster of the archive. It skips bad objects, since a bad object that the
// restore does not need must not prevent it.
func newestEpoch(ctx context.Context, p place.Place) (newest dbaas.Epoch, err error) {
	ids, err := archive.Clusters(ctx, p)
	for _, id := range ids {
		c, failed := archive.Read(ctx, p, id)
		if failed != nil {
			return 0, failed
		}
		for seq, ok := c.Newest(); ok; seq, ok = c.Newest() {
			name := nameOf(c, seq)
			h, failed := archive.ReadHeader(ctx, p, name)
			if _, bad := errors.AsType[*archive.BadObjectError](failed); bad {
				c = c.Without(name)
				continue
			}
			if failed != nil {
				return 0, failed
			}
			newest = max(newest, h.Epoch)
			break
		}
	}
	return newest, err
}

// nameOf returns the name of an object that ends at a position; "" if there is none.
func nameOf(c *archive.Catalog, seq dbaas.Seq) string {
	for i := range c.Segments {
		if c.Segments[i].Last == seq {
			return c.Segments[i].Name
		}
	}
	for i := range c.Snapshots {
		if c.Snapshots[i].Seq == seq {
			return c.Snapshots[i].Name
		}
	}
	return ""
}

// seedOf returns the content of the folder. Its log begins where the database's log began, or at the snapshot if that
// is earlier: the entries after the snapshot bring its tables to the position. The caller calls end when it is done.
func seedOf(ctx context.Context, p place.Place, plan archive.Plan, progress func(seq, last dbaas.Seq)) (seed commitlog.Seed, end func(), err error) {
	h, err := archive.ReadHeader(ctx, p, plan.Snapshot.Name)
	if err != nil {
		return seed, nil, err
	}
	after, segments := plan.Trimmed, plan.Log
	if plan.Snapshot.Seq < after {
		after, segments = plan.Snapshot.Seq, plan.Replay
	}
	seed = commitlog.Seed{After: after}
	seed.Entries = func(add func(commitlog.Record) error) error {
		return stretch{segments, after, plan.Seq}.entries(ctx, p, func(e archive.Entry) (bool, error) {
			decoded, err := e.Decode(plan.Snapshot.Cluster)
			if err != nil || e.Seq > plan.Seq {
				return false, err
			}
			if progress != nil {
				progress(e.Seq, plan.Seq)
			}
			return true, add(commitlog.Record{Entry: decoded, Operations: e.Operations})
		})
	}
	if after == plan.Seq && after > 0 { // the archive has no entry for the log
		seed.After = after - 1
		seed.Entries = func(add func(commitlog.Record) error) error { return addPosition(add, &h) }
	}
	r, w := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, err := archive.ReadSnapshot(ctx, p, plan.Snapshot, w)
		_ = w.CloseWithError(err) // never fails, by its documentation.
	}()
	seed.Tables = r
	return seed, func() {
		_ = r.Close() // never fails, by its documentation.
		<-read
	}, nil
}

// addPosition adds an entry that changes nothing, so that the log ends at the position of the snapshot.
func addPosition(add func(commitlog.Record) error, h *archive.Header) error {
	none, err := wire.EncodeRecords(0, nil)
	if err != nil {
		return err
	}
	return add(commitlog.Record{Entry: dbaas.Entry{Seq: h.Last, Epoch: h.Epoch, At: h.LastAt}, Operations: none})
}

// stretch is the entries of an archive after a position, up to last. The segments have all of them.
type stretch struct {
	segments    []archive.Segment
	after, last dbaas.Seq
}

// entries calls each for the entries in order, until each returns more = false. Every segment is still read to its end,
// since only then is it known to be intact. If a segment is gone because the running system has merged it with others, the
// merged segment is read instead.
func (of stretch) entries(ctx context.Context, p place.Place, each func(archive.Entry) (more bool, err error)) error {
	segments, after, more := of.segments, of.after, true
	for len(segments) > 0 {
		s := segments[0]
		_, err := archive.ReadSegment(ctx, p, s, func(e archive.Entry) error {
			if e.Seq != after+1 || !more { // segments may overlap
				return nil
			}
			var err error
			if more, err = each(e); more {
				after = e.Seq
			}
			return err
		})
		switch {
		case err == nil:
			segments = segments[1:]
		case !errors.Is(err, place.ErrNotFound):
			return err
		default:
			c, failed := archive.Read(ctx, p, s.Cluster)
			if failed != nil {
				return failed
			}
			chain, reached := c.Chain(after)
			if reached < of.last || lists(c, s.Name) { // the entries are gone, or the list names a missing object.
				return err
			}
			segments = upTo(chain, of.last)
		}
	}
	return nil
}

// lists reports whether a catalog has the named object.
func lists(c *archive.Catalog, name string) bool {
	return slices.ContainsFunc(c.Segments, func(s archive.Segment) bool { return s.Name == name }) ||
		slices.ContainsFunc(c.Snapshots, func(s archive.Snapshot) bool { return s.Name == name })
}

// nearest adds to an error about bad objects which positions can be restored without them. Other errors stay as they are.
func nearest(c *archive.Catalog, seq dbaas.Seq, err error) error {
	bad, ok := errors.AsType[*archive.BadObjectError](err)
	if !ok {
		return err
	}
	c = c.Without(bad.Name)
	for _, name := range bad.Also {
		c = c.Without(name)
	}
	text := "nothing can be restored without it"
	if ranges := c.Ranges(); len(ranges) > 0 {
		text = "without it can be restored: " + around(ranges, seq)
	}
	return fmt.Errorf("%w; %s", err, text)
}

// around names the restorable positions nearest to seq.
func around(ranges []archive.Range, seq dbaas.Seq) string {
	before, after := "", ""
	for _, r := range ranges {
		switch {
		case r.First <= seq && seq <= r.Last:
			return fmt.Sprintf("position %d itself, once the object is moved away", seq)
		case r.Last < seq:
			before = fmt.Sprintf("up to position %d", r.Last)
		case after == "":
			after = fmt.Sprintf("from position %d on", r.First)
		}
	}
	return strings.Join(slices.DeleteFunc([]string{before, after}, func(s string) bool { return s == "" }), ", ")
}
