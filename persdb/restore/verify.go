package restore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/commitlog"
)

// Report is the result of Verify.
type Report struct {
	Cluster   dbaas.ClusterID `json:"cluster_id"`
	Objects   int             `json:"objects"`
	Positions []Drilled       `json:"positions"`
	Gaps      []archive.Range `json:"gaps"`
	// Bad has a line for each bad object, for each snapshot whose tables come out with other hashes than persdb computed,
	// and for each position that cannot be restored.
	Bad []string `json:"bad"`
}

// Drilled is a position that was restored.
type Drilled struct {
	Seq      dbaas.Seq `json:"seq"`
	At       time.Time `json:"at,omitzero"`
	Snapshot dbaas.Seq `json:"snapshot"` // the tables come from this snapshot and the entries after it
	Hash     string    `json:"hash"`     // SHA-256 of the names and content hashes of all tables, in the order of the names
}

// drill is one run of Verify.
type drill struct {
	Report

	cfg  commitlog.Config
	p    place.Place
	c    *archive.Catalog
	tell func(what string)
}

// Verify checks the archive of a cluster by restoring from it. cluster may be zero if there is only one. Verify reads
// every object. It makes the tables of each snapshot, from its file and from the snapshot before it, and compares their
// hashes. Last it restores the newest position and opens it as persdb does. It works in a folder of its own below
// cfg.Dir and removes that at the end. tell is called before each step.
//
// The report lists what is bad. An error means that the check itself failed, for example that the archive could not be
// read.
func Verify(ctx context.Context, cfg commitlog.Config, p place.Place, cluster dbaas.ClusterID, tell func(what string)) (report Report, err error) {
	id, err := choose(ctx, p, cluster)
	if err != nil {
		return Report{}, err
	}
	d := &drill{Report: Report{Cluster: id, Positions: []Drilled{}, Bad: []string{}}, cfg: cfg, p: p, tell: tell}
	if d.c, err = archive.Read(ctx, p, id); err != nil {
		return d.Report, err
	}
	if d.cfg.Dir, err = os.MkdirTemp(cfg.Dir, "rideshare-verify-*"); err != nil {
		return d.Report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.cfg.Dir)) }()
	if err = d.objects(ctx); err != nil {
		return d.Report, err
	}
	d.Gaps = append([]archive.Range{}, d.c.Gaps()...)
	if err = d.snapshots(ctx); err != nil {
		return d.Report, err
	}
	return d.Report, d.newest(ctx)
}

// objects reads every object to its end. Bad objects are excluded from the later steps.
func (d *drill) objects(ctx context.Context) error {
	all := d.c
	_, err := archive.ReadCluster(ctx, d.p, all.Cluster)
	if errors.Is(err, place.ErrNotFound) {
		err = nil
	}
	if err = d.meet(err); err != nil {
		return err
	}
	for i := range all.Snapshots {
		d.tell("read " + all.Snapshots[i].Name)
		_, err = archive.ReadSnapshot(ctx, d.p, all.Snapshots[i], io.Discard)
		if err = d.meet(err); err != nil {
			return err
		}
	}
	for i := range all.Segments {
		d.tell("read " + all.Segments[i].Name)
		_, err = archive.ReadSegment(ctx, d.p, all.Segments[i], func(archive.Entry) error { return nil })
		if err = d.meet(err); err != nil {
			return err
		}
	}
	d.Objects = len(all.Snapshots) + len(all.Segments)
	return nil
}

// meet records and excludes a bad object, and returns any other error.
func (d *drill) meet(err error) error {
	bad, ok := errors.AsType[*archive.BadObjectError](err)
	if !ok {
		return err
	}
	d.Bad = append(d.Bad, bad.Error())
	d.c = d.c.Without(bad.Name)
	return nil
}

// snapshots makes the tables of each snapshot, from its file and from the snapshot before it, and compares their hashes
// with those that persdb computed.
func (d *drill) snapshots(ctx context.Context) error {
	for i := range d.c.Snapshots {
		s := d.c.Snapshots[i]
		h, err := archive.ReadHeader(ctx, d.p, s.Name)
		if err != nil {
			return err
		}
		plans := []archive.Plan{{Seq: s.Seq, Snapshot: s, Trimmed: s.Seq}}
		if i > 0 {
			before := d.c.Snapshots[i-1]
			if chain, reached := d.c.Chain(before.Seq); reached >= s.Seq {
				plans = append(plans, archive.Plan{Seq: s.Seq, Snapshot: before, Replay: upTo(chain, s.Seq), Trimmed: s.Seq})
			}
		}
		for _, plan := range plans {
			tables, err := d.restore(ctx, plan, h.LastAt)
			if err != nil {
				return err
			}
			if tables != nil && !maps.Equal(tables, h.Tables) {
				d.Bad = append(d.Bad, fmt.Sprintf("%s is bad: the tables made from snapshot %d have other rows than persdb had", s.Name, plan.Snapshot.Seq))
			}
		}
	}
	return nil
}

func upTo(chain []archive.Segment, seq dbaas.Seq) []archive.Segment {
	return slices.DeleteFunc(slices.Clone(chain), func(s archive.Segment) bool { return s.First > seq })
}

// newest restores the newest position and opens it as persdb does.
func (d *drill) newest(ctx context.Context) error {
	ranges := d.c.Ranges()
	if len(ranges) == 0 {
		d.Bad = append(d.Bad, "nothing can be restored")
		return nil
	}
	seq := ranges[len(ranges)-1].Last
	plan, err := d.c.Plan(ctx, d.p, seq)
	if err != nil {
		return err
	}
	h, err := archive.ReadHeader(ctx, d.p, nameOf(d.c, seq))
	if err != nil {
		return err
	}
	_, err = d.restore(ctx, plan, h.LastAt)
	return err
}

// restore makes the database of a position, records the position, and returns the hashes of its tables. If the position
// cannot be restored, restore records that in Bad and returns nil.
func (d *drill) restore(ctx context.Context, plan archive.Plan, at time.Time) (map[string]string, error) {
	d.tell(fmt.Sprintf("restore position %d from snapshot %d", plan.Seq, plan.Snapshot.Seq))
	tables, err := d.hashes(ctx, plan)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if code := dbaas.CodeOf(err); err != nil && (code == dbaas.CodeFull || code == dbaas.CodeUnavailable) {
		return nil, err // a fault of this machine, not of the archive
	}
	if err != nil {
		d.Bad = append(d.Bad, fmt.Sprintf("position %d cannot be restored from %s: %v", plan.Seq, plan.Snapshot.Name, err))
		return nil, nil //nolint:nilnil // it is noted.
	}
	d.Positions = append(d.Positions, Drilled{Seq: plan.Seq, At: at, Snapshot: plan.Snapshot.Seq, Hash: hashOf(tables)})
	return tables, nil
}

// hashes makes a data folder, opens it as persdb does, returns the hashes of its tables, and removes the folder.
func (d *drill) hashes(ctx context.Context, plan archive.Plan) (tables map[string]string, err error) {
	seed, end, err := seedOf(ctx, d.p, plan, nil)
	if err != nil {
		return nil, err
	}
	defer end()
	if seed.Epoch, err = newestEpoch(ctx, d.p); err != nil {
		return nil, err
	}
	cfg := d.cfg
	cfg.Dir = filepath.Join(d.cfg.Dir, "data")
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.Dir)) }()
	if _, err = build(ctx, cfg, seed, nil); err != nil {
		return nil, err
	}
	cfg.TrimEvery = -1
	s, err := commitlog.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	h, err := s.Hashes(ctx)
	if err == nil && len(h.Damaged) > 0 {
		err = fmt.Errorf("tables %s have other rows than those that were committed", strings.Join(h.Damaged, ", "))
	}
	return h.Tables, errors.Join(err, s.Close())
}

func hashOf(tables map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		_, _ = fmt.Fprintf(sum, "%s=%s\n", name, tables[name]) // a hash never fails, by its documentation.
	}
	return hex.EncodeToString(sum.Sum(nil))
}
