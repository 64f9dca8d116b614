package commitlog_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// A file of mostly free pages is shrunk at the next start. Row ids do not change, so that replicas of the old file can
// continue.
func TestStore_Open_GivesRoomBack(t *testing.T) {
	clk := newClock()
	cfg := clk.config(t.TempDir())
	cfg.SharedLimit = time.Minute
	s := reopen(t, cfg)
	epoch := storetest.Claim(t, s)
	storetest.Commit(t, s, epoch, op(1, "CREATE TABLE x(v)",
		"INSERT INTO x WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<500) SELECT hex(randomblob(500)) FROM n"))
	r := storetest.NewReplica(t, s)
	storetest.Commit(t, s, epoch, op(2, "DELETE FROM x WHERE rowid%100<>7"), op(3, ann))
	clk.advance(2 * time.Hour)
	storetest.Commit(t, s, epoch, seen(4, 2, bob))
	r.Follow(t, s)
	trim(t, s)
	closeStore(t, s)
	path := filepath.Join(cfg.Dir, commitlog.FileName)
	size := func() int64 {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	if err := os.WriteFile(path+".new", []byte("left by a start that died"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, commitlog.ShrinkFrom(cfg, 100_000))
	defer closeStore(t, s)
	if after := size(); after > before/2 {
		t.Errorf("got %d bytes of %d, want less than half", after, before)
	}
	r.Follow(t, s)
	if h, err := s.Hashes(t.Context()); err != nil || len(h.Damaged) > 0 {
		t.Errorf("got damaged tables %v, %v", h.Damaged, err)
	}
	storetest.Commit(t, s, epoch, seen(5, 3, "INSERT INTO x VALUES('more')"))
	r.Follow(t, s)
}
