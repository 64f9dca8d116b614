package commitlog_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"

	"github.com/google/go-cmp/cmp"
)

// archived opens a store with an archive, and commits n entries of equal size, which become old. It returns the size of one.
func archived(t *testing.T, a commitlog.Archive, n int) (*commitlog.Store, dbaas.Epoch, int64) {
	t.Helper()
	clock := newClock()
	cfg := clock.config(t.TempDir())
	cfg.Archive = &a
	s := open(t, cfg)
	epoch := storetest.Claim(t, s)
	size := int64(0)
	for i := range n {
		storetest.Commit(t, s, epoch, op(i, fmt.Sprintf("INSERT INTO users(username, password) VALUES('user%03d', 'x')", i)))
		size = s.ArchiveState().Backlog / int64(i+1)
	}
	if got := s.ArchiveState(); got.Backlog != int64(n)*size || got.Head != dbaas.Seq(n) {
		t.Fatalf("got %+v, want %d entries of %d bytes", got, n, size)
	}
	clock.advance(2 * time.Hour)
	return s, epoch, size
}

// trimUp trims, and returns up to where the log is trimmed.
func trimUp(t *testing.T, s *commitlog.Store) dbaas.Seq {
	t.Helper()
	trim(t, s)
	return s.ArchiveState().Trimmed
}

// Entries that the archive lacks are not trimmed, and nothing is before the archive has said what it has.
func TestArchive_HoldsTheLog(t *testing.T) {
	t.Parallel()
	s, _, size := archived(t, commitlog.Archive{Backlog: 1 << 30}, 6)
	s.SetFree(4 << 30)
	for _, step := range []struct{ archived, trimmed dbaas.Seq }{{0, 0}, {3, 3}, {2, 3}, {6, 5}} {
		s.Archived(step.archived)
		if got := trimUp(t, s); got != step.trimmed {
			t.Errorf("archived up to %d: got trimmed up to %d, want %d", step.archived, got, step.trimmed)
		}
	}
	got := s.ArchiveState()
	if got.Archived != 6 || got.Backlog != 0 || got.Lag != 0 || got.Gaps != 0 || got.Refusing {
		t.Errorf("got %+v", got)
	}
	epoch := storetest.Claim(t, s)
	storetest.Commit(t, s, epoch, seen(100, 6, "INSERT INTO users(username, password) VALUES('user100', 'x')"))
	if got = s.ArchiveState(); got.Backlog != size {
		t.Errorf("got %d bytes that the archive lacks, want those of one entry, %d", got.Backlog, size)
	}
}

// When the archive has lost entries, the log keeps them again, and they count as what the archive lacks.
func TestArchive_LostEntries_AreHeld(t *testing.T) {
	t.Parallel()
	s, _, size := archived(t, commitlog.Archive{Backlog: 1 << 30}, 6)
	s.SetFree(4 << 30)
	s.Archived(6)
	s.Archived(2)
	if got := s.ArchiveState(); got.Backlog != 4*size || got.Lag != 2*time.Hour {
		t.Errorf("got %+v, want a backlog of four entries, %d bytes, that are two hours old", got, 4*size)
	}
	if got := trimUp(t, s); got != 2 {
		t.Errorf("got trimmed up to %d, want 2", got)
	}
}

// Above the bound the oldest entries are trimmed until the rest is within it. That is one gap. The archive goes on after it.
func TestArchive_Backlog_MakesAGap(t *testing.T) {
	t.Parallel()
	s, _, size := archived(t, commitlog.Archive{Backlog: 1 << 30}, 8)
	s.SetFree(4 << 30)
	s.Archived(2)
	if got := trimUp(t, s); got != 2 {
		t.Fatalf("within the bound: got trimmed up to %d, want 2", got)
	}
	s.SetBacklog(4 * size)
	if got := trimUp(t, s); got != 4 {
		t.Errorf("got trimmed up to %d, want 4: four entries have room", got)
	}
	if got := s.ArchiveState(); got.Gaps != 1 || got.Refusing {
		t.Errorf("got %+v, want one gap", got)
	}
	if _, err := s.Records(t.Context(), 2, 1<<20); dbaas.CodeOf(err) != dbaas.CodeGone {
		t.Errorf("got %v, want CodeGone for what was trimmed", err)
	}
	s.SetBacklog(2 * size)
	if got, state := trimUp(t, s), s.ArchiveState(); got != 6 || state.Gaps != 1 {
		t.Errorf("got trimmed up to %d, %d gaps, want 6 and the same gap", got, state.Gaps)
	}
	s.Archived(6)
	s.SetBacklog(0)
	if got, state := trimUp(t, s), s.ArchiveState(); got != 7 || state.Gaps != 2 {
		t.Errorf("got trimmed up to %d, %d gaps, want 7 and another gap", got, state.Gaps)
	}
}

// When the disk has less than a gibibyte, the log no longer grows for the archive.
func TestArchive_ShortDisk_MakesAGap(t *testing.T) {
	t.Parallel()
	s, _, _ := archived(t, commitlog.Archive{Backlog: 1 << 30}, 4)
	s.SetFree(1 << 30)
	if got := trimUp(t, s); got != 0 {
		t.Errorf("a gibibyte: got trimmed up to %d, want nothing", got)
	}
	s.SetFree(1<<30 - 1)
	if got := trimUp(t, s); got != 3 {
		t.Errorf("a byte less: got trimmed up to %d, want 3", got)
	}
}

// With Stop nothing is trimmed, and what has no room any more is refused, until the archive has more. Known operations
// are answered.
func TestArchive_Stop_RefusesWrites(t *testing.T) {
	t.Parallel()
	s, epoch, size := archived(t, commitlog.Archive{Backlog: 1 << 30, Stop: true}, 4)
	write := func(n int) dbaas.Code {
		t.Helper()
		_, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{seen(n, 4, fmt.Sprintf("DELETE FROM users WHERE username='user%03d'", n))})
		return dbaas.CodeOf(err)
	}
	check := func(when string, n int, want dbaas.Code) {
		t.Helper()
		if got := write(n); got != want {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
		if sizes(t, s).DiskFull {
			t.Errorf("%s: the disk counts as full", when)
		}
		if got := s.ArchiveState(); got.Refusing != (want != dbaas.CodeOK) || got.Gaps != 0 {
			t.Errorf("%s: got %+v", when, got)
		}
	}
	s.SetFree(4 << 30)
	check("within the bound", 100, dbaas.CodeOK)
	s.SetBacklog(4 * size)
	if got := trimUp(t, s); got != 0 {
		t.Errorf("got trimmed up to %d, want nothing", got)
	}
	check("above the bound", 101, dbaas.CodeFull)
	if c := storetest.Commit(t, s, epoch, op(0, "INSERT INTO users(username, password) VALUES('user000', 'x')")); c.Results[0].Seq != 1 {
		t.Errorf("a known operation: got %+v, want its first answer", c.Results[0])
	}
	s.Archived(3)
	check("the archive has more", 102, dbaas.CodeOK)
	s.SetBacklog(1 << 30)
	s.SetFree(1<<30 - 1)
	check("a short disk, and nothing to trim", 103, dbaas.CodeOK)
	if got := trimUp(t, s); got != 3 {
		t.Errorf("got trimmed up to %d, want 3", got)
	}
	check("a short disk, and entries that are held", 104, dbaas.CodeFull)
	s.Archived(6)
	check("the archive has all", 105, dbaas.CodeOK)
}

// Once the archive is known to have another history, no new write is taken.
func TestArchive_RefuseWrites(t *testing.T) {
	t.Parallel()
	s, epoch, _ := archived(t, commitlog.Archive{Backlog: 1 << 30}, 2)
	s.RefuseWrites(io.ErrUnexpectedEOF)
	_, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op(100, "DELETE FROM users")})
	if dbaas.CodeOf(err) != dbaas.CodeUnavailable || s.ArchiveState().Head != 2 {
		t.Errorf("got %v at %d, want CodeUnavailable and nothing done", err, s.ArchiveState().Head)
	}
	if c := storetest.Commit(t, s, epoch, op(0, "INSERT INTO users(username, password) VALUES('user000', 'x')")); c.Results[0].Seq != 1 {
		t.Errorf("a known operation: got %+v, want its first answer", c.Results[0])
	}
}

// A copy is the tables of one entry with their hashes, and leaves nothing behind.
func TestStore_Copy(t *testing.T) {
	t.Parallel()
	s, _, _ := archived(t, commitlog.Archive{Backlog: 1 << 30}, 3)
	made, err := s.Copy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Hashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Tables, made.Tables); diff != "" || made.Head.Seq != 3 || made.Head.Cluster.IsZero() {
		t.Errorf("got head %+v, hashes (-want +got):\n%s", made.Head, diff)
	}
	file, err := io.ReadAll(made.Body)
	if err != nil || int64(len(file)) != made.Bytes || !bytes.HasPrefix(file, []byte("SQLite format 3\x00")) {
		t.Errorf("got %d bytes, %v, want a database of %d", len(file), err, made.Bytes)
	}
	if err = made.Body.Close(); err != nil {
		t.Error(err)
	}
	for range 3 { // its place is free again
		if made, err = s.Copy(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = made.Body.Close()
	}
}
