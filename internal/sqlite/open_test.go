package sqlite_test

import (
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"rideshare/internal/sqlite"
)

// A file that need not survive the machine waits for the disk at no moment, also not when it gets its WAL: a
// replica's snapshot is all dirty pages then.
func TestOptions_NotDurable_SynchronousIsOffBeforeTheJournalChanges(t *testing.T) {
	t.Parallel()
	list := sqlite.Options{}.Pragmas()
	off, journal := slices.Index(list, "PRAGMA synchronous=OFF"), slices.Index(list, "PRAGMA journal_mode=WAL")
	if off < 0 || journal < 0 || off > journal {
		t.Errorf("got %q", list)
	}
}

// Written data must not stay resident through a mapping: a worker's memory is bounded, its file is not.
func TestOptions_OnlyReadersMapTheFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		o    sqlite.Options
		want string
	}{
		{"replica's writer", sqlite.Options{}, "PRAGMA mmap_size=0"},
		{"durable writer", sqlite.Options{Durable: true}, "PRAGMA mmap_size=0"},
		{"scan", sqlite.Options{ReadOnly: true, Scan: true}, "PRAGMA mmap_size=0"},
		{"reader", sqlite.Options{ReadOnly: true}, "PRAGMA mmap_size=268435456"},
	} {
		if list := c.o.Pragmas(); !slices.Contains(list, c.want) {
			t.Errorf("%s: got %q, want %s among them", c.name, list, c.want)
		}
	}
}

// The error of a call of the operating system can be found in that of the engine.
func TestOpen_FolderMissing_WrapsTheSystemsError(t *testing.T) {
	t.Parallel()
	c, err := sqlite.Open(filepath.Join(t.TempDir(), "missing", "file.db"), sqlite.Options{})
	if !errors.Is(err, syscall.ENOENT) {
		t.Errorf("got %v, %v, want %v", c, err, syscall.ENOENT)
	}
}

// A file that cannot be read counts as damaged, and the error of the read can be found too.
func TestOpen_ReadFails_IsDamagedAndWrapsTheSystemsError(t *testing.T) {
	t.Parallel()
	c, err := sqlite.Open(t.TempDir(), sqlite.Options{ReadOnly: true}) // a folder can be opened, but not read
	if !errors.Is(err, sqlite.ErrDamaged) || !errors.Is(err, syscall.EISDIR) {
		t.Errorf("got %v, %v, want %v with %v", c, err, sqlite.ErrDamaged, syscall.EISDIR)
	}
}
