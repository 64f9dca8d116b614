package restore

import (
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
)

// Listed describes what an archive has of one cluster.
type Listed struct {
	Cluster dbaas.ClusterID `json:"cluster_id"`
	// Parent is the position that the cluster was restored from; nil if it was not restored.
	Parent *archive.Position `json:"parent,omitempty"`
	Ranges []Span            `json:"ranges"` // the restorable positions
	Gaps   []archive.Range   `json:"gaps"`
	Bytes  int64             `json:"bytes"`
	// Bad are the names of the bad objects that List found. List reads only cluster.json and a few headers.
	Bad []string `json:"bad"`
	// Others are names that do not follow the archive's format.
	Others []string `json:"others"`
}

// Span is a range of positions with the times of its ends. A time is zero at position 0, and if its object is bad.
type Span struct {
	archive.Range

	FirstAt time.Time `json:"first_at,omitzero"`
	LastAt  time.Time `json:"last_at,omitzero"`
}

// List returns what an archive has, by cluster; only of cluster want if that is not zero.
func List(ctx context.Context, p place.Place, want dbaas.ClusterID) ([]Listed, error) {
	p = &source{Place: p}
	ids, err := archive.Clusters(ctx, p)
	if err == nil && (!want.IsZero() || len(ids) == 0) {
		want, err = choose(ctx, p, want)
		ids = []dbaas.ClusterID{want}
	}
	if err != nil {
		return nil, err
	}
	var all []Listed
	for _, id := range ids {
		var l Listed
		if err = again(func() (err error) { l, err = list(ctx, p, id); return err }); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

func list(ctx context.Context, p place.Place, id dbaas.ClusterID) (Listed, error) {
	c, err := archive.Read(ctx, p, id)
	if err != nil {
		return Listed{}, err
	}
	l := Listed{Cluster: id, Ranges: []Span{}, Gaps: append([]archive.Range{}, c.Gaps()...), Bytes: c.Bytes, Bad: []string{}, Others: append([]string{}, c.Others...)}
	note, err := archive.ReadCluster(ctx, p, id)
	l.Parent = note.Parent
	if errors.Is(err, place.ErrNotFound) { // cluster.json is missing: the cluster is just beginning
		err = nil
	}
	if err = l.meet(err); err != nil {
		return l, err
	}
	for _, r := range c.Ranges() {
		s := Span{Range: r}
		for seq, at := range map[dbaas.Seq]*time.Time{r.First: &s.FirstAt, r.Last: &s.LastAt} {
			h, err := archive.ReadHeader(ctx, p, nameOf(c, seq))
			*at = h.LastAt
			if err = l.meet(err); err != nil {
				return l, err
			}
		}
		if r.First == r.Last {
			s.FirstAt = s.LastAt
		}
		l.Ranges = append(l.Ranges, s)
	}
	return l, nil
}

// meet records a bad object, and returns any other error.
func (l *Listed) meet(err error) error {
	bad, ok := errors.AsType[*archive.BadObjectError](err)
	if ok {
		l.Bad = append(l.Bad, bad.Name)
		return nil
	}
	return err
}
