package fault_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/rideschema"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/testkit/testenv"
	"rideshare/persdb/archive/place"
	archivewriter "rideshare/persdb/archive/writer"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/restore"
)

// kept is a data folder with a log of some past hours, which is archived in small segments, and the hashes of its tables at
// each position.
type kept struct {
	dir, folder string
	hashes      map[dbaas.Seq]map[string]string
}

// keptEntries is the number of entries. They are twenty minutes apart.
const keptEntries = 12

func storeConfig(dir string) commitlog.Config {
	return commitlog.Config{Dir: dir, Schema: rideschema.Create(), Protected: rideschema.Protected()}
}

// makeKept makes a kept. Its newest entry is more than an hour old. By the clock of the archive's writers no hour is over, so
// nothing is merged or removed yet.
func makeKept(t *testing.T) *kept {
	t.Helper()
	k := &kept{dir: t.TempDir(), folder: t.TempDir(), hashes: map[dbaas.Seq]map[string]string{}}
	begin := time.Now().Add(-5 * time.Hour)
	now := begin
	cfg := storeConfig(k.dir)
	cfg.Now = func() time.Time { return now }
	s, err := commitlog.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	epoch := storetest.Claim(t, s)
	for n := range keptEntries {
		a, failed := archivewriter.Start(t.Context(), s, archivewriter.Config{Place: place.Folder(k.folder), Every: time.Millisecond, SnapshotBytes: 1, Now: func() time.Time { return begin }})
		if failed != nil {
			t.Fatal(failed)
		}
		storetest.Commit(t, s, epoch, storetest.Op(n, fmt.Sprintf("INSERT INTO users VALUES('u%d', 'x')", n), "UPDATE users SET password=username||password"))
		testenv.Eventually(t, healLimit, func() error {
			c, unread := onlyCatalog(t.Context(), k.folder)
			if unread != nil {
				return unread
			}
			if newest, _ := c.Newest(); newest != dbaas.Seq(n+1) || len(c.Snapshots) == 0 || c.Snapshots[len(c.Snapshots)-1].Seq != newest {
				return fmt.Errorf("the archive ends at %d with %d snapshots, want a snapshot of %d", newest, len(c.Snapshots), n+1)
			}
			return nil
		})
		a.Close()
		k.remember(t, s)
		now = now.Add(20 * time.Minute)
	}
	if err = s.Close(); err != nil {
		t.Fatal(err)
	}
	return k
}

// remember keeps the hashes of the tables as they are now.
func (k *kept) remember(t *testing.T, s *commitlog.Store) {
	t.Helper()
	h, err := s.Hashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k.hashes[h.Seq] = h.Tables
}

// persdb returns the command of a persdb that serves the folder, maintains the archive, and dies at the point if it is not
// empty.
func (k *kept) persdb(ctx context.Context, t *testing.T, point failpoint.Point) *exec.Cmd {
	t.Helper()
	path, err := failableBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, path, "persdb", "--listen", "127.0.0.1:0", "--data", k.dir, "--archive", "file://"+k.folder, "--archive-keep", "100m")
	if cmd.Env = os.Environ(); point != "" {
		cmd.Env = append(cmd.Env, failpoint.EnvArm+"="+string(point)+"="+string(failpoint.Kill))
	}
	return cmd
}

// die runs persdb until it dies at a point.
func (k *kept) die(t *testing.T, point failpoint.Point) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), healLimit)
	defer cancel()
	cmd := k.persdb(ctx, t, point)
	err := cmd.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ctx.Err() != nil || !ok || exit.Exited() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("persdb ended with %v, want it killed at %s", err, point)
	}
}

// check verifies the archive and restores each position that can be restored: its tables must be as they were. It returns the
// number of segments.
func (k *kept) check(t *testing.T, after string) (segments int) {
	t.Helper()
	report, err := restore.Verify(t.Context(), storeConfig(t.TempDir()), place.Folder(k.folder), dbaas.ClusterID{}, func(string) {})
	if err != nil || len(report.Bad)+len(report.Gaps) > 0 || len(report.Positions) == 0 {
		t.Fatalf("%s: verify: got %+v, %v, want all good", after, report, err)
	}
	c, err := onlyCatalog(t.Context(), k.folder)
	if err != nil {
		t.Fatal(err)
	}
	ranges := c.Ranges()
	if len(ranges) != 1 || ranges[0].Last != keptEntries || ranges[0].First > keptEntries/2+1 {
		t.Fatalf("%s: positions %v can be restored, want those of the 100 minutes before the newest entry", after, ranges)
	}
	for _, seq := range []dbaas.Seq{ranges[0].First, (ranges[0].First + keptEntries) / 2, keptEntries} {
		if seq > 0 {
			k.checkPosition(t, after, seq)
		}
	}
	return len(c.Segments)
}

// checkPosition restores a position and compares the tables.
func (k *kept) checkPosition(t *testing.T, after string, seq dbaas.Seq) {
	t.Helper()
	cfg := storeConfig(filepath.Join(t.TempDir(), "restored"))
	if _, err := restore.FromArchive(t.Context(), cfg, place.Folder(k.folder), restore.Want{Seq: &seq}); err != nil {
		t.Fatalf("%s: restore %d: %v", after, seq, err)
	}
	s, err := commitlog.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Hashes(t.Context())
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(k.hashes[seq], h.Tables); diff != "" {
		t.Errorf("%s: position %d (-then +restored):\n%s", after, seq, diff)
	}
}

// persdb dies while it merges segments and removes old objects, at each step and more than once. Each time the archive
// verifies, and a restore gives the tables as they were. The next process finishes the work.
func TestArchive_KilledWhileMergingAndRemoving_RestoreEqualsTheModel(t *testing.T) {
	t.Parallel()
	k := makeKept(t)
	before := k.check(t, "at the start")
	for _, point := range []failpoint.Point{
		failpoint.ArchiveMerging, failpoint.ArchiveMerging, failpoint.ArchiveMerged, failpoint.ArchiveMerged,
		failpoint.ArchiveRemoved, failpoint.ArchiveRemoved, failpoint.ArchiveRemoved, failpoint.ArchiveRemoved,
	} {
		k.die(t, point)
		k.check(t, "after a death at "+string(point))
	}
	cmd := k.persdb(context.Background(), t, "") // endPart ends the process
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endPart(t, "persdb", cmd) })
	testenv.Eventually(t, healLimit, func() error { return k.tidied(t.Context()) })
	endPart(t, "persdb", cmd) // a running persdb could remove an object that is being verified
	t.Logf("%d segments became %d", before, k.check(t, "at the end"))
}

// tidied returns an error until segments are merged and old objects are removed.
func (k *kept) tidied(ctx context.Context) error {
	c, err := onlyCatalog(ctx, k.folder)
	if err != nil {
		return err
	}
	if len(c.Segments) > keptEntries/2 || c.Snapshots[0].Seq < keptEntries/2 {
		return fmt.Errorf("%d segments and %d snapshots from %d are left", len(c.Segments), len(c.Snapshots), c.Snapshots[0].Seq)
	}
	return nil
}
