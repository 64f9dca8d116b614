package restore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/archivetest"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/restore"
)

// hooked is a place that calls opening before the open numbered at of an object whose name contains part, and replaces
// the body of that object by what body returns. Numbers begin with 1; at 0 stands for each open.
type hooked struct {
	place.Place

	part    string
	at      int64
	opening func()
	body    func(ctx context.Context, body io.Reader) io.Reader

	opens atomic.Int64
}

func (h *hooked) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if !strings.Contains(name, h.part) || h.opens.Add(1) != h.at && h.at > 0 {
		return h.Place.Open(ctx, name)
	}
	if h.opening != nil {
		h.opening()
	}
	body, err := h.Place.Open(ctx, name)
	if err != nil || h.body == nil {
		return body, err
	}
	return struct {
		io.Reader
		io.Closer
	}{h.body(ctx, body), body}, nil
}

// failing is a body that ends with an error after its first bytes.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// silent is a body from which nothing comes until ctx ends.
type silent struct{ ctx context.Context }

func (s silent) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, context.Cause(s.ctx)
}

// tidied returns a copy of the run's archive. At the open numbered at of a segment, all segments of it are merged and
// removed, and so are all snapshots but the newest if old is set.
func (r *run) tidied(t *testing.T, at int64, old bool) *hooked {
	t.Helper()
	c, dir, first := r.catalog(t), t.TempDir(), r.p
	copyArchive(t, first, dir)
	p := place.Folder(dir)
	return &hooked{Place: p, part: "/log/", at: at, opening: func() {
		r.p, r.seq = p, 0
		r.segmentAfter(t, 0)
		r.p = first
		var names []string
		for i := range c.Segments {
			names = append(names, c.Segments[i].Name)
		}
		for i := range c.Snapshots[1:] {
			if old {
				names = append(names, c.Snapshots[i].Name)
			}
		}
		for _, name := range names {
			if err := p.Remove(t.Context(), name); err != nil {
				t.Error(err)
			}
		}
	}}
}

// At whatever moment of a restore or a list the running system merges segments, the restore and the list succeed.
func TestFromArchive_MergedMeanwhile(t *testing.T) {
	t.Parallel()
	r := filled(t)
	at := int64(1)
	for ; ; at++ {
		p := r.tidied(t, at, false)
		made, err := restore.FromArchive(t.Context(), in(filepath.Join(t.TempDir(), "data")), p, restore.Want{At: new(r.states[6].at)})
		if err != nil || made.Seq != 6 {
			t.Errorf("merged at open %d: got %+v, %v, want position 6", at, made, err)
		}
		if p.opens.Load() < at {
			break
		}
	}
	if at < 8 {
		t.Errorf("the segments were merged at %d moments, want one for each of the 6 segments at least", at-1)
	}
	for at := range int64(2) {
		if got, err := restore.List(t.Context(), r.tidied(t, at+1, false), dbaas.ClusterID{}); err != nil || len(got) != 1 || len(got[0].Bad) > 0 {
			t.Errorf("list: got %+v, %v", got, err)
		}
	}
}

// A segment that is listed and missing all the same ends a restore.
func TestFromArchive_ListedAndMissing(t *testing.T) {
	t.Parallel()
	r := filled(t)
	p := &hooked{Place: r.p, part: "/log/", at: 4}
	p.opening = func() { p.Place = absent{r.p} }
	if made, err := restore.FromArchive(t.Context(), in(filepath.Join(t.TempDir(), "data")), p, restore.Want{}); !errors.Is(err, place.ErrNotFound) {
		t.Errorf("got %+v, %v, want ErrNotFound", made, err)
	}
}

// absent is a place that lists objects and has none.
type absent struct{ place.Place }

func (absent) Open(context.Context, string) (io.ReadCloser, error) { return nil, place.ErrNotFound }

// At whatever moment of a drill the running system merges segments and removes snapshots, the drill finds nothing bad.
func TestVerify_TidiedMeanwhile(t *testing.T) {
	t.Parallel()
	r := filled(t)
	r.snapshot(t)
	for at := int64(1); ; at++ {
		p := r.tidied(t, at, at%2 == 0)
		report := verify(t, p)
		if n := len(report.Positions); n == 0 || report.Positions[n-1].Seq != 6 || len(report.Bad)+len(report.Gaps) > 0 {
			t.Errorf("tidied at open %d: got %+v, want nothing bad, and position 6", at, report)
		}
		if p.opens.Load() < at {
			break
		}
	}
}

// A fault of the place in any step of a drill is the drill's error. The report says nothing bad of the archive.
func TestVerify_PlaceFails_IsNoDamage(t *testing.T) {
	t.Parallel()
	r := filled(t)
	reset := errors.New("connection reset")
	for at := int64(3); ; at++ { // the first two opens are those of cluster.json and writer.json, which are missing
		p := &hooked{Place: r.p, at: at, body: func(_ context.Context, body io.Reader) io.Reader {
			return io.MultiReader(io.LimitReader(body, 100), failing{reset})
		}}
		report, err := restore.Verify(t.Context(), in(t.TempDir()), p, dbaas.ClusterID{}, func(string) {})
		if p.opens.Load() < at {
			break
		}
		if !errors.Is(err, reset) || len(report.Bad) > 0 {
			t.Errorf("open %d fails: got %v, %v, want the place's error and nothing bad", at, report.Bad, err)
		}
	}
}

// A place that stops in the middle of an answer ends a restore, a list and a drill within minutes. No folder is left.
func TestSilentPlace_IsGivenUp(t *testing.T) {
	t.Parallel()
	r := filled(t)
	within := func(what string, try func(ctx context.Context, dir string) error) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			parent, began := t.TempDir(), time.Now()
			err := try(ctx, parent)
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 3*time.Minute {
				t.Errorf("%s: got %v after %v, want an error within minutes", what, err, took)
			}
			if left := names(t, parent); len(left) > 0 {
				t.Errorf("%s: left behind: %v", what, left)
			}
		})
	}
	stops := func(at int64) *hooked {
		return &hooked{Place: r.p, at: at, body: func(ctx context.Context, body io.Reader) io.Reader {
			return io.MultiReader(io.LimitReader(body, 100), silent{ctx})
		}}
	}
	hangs := &archivetest.Unruly{Place: r.p}
	hangs.Set(archivetest.Behaviour{Hangs: true})
	afterList := &hooked{Place: &archivetest.Unruly{Place: r.p}, at: 1}
	afterList.opening = func() { afterList.Place = hangs }
	for what, p := range map[string]place.Place{
		"listing": hangs, "opening": afterList, "header": stops(1), "snapshot": stops(4), "segment": stops(5),
	} {
		within("restore, "+what, func(ctx context.Context, dir string) error {
			_, err := restore.FromArchive(ctx, in(filepath.Join(dir, "data")), p, restore.Want{})
			return err
		})
	}
	for what, p := range map[string]place.Place{"listing": hangs, "object": stops(2)} {
		within("list, "+what, func(ctx context.Context, _ string) error {
			_, err := restore.List(ctx, p, dbaas.ClusterID{})
			return err
		})
	}
	for what, p := range map[string]place.Place{"listing": hangs, "object": stops(3)} {
		within("verify, "+what, func(ctx context.Context, dir string) error {
			_, err := restore.Verify(ctx, in(dir), p, dbaas.ClusterID{}, func(string) {})
			return err
		})
	}
}

// A snapshot whose bytes stop coming behind its header is no damaged file: the error names the object.
func TestFromArchive_CutConnection_IsNoDamage(t *testing.T) {
	t.Parallel()
	r := filled(t)
	p := &hooked{Place: r.p, part: "/snapshot/", body: func(_ context.Context, body io.Reader) io.Reader {
		return io.MultiReader(header(t, body), failing{io.ErrUnexpectedEOF})
	}}
	_, err := restore.FromArchive(t.Context(), in(filepath.Join(t.TempDir(), "data")), p, restore.Want{})
	if name := r.catalog(t).Snapshots[1].Name; err == nil || !strings.Contains(err.Error(), name) || dbaas.CodeOf(err) == dbaas.CodeInvalid {
		t.Errorf("got %v, code %v, want the name %s and no CodeInvalid", err, dbaas.CodeOf(err), name)
	}
	if _, bad := errors.AsType[*archive.BadObjectError](err); bad {
		t.Errorf("got %v, want the object not called bad", err)
	}
}

// header returns the header of an object: 26 bytes that end with the length of a text, the text, and four bytes.
func header(t *testing.T, body io.Reader) io.Reader {
	t.Helper()
	head := make([]byte, 26)
	if _, err := io.ReadFull(body, head); err != nil {
		t.Error(err)
	}
	return io.MultiReader(strings.NewReader(string(head)), io.LimitReader(body, int64(binary.BigEndian.Uint32(head[22:]))+4))
}
