package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/archive/place"
)

// Plan says how to restore the database of position Seq. Take the snapshot's tables, then apply the entries of Replay
// after Snapshot.Seq up to Seq. The entries of Log after Trimmed up to Seq become the log with its stored answers.
type Plan struct {
	Seq      dbaas.Seq
	Snapshot Snapshot
	Replay   []Segment
	// Trimmed is the position up to which the log was trimmed when the database was at Seq. If the archive lacks entries
	// after that, Trimmed is the last position that it lacks.
	Trimmed dbaas.Seq
	Log     []Segment
}

// NotRestorableError says that position Seq cannot be restored. Before and After are the nearest ranges that can; nil
// if there is none.
type NotRestorableError struct {
	Seq           dbaas.Seq
	Before, After *Range
}

func (e *NotRestorableError) Error() string {
	text := fmt.Sprintf("position %d cannot be restored from the archive", e.Seq)
	if e.Before != nil {
		text += fmt.Sprintf("; the nearest before it is %d", e.Before.Last)
	}
	if e.After != nil {
		text += fmt.Sprintf("; the nearest after it is %d", e.After.First)
	}
	return text
}

// Plan returns how to restore the database of a position. It reads the header of one object. The error is a
// *NotRestorableError if the archive lacks objects that the position needs.
func (c *Catalog) Plan(ctx context.Context, p place.Place, seq dbaas.Seq) (Plan, error) {
	plan := Plan{Seq: seq}
	found := false
	for i := len(c.Snapshots) - 1; i >= 0 && !found; i-- {
		if c.Snapshots[i].Seq > seq {
			continue
		}
		plan.Snapshot = c.Snapshots[i]
		var reached dbaas.Seq
		plan.Replay, reached = c.upTo(plan.Snapshot.Seq, seq)
		found = reached >= seq
	}
	if !found {
		return plan, c.notRestorable(seq)
	}
	trimmed, err := c.trimmedAt(ctx, p, &plan)
	if err != nil {
		return plan, err
	}
	plan.Trimmed, plan.Log = c.longestTo(trimmed, seq)
	return plan, nil
}

// upTo returns the part of the chain after a position that is needed to reach seq, and the position that the whole
// chain reaches.
func (c *Catalog) upTo(after, seq dbaas.Seq) ([]Segment, dbaas.Seq) {
	chain, reached := c.Chain(after)
	for i := range chain {
		if i > 0 && chain[i-1].Last >= seq || after >= seq {
			return chain[:i], reached
		}
	}
	return chain, reached
}

func (c *Catalog) notRestorable(seq dbaas.Seq) error {
	e := &NotRestorableError{Seq: seq}
	for _, r := range c.Ranges() {
		if r.Last < seq {
			e.Before = &r
		} else if r.First > seq && e.After == nil {
			e.After = &r
		}
	}
	return e
}

// trimmedAt returns the position up to which the log was trimmed when the database was at the plan's position.
func (c *Catalog) trimmedAt(ctx context.Context, p place.Place, plan *Plan) (dbaas.Seq, error) {
	name := plan.Snapshot.Name
	if n := len(plan.Replay); n > 0 {
		name = plan.Replay[n-1].Name
	}
	h, err := ReadHeader(ctx, p, name)
	return min(h.Trimmed, plan.Seq), err
}

// longestTo returns the longest chain that begins at trimmed or later and has all entries up to seq, and the position
// after which it begins.
func (c *Catalog) longestTo(trimmed, seq dbaas.Seq) (dbaas.Seq, []Segment) {
	for trimmed < seq {
		chain, reached := c.upTo(trimmed, seq)
		if reached >= seq {
			return trimmed, chain
		}
		next := seq
		for i := range c.Segments { // find the first segment behind the hole.
			if first := c.Segments[i].First; first > reached+1 {
				next = min(next, first-1)
				break
			}
		}
		trimmed = next
	}
	return seq, nil
}

// ErrBeforeAll is returned by SeqAt for a time before the oldest position that can be restored.
var ErrBeforeAll = errors.New("the archive begins after this time")

// SeqAt returns the position of the last entry that was committed at or before a time. It reads some headers and at
// most one segment. The error is ErrBeforeAll, or a *NotRestorableError if that entry may lie in a gap. Bad objects are left
// out, and more is read, as long as the position is certain without them. Otherwise the error is a *BadObjectError
// with all of them, and SeqAt returns the first position that may need one of them; 0 if not known.
func (c *Catalog) SeqAt(ctx context.Context, p place.Place, at time.Time) (dbaas.Seq, error) {
	newest, _ := c.Newest() // the names of bad objects count: they show which entries exist.
	var failed *BadObjectError
	for good := c; ; {
		seq, err := good.seqAt(ctx, p, at, newest)
		bad, ok := errors.AsType[*BadObjectError](err)
		if ok {
			if failed == nil {
				failed = bad
			} else {
				failed.Also = append(failed.Also, bad.Name)
			}
			good = good.Without(bad.Name)
			continue
		}
		if failed == nil || err == nil {
			return seq, err
		}
		if not, ok := errors.AsType[*NotRestorableError](err); ok {
			return not.Seq, failed
		}
		if errors.Is(err, ErrBeforeAll) {
			return 0, failed
		}
		return 0, err
	}
}

// seqAt is SeqAt for the objects of a catalog. The archive has entries up to newest.
func (c *Catalog) seqAt(ctx context.Context, p place.Place, at time.Time, newest dbaas.Seq) (dbaas.Seq, error) {
	for _, r := range slices.Backward(c.Ranges()) {
		seq, err := c.seqWithin(ctx, p, r, at)
		if errors.Is(err, ErrBeforeAll) {
			continue
		}
		if err == nil && seq == r.Last && seq < newest { // the entries of the gap may be older than at.
			return 0, c.notRestorable(seq + 1)
		}
		return seq, err
	}
	return 0, ErrBeforeAll
}

// seqWithin is SeqAt for one range.
func (c *Catalog) seqWithin(ctx context.Context, p place.Place, r Range, at time.Time) (dbaas.Seq, error) {
	var failed error
	// A range may have a snapshot in place of a segment, so the chain begins at the newest snapshot that is not after at.
	within := slices.DeleteFunc(slices.Clone(c.Snapshots), func(s Snapshot) bool { return s.Seq < r.First || s.Seq > r.Last })
	after, _ := slices.BinarySearchFunc(within, at, func(s Snapshot, at time.Time) int {
		h, unread := ReadHeader(ctx, p, s.Name)
		failed = errors.Join(failed, unread)
		if h.LastAt.After(at) {
			return 1
		}
		return -1
	})
	if failed == nil && after == 0 {
		failed = ErrBeforeAll
	}
	if failed != nil {
		return 0, failed
	}
	from := within[after-1].Seq
	chain, _ := c.Chain(from)
	n, _ := slices.BinarySearchFunc(chain, at, func(s Segment, at time.Time) int { // n: the first segment that begins after at.
		begins, unread := ReadHeader(ctx, p, s.Name)
		failed = errors.Join(failed, unread)
		if begins.FirstAt.After(at) {
			return 1
		}
		return -1
	})
	if failed != nil || n == 0 {
		return from, failed
	}
	seq := from
	_, err := ReadSegment(ctx, p, chain[n-1], func(e Entry) error {
		if !e.At.After(at) {
			seq = max(seq, e.Seq)
		}
		return nil
	})
	return seq, err
}
