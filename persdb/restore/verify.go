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
	"syscall"
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
	// for each position that cannot be restored, and for a gap that no snapshot has ended.
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
	p    *source
	c    *archive.Catalog // without bad objects
	bad  []string         // their names
	read map[string]bool  // the names of the objects that were read
	tell func(what string)
}

// Verify checks the archive of a cluster by restoring from it. cluster may be zero if there is only one. Verify reads every
// object. It makes the tables of each snapshot, from its file and from the snapshot before it, and compares their hashes.
// Finally it restores the newest position and opens it as persdb does. It works in a folder of its own below cfg.Dir and
// removes that folder at the end. tell is called before each step. The running system may merge and remove objects during
// the check.
//
// The report lists what is bad. An error means that the check itself failed, for example that the archive could not be
// read.
func Verify(ctx context.Context, cfg commitlog.Config, p place.Place, cluster dbaas.ClusterID, tell func(what string)) (report Report, err error) {
	from := &source{Place: p}
	id, err := choose(ctx, from, cluster)
	if err != nil {
		return Report{}, err
	}
	d := &drill{Report: Report{Cluster: id, Positions: []Drilled{}, Bad: []string{}}, cfg: cfg, p: from, read: map[string]bool{}, tell: tell}
	if err = d.list(ctx); err != nil {
		return d.Report, err
	}
	if d.cfg.Dir, err = os.MkdirTemp(cfg.Dir, "rideshare-verify-*"); err != nil {
		return d.Report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.cfg.Dir)) }()
	if err = d.objects(ctx); err != nil {
		return d.Report, err
	}
	d.gaps()
	if err = d.snapshots(ctx); err != nil {
		return d.Report, err
	}
	return d.Report, d.newest(ctx)
}

// list reads which objects the archive has. Objects that were found bad are left out.
func (d *drill) list(ctx context.Context) (err error) {
	if d.c, err = archive.Read(ctx, d.p, d.Cluster); err != nil {
		return err
	}
	for _, name := range d.bad {
		d.c = d.c.Without(name)
	}
	return nil
}

// isGone reports whether err says that an object is missing, and a new list lacks that object too: the running system has
// merged or removed it. The drill goes on with the new list. Any other err is returned.
func (d *drill) isGone(ctx context.Context, name string, err error) (bool, error) {
	if !errors.Is(err, place.ErrNotFound) {
		return false, err
	}
	if failed := d.list(ctx); failed != nil {
		return false, failed
	}
	if lists(d.c, name) {
		return false, err
	}
	return true, nil
}

// objects reads every object to its end. Bad objects are excluded from the later steps. If the running system has removed an
// object, objects lists the archive again and continues.
func (d *drill) objects(ctx context.Context) error {
	_, err := archive.ReadCluster(ctx, d.p, d.Cluster)
	if err = d.meetIfThere(err); err == nil {
		_, err = archive.ReadWriter(ctx, d.p, d.Cluster)
		err = d.meetIfThere(err)
	}
	for more := true; more && err == nil; {
		more, err = d.unread(ctx)
	}
	d.Objects = len(d.read)
	return err
}

// unread reads the objects of the list that were not read. It ends early, with more = true, at an object that is gone.
func (d *drill) unread(ctx context.Context) (more bool, err error) {
	snapshots, segments := d.c.Snapshots, d.c.Segments
	for i := 0; i < len(snapshots) && !more && err == nil; i++ {
		more, err = d.object(ctx, snapshots[i].Name, func() error {
			_, failed := archive.ReadSnapshot(ctx, d.p, snapshots[i], io.Discard)
			return failed
		})
	}
	for i := 0; i < len(segments) && !more && err == nil; i++ {
		more, err = d.object(ctx, segments[i].Name, func() error {
			_, failed := archive.ReadSegment(ctx, d.p, segments[i], func(archive.Entry) error { return nil })
			return failed
		})
	}
	return more, err
}

// object reads an object, unless it was read. It reports whether the object is gone.
func (d *drill) object(ctx context.Context, name string, read func() error) (gone bool, err error) {
	if d.read[name] {
		return false, nil
	}
	d.tell("read " + name)
	if gone, err = d.isGone(ctx, name, d.meet(read())); !gone {
		d.read[name] = true
	}
	return gone, err
}

// meetIfThere is meet for an object that may be missing.
func (d *drill) meetIfThere(err error) error {
	if errors.Is(err, place.ErrNotFound) {
		return nil
	}
	return d.meet(err)
}

// meet records and excludes a bad object, and returns any other error.
func (d *drill) meet(err error) error {
	bad, ok := errors.AsType[*archive.BadObjectError](err)
	if !ok {
		return err
	}
	d.Bad, d.bad = append(d.Bad, bad.Error()), append(d.bad, bad.Name)
	d.c = d.c.Without(bad.Name)
	return nil
}

// gaps records the gaps. A gap that reaches the newest position is bad: no snapshot has ended it.
func (d *drill) gaps() {
	d.Gaps = append([]archive.Range{}, d.c.Gaps()...)
	newest, _ := d.c.Newest()
	if n := len(d.Gaps); n > 0 && d.Gaps[n-1].Last == newest {
		d.Bad = append(d.Bad, fmt.Sprintf("nothing after position %d can be restored", d.Gaps[n-1].First-1))
	}
}

// snapshots makes the tables of each snapshot, from its file and from the snapshot before it, and compares their hashes
// with those that persdb computed.
func (d *drill) snapshots(ctx context.Context) error {
	c := d.c
	for i := range c.Snapshots {
		s := c.Snapshots[i]
		h, err := archive.ReadHeader(ctx, d.p, s.Name)
		gone, err := d.isGone(ctx, s.Name, err)
		if err != nil {
			return err
		}
		if gone {
			continue
		}
		plans := []archive.Plan{{Seq: s.Seq, Snapshot: s, Trimmed: s.Seq}}
		if i > 0 {
			before := c.Snapshots[i-1]
			if chain, reached := c.Chain(before.Seq); reached >= s.Seq {
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
	plan, at, err := d.newestPlan(ctx)
	if errors.Is(err, place.ErrNotFound) { // merged since the list was made
		if err = d.list(ctx); err == nil {
			plan, at, err = d.newestPlan(ctx)
		}
	}
	if errors.Is(err, errNothing) {
		d.Bad = append(d.Bad, err.Error())
		return nil
	}
	if err == nil {
		_, err = d.restore(ctx, plan, at)
	}
	return err
}

var errNothing = errors.New("nothing can be restored")

// newestPlan returns the plan for the newest position of the list, and the time of that position.
func (d *drill) newestPlan(ctx context.Context) (archive.Plan, time.Time, error) {
	ranges := d.c.Ranges()
	if len(ranges) == 0 {
		return archive.Plan{}, time.Time{}, errNothing
	}
	seq := ranges[len(ranges)-1].Last
	plan, err := d.c.Plan(ctx, d.p, seq)
	if err != nil {
		return plan, time.Time{}, err
	}
	h, err := archive.ReadHeader(ctx, d.p, nameOf(d.c, seq))
	return plan, h.LastAt, err
}

// restore makes the database of a position, records the position, and returns the hashes of its tables. If the position
// cannot be restored, restore records that in Bad and returns nil. It also returns nil if the running system has removed
// the plan's snapshot.
func (d *drill) restore(ctx context.Context, plan archive.Plan, at time.Time) (map[string]string, error) {
	d.tell(fmt.Sprintf("restore position %d from snapshot %d", plan.Seq, plan.Snapshot.Seq))
	tables, err := d.hashes(ctx, plan)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	gone, err := d.isGone(ctx, plan.Snapshot.Name, err)
	if gone || err != nil && d.p.fault() != nil {
		return nil, err // the place failed; that says nothing of its objects
	}
	if ofMachine(err) {
		return nil, err
	}
	if err != nil {
		d.Bad = append(d.Bad, fmt.Sprintf("position %d cannot be restored from %s: %v", plan.Seq, plan.Snapshot.Name, err))
		return nil, nil //nolint:nilnil // it is noted.
	}
	d.Positions = append(d.Positions, Drilled{Seq: plan.Seq, At: at, Snapshot: plan.Snapshot.Seq, Hash: hashOf(tables)})
	return tables, nil
}

// ofMachine reports whether err is a fault of this machine, not of the archive: the disk of the drill is full, or fails.
func ofMachine(err error) bool {
	_, failed := errors.AsType[syscall.Errno](err)
	return failed || errors.Is(err, &dbaas.Error{Code: dbaas.CodeFull}) || errors.Is(err, &dbaas.Error{Code: dbaas.CodeUnavailable})
}

// hashes makes a data folder, opens it as persdb does, returns the hashes of its tables, and removes the folder.
func (d *drill) hashes(ctx context.Context, plan archive.Plan) (tables map[string]string, err error) {
	seed, end, err := seedOf(ctx, d.p, plan, nil)
	if err != nil {
		return nil, err
	}
	defer end()
	err = again(func() (err error) {
		seed.Epoch, err = newestEpoch(ctx, d.p)
		return err
	})
	if err != nil {
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
