package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive/place"
)

// The names of objects, below the cluster's id and a slash.
const (
	clusterName  = "cluster.json"
	writerName   = "writer.json"
	snapshotPart = "snapshot"
	logPart      = "log"
	seqDigits    = 20
)

// Snapshot is a snapshot by its name.
type Snapshot struct {
	Cluster dbaas.ClusterID
	Seq     dbaas.Seq
	place.Object
}

// Segment is a segment of the log by its name: the entries from First to Last.
type Segment struct {
	Cluster     dbaas.ClusterID
	First, Last dbaas.Seq
	Writer      WriterID
	place.Object
}

// SnapshotName returns the name of the snapshot of a position.
func SnapshotName(cluster dbaas.ClusterID, seq dbaas.Seq) string {
	return fmt.Sprintf("%s/%s/%0*d", cluster, snapshotPart, seqDigits, seq)
}

// SegmentName returns the name of a segment.
func SegmentName(cluster dbaas.ClusterID, first, last dbaas.Seq, writer WriterID) string {
	return fmt.Sprintf("%s/%s/%0*d-%0*d-%s", cluster, logPart, seqDigits, first, seqDigits, last, writer)
}

// Catalog lists the objects of one cluster at one moment. It is built from their names alone.
type Catalog struct {
	Cluster dbaas.ClusterID
	// Snapshots are in the order of their positions.
	Snapshots []Snapshot
	// Segments are in the order of First; of those with the same First, the longest comes first.
	Segments []Segment
	// Others are names that do not follow the format.
	Others []string
	// Bytes is the size of all objects.
	Bytes int64
}

// Clusters returns the ids of all clusters that have objects at a place, in their order.
func Clusters(ctx context.Context, p place.Place) ([]dbaas.ClusterID, error) {
	objects, err := p.List(ctx, "")
	var ids []dbaas.ClusterID
	for i := range objects {
		var id dbaas.ClusterID
		first, _, below := strings.Cut(objects[i].Name, "/")
		if below && id.UnmarshalText([]byte(first)) == nil && !id.IsZero() && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Read returns the catalog of a cluster. It is empty if the cluster has no objects.
func Read(ctx context.Context, p place.Place, cluster dbaas.ClusterID) (*Catalog, error) {
	objects, err := p.List(ctx, cluster.String()+"/")
	if err != nil {
		return nil, err
	}
	c := &Catalog{Cluster: cluster}
	for _, o := range objects {
		c.add(o)
	}
	slices.SortFunc(c.Snapshots, func(a, b Snapshot) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortFunc(c.Segments, func(a, b Segment) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(b.Last, a.Last), cmp.Compare(a.Name, b.Name))
	})
	return c, nil
}

func (c *Catalog) add(o place.Object) {
	c.Bytes += o.Bytes
	name := strings.TrimPrefix(o.Name, c.Cluster.String()+"/")
	kind, rest, _ := strings.Cut(name, "/")
	switch kind {
	case clusterName, writerName:
		return
	case snapshotPart:
		if seq, ok := parseSeq(rest); ok {
			c.Snapshots = append(c.Snapshots, Snapshot{Cluster: c.Cluster, Seq: seq, Object: o})
			return
		}
	case logPart:
		if s, ok := parseSegment(rest); ok {
			s.Cluster, s.Object = c.Cluster, o
			c.Segments = append(c.Segments, s)
			return
		}
	}
	c.Others = append(c.Others, o.Name)
}

func parseSeq(text string) (dbaas.Seq, bool) {
	seq, err := strconv.ParseUint(text, 10, 63)
	return dbaas.Seq(seq), err == nil && len(text) == seqDigits
}

func parseSegment(text string) (s Segment, ok bool) {
	parts := strings.Split(text, "-")
	if len(parts) != 3 || s.Writer.UnmarshalText([]byte(parts[2])) != nil {
		return s, false
	}
	first, okFirst := parseSeq(parts[0])
	last, okLast := parseSeq(parts[1])
	s.First, s.Last = first, last
	return s, okFirst && okLast && 0 < first && first <= last
}

// Without returns the catalog without the named object. It is used to exclude a bad object.
func (c *Catalog) Without(name string) *Catalog {
	less := *c
	less.Snapshots = slices.DeleteFunc(slices.Clone(c.Snapshots), func(s Snapshot) bool { return s.Name == name })
	less.Segments = slices.DeleteFunc(slices.Clone(c.Segments), func(s Segment) bool { return s.Name == name })
	return &less
}

// Newest returns the newest position that a segment or a snapshot has; ok is false if there is none.
func (c *Catalog) Newest() (seq dbaas.Seq, ok bool) {
	for i := range c.Segments {
		seq, ok = max(seq, c.Segments[i].Last), true
	}
	if n := len(c.Snapshots); n > 0 {
		seq, ok = max(seq, c.Snapshots[n-1].Seq), true
	}
	return seq, ok
}

// Chain returns the segments that continue from a position without a hole, as far as they go, and the position that
// they reach. Segments may overlap: the reader skips entries that it already has.
func (c *Catalog) Chain(after dbaas.Seq) (chain []Segment, reached dbaas.Seq) {
	reached = after
	var best *Segment
	for i := range c.Segments {
		s := &c.Segments[i]
		if best != nil && s.First > reached+1 { // no further segment continues from reached.
			chain, reached, best = append(chain, *best), best.Last, nil
		}
		if s.First > reached+1 {
			break
		}
		if s.Last > reached && (best == nil || s.Last > best.Last) {
			best = s
		}
	}
	if best != nil {
		chain, reached = append(chain, *best), best.Last
	}
	return chain, reached
}

// Range is a range of positions, both ends included.
type Range struct {
	First dbaas.Seq `json:"first"`
	Last  dbaas.Seq `json:"last"`
}

// Ranges returns the positions that can be restored, oldest first. What lies between two ranges is a gap, as
// is what the archive has after the last range.
func (c *Catalog) Ranges() []Range {
	var ranges []Range
	for i := range c.Snapshots {
		seq := c.Snapshots[i].Seq
		if n := len(ranges); n > 0 && seq <= ranges[n-1].Last {
			continue
		}
		_, last := c.Chain(seq)
		if n := len(ranges); n > 0 && seq == ranges[n-1].Last+1 {
			ranges[n-1].Last = last
			continue
		}
		ranges = append(ranges, Range{First: seq, Last: last})
	}
	return ranges
}

// Gaps returns the ranges that cannot be restored between the oldest restorable position and the newest position that
// a segment or a snapshot has. There are none if nothing can be restored.
func (c *Catalog) Gaps() []Range {
	var gaps []Range
	ranges := c.Ranges()
	newest, _ := c.Newest()
	for i, r := range ranges {
		last := newest
		if i+1 < len(ranges) {
			last = ranges[i+1].First - 1
		}
		if last > r.Last {
			gaps = append(gaps, Range{First: r.Last + 1, Last: last})
		}
	}
	return gaps
}
