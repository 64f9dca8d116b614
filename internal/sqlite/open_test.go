package sqlite_test

import (
	"slices"
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
