package fault_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/client"
	"rideshare/persdb/commitlog"
)

// onlyCatalog returns the catalog of the folder's only cluster.
func onlyCatalog(ctx context.Context, folder string) (*archive.Catalog, error) {
	clusters, err := archive.Clusters(ctx, place.Folder(folder))
	if err == nil && len(clusters) != 1 {
		err = fmt.Errorf("got %d clusters, want 1", len(clusters))
	}
	if err != nil {
		return nil, err
	}
	return archive.Read(ctx, place.Folder(folder), clusters[0])
}

// archivedUpTo returns an error until the archive has all entries up to the store's head.
func archivedUpTo(t *testing.T, folder string, store *client.Client) error {
	t.Helper()
	head, err := store.Head(t.Context())
	c, unread := onlyCatalog(t.Context(), folder)
	if err = errors.Join(err, unread); err != nil {
		return err
	}
	ranges := c.Ranges()
	if len(ranges) != 1 || ranges[0] != (archive.Range{First: 0, Last: head.Seq}) {
		return fmt.Errorf("positions %v can be restored, want 0 to %d", ranges, head.Seq)
	}
	return nil
}

// checkArchive reads every object of an archive. Its entries must be those of the log.
func checkArchive(t *testing.T, dir, folder string) {
	t.Helper()
	c, err := onlyCatalog(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, commitlog.LogFileName)+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	same := func(e archive.Entry) error {
		var ops, changes []byte
		if err := db.QueryRowContext(t.Context(), "SELECT ops, changes FROM rs_log WHERE seq=?", e.Seq).Scan(&ops, &changes); err != nil {
			return err
		}
		if !bytes.Equal(ops, e.Operations) || !bytes.Equal(changes, e.Changes) {
			t.Errorf("the archive has another entry %d than the log", e.Seq)
		}
		return nil
	}
	for _, s := range c.Segments {
		if _, err := archive.ReadSegment(t.Context(), place.Folder(folder), s, same); err != nil {
			t.Error(err)
		}
	}
	for _, s := range c.Snapshots {
		if _, err := archive.ReadSnapshot(t.Context(), place.Folder(folder), s, io.Discard); err != nil {
			t.Error(err)
		}
	}
	newest, _ := c.Newest()
	t.Logf("%d segments up to %d", len(c.Segments), newest)
}
