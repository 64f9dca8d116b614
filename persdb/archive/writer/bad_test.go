package writer_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/archive/writer"
	"rideshare/persdb/commitlog"

	"github.com/google/go-cmp/cmp"
)

// Bytes of an object: of its version, of its header's text, and of its tail.
const (
	versionByte = 4
	headerByte  = 30
	lastByte    = -1
)

// archived returns a store of two entries whose archive is in dir, as a persdb left it that has ended.
func archived(t *testing.T, dir string) (*source, place.Place) {
	t.Helper()
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	p := place.Folder(dir)
	s.insert(t, 2)
	work(t, writer.New(s.Store, config(s, p)))
	return s, p
}

// damage changes one byte of an object; a negative one is counted from the end.
func damage(t *testing.T, dir, name string, at int) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	bytes, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at < 0 {
		at += len(bytes)
	}
	bytes[at] ^= 0xff
	if err = os.WriteFile(path, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
}

// badSnapshot returns a store with an entry more than its archive in dir has, and the archive's bad snapshot.
func badSnapshot(t *testing.T) (dir string, s *source, p place.Place, bad string) {
	t.Helper()
	dir = t.TempDir()
	s, p = archived(t, dir)
	bad = catalog(t, s, p).Snapshots[0].Name
	damage(t, dir, bad, headerByte)
	s.insert(t, 1)
	return dir, s, p, bad
}

// goesOn lets another process go on with the archive. Only the merging and removing may fail, because of the bad object.
func goesOn(t *testing.T, s *source, p place.Place, bad string) {
	t.Helper()
	err := writer.New(s.Store, config(s, p)).Work(t.Context())
	if got, ok := errors.AsType[*archive.BadObjectError](err); !ok || got.Name != bad {
		t.Errorf("got %v, want only that nothing is merged or removed because %s is bad", err, bad)
	}
	if state := s.ArchiveState(); state.Archived != state.Head {
		t.Errorf("archived up to %d, want all up to %d", state.Archived, state.Head)
	}
}

// A bad newest snapshot is replaced, although nothing was committed since.
func TestArchiver_BadSnapshot_Replaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, p := archived(t, dir)
	damage(t, dir, catalog(t, s, p).Snapshots[0].Name, headerByte)
	work(t, writer.New(s.Store, config(s, p)))
	verify(t, s, p, to(2, 2))
}

// After a bad newest snapshot another one is made, and new entries are archived.
func TestArchiver_BadSnapshot_Followed(t *testing.T) {
	t.Parallel()
	_, s, p, bad := badSnapshot(t)
	goesOn(t, s, p, bad)
	if diff := cmp.Diff([]archive.Range{to(3, 3)}, catalog(t, s, p).Without(bad).Ranges()); diff != "" {
		t.Errorf("ranges without the bad snapshot (-want +got):\n%s", diff)
	}
}

// The entries of a bad last segment are archived again while the log has them, and new entries after them.
func TestArchiver_BadSegment_StoredAgain(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int{"Header": headerByte, "End": lastByte} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, p := archived(t, dir)
			bad := catalog(t, s, p).Segments[0].Name
			damage(t, dir, bad, at)
			s.insert(t, 1)
			goesOn(t, s, p, bad)
			left := catalog(t, s, p).Without(bad)
			if diff := cmp.Diff([]archive.Range{to(2, 3)}, left.Ranges()); diff != "" {
				t.Errorf("ranges without the bad segment (-want +got):\n%s", diff)
			}
			if len(left.Segments) != 1 || left.Segments[0].First != 1 {
				t.Errorf("got segments %+v, want one from the first entry on", left.Segments)
			}
		})
	}
}

// What was left unfinished is removed although a bad object prevents merging and removing.
func TestArchiver_BadObject_UnfinishedRemoved(t *testing.T) {
	t.Parallel()
	dir, s, p, bad := badSnapshot(t)
	left := filepath.Join(dir, ".unfinished", "left")
	old := s.Now().Add(-2 * day)
	if err := errors.Join(os.WriteFile(left, nil, 0o600), os.Chtimes(left, old, old)); err != nil {
		t.Fatal(err)
	}
	goesOn(t, s, p, bad)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want it removed", err)
	}
}

// A bad writer.json counts as missing: the same process writes it again, and goes on.
func TestArchiver_BadWriter_WrittenAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
	p := place.Folder(dir)
	a := writer.New(s.Store, config(s, p))
	s.insert(t, 2)
	work(t, a)
	bad := s.ArchiveState().Cluster.String() + "/writer.json"
	damage(t, dir, bad, headerByte)
	s.insert(t, 1)
	err := a.Work(t.Context())
	if got, ok := errors.AsType[*archive.BadObjectError](err); !ok || got.Name != bad {
		t.Errorf("got %v, want that %s is bad", err, bad)
	}
	work(t, a)
	if state := s.ArchiveState(); state.Archived != state.Head {
		t.Errorf("archived up to %d, want all up to %d", state.Archived, state.Head)
	}
	verify(t, s, p, to(2, 3))
}

// A segment of another version stops archiving: its entries are not compared, and a newer program can read them.
func TestArchiver_OtherVersion_Stops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, p := archived(t, dir)
	damage(t, dir, catalog(t, s, p).Segments[0].Name, versionByte)
	s.insert(t, 1)
	if err := writer.New(s.Store, config(s, p)).Work(t.Context()); !errors.Is(err, archive.ErrVersion) {
		t.Errorf("got %v, want ErrVersion", err)
	}
	if got := s.ArchiveState().Archived; got != 2 {
		t.Errorf("archived up to %d, want 2 as before", got)
	}
}
