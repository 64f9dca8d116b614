package system_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"rideshare/internal/telemetry"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/archive/writer"
	"rideshare/persdb/commitlog"
	"rideshare/system"
)

// openArchived opens the store in a folder with an archive in another.
func openArchived(ctx context.Context, dir, archive string) (*system.ArchivedStore, error) {
	cfg := commitlog.Config{Dir: dir, Schema: []string{"CREATE TABLE t(a)"}}
	return system.OpenStore(ctx, cfg, system.Archive{URL: "file://" + archive, Backlog: 1 << 30}, telemetry.NewRegistry())
}

// A store that ends has archived all, and opens again. An older copy of its folder does not open: the archive has positions
// that it lacks.
func TestOpenStore_OlderFolder_IsRefused(t *testing.T) {
	dir, old, archive := t.TempDir(), t.TempDir(), t.TempDir()
	for n := range 2 {
		s, err := openArchived(t.Context(), dir, archive)
		if err != nil {
			t.Fatal(err)
		}
		storetest.Commit(t, s, storetest.Claim(t, s), storetest.Op(n, "INSERT INTO t VALUES(1)"))
		if err = s.Close(); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if err = os.CopyFS(old, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := openArchived(t.Context(), old, archive)
	var two *writer.HistoryError
	if !errors.As(err, &two) || two.Archived != 2 || two.Folder != 1 {
		t.Errorf("got %v, want a HistoryError with positions 2 and 1", err)
	}
}
