package commitlog_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/disktest"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

const (
	// powerSeedEnv repeats one run; powerRunsEnv says how many runs there are.
	powerSeedEnv = "RIDESHARE_POWERLOSS_SEED"
	powerRunsEnv = "RIDESHARE_POWERLOSS_RUNS"
	cutsPerRun   = 10
)

func playPower(t *testing.T, seed uint64, cuts int, spoil func(*powerRun)) (*powerRun, error) {
	t.Helper()
	r := &powerRun{dir: disktest.New(t).Dir(), rng: rand.New(rand.NewPCG(seed, 0)), disk: disktest.New(t)}
	if spoil != nil {
		spoil(r)
	}
	return r, r.play(t.Context(), cuts)
}

// Whenever the disk loses power or the process dies, every answered operation is still there with its answer, every
// unanswered one is there whole or not at all, epochs and positions do not go back, and the file, its sums and a
// replica elsewhere match.
func TestStore_PowerLoss_NothingAcknowledgedIsLost(t *testing.T) {
	const enough = 30 // runs, in which every step is hit many times
	first, runs := uint64(time.Now().UnixNano()), uint64(enough)
	if testing.Short() {
		runs = 5
	}
	for env, to := range map[string]*uint64{powerRunsEnv: &runs, powerSeedEnv: &first} {
		if s := os.Getenv(env); s != "" {
			var err error
			if *to, err = strconv.ParseUint(s, 10, 64); err != nil {
				t.Fatalf("%s: %v", env, err)
			}
		}
	}
	if os.Getenv(powerSeedEnv) != "" {
		runs = 1
	}
	var mu sync.Mutex
	where := map[string]int{}
	t.Run("Runs", func(t *testing.T) {
		for i := range runs {
			t.Run(strconv.FormatUint(first+i, 10), func(t *testing.T) {
				t.Parallel()
				r, err := playPower(t, first+i, cutsPerRun, nil)
				if err != nil {
					t.Errorf("%v\nto repeat it: %s=%d go test ./persdb/commitlog -run %s", err, powerSeedEnv, first+i, "PowerLoss_NothingAcknowledged")
				}
				mu.Lock()
				defer mu.Unlock()
				for what, n := range r.cuts {
					where[what] += n
				}
			})
		}
	})
	for _, step := range []string{"open", "commit", "checkpoint", "snapshot", "trim"} {
		n := 0
		for _, what := range slices.Sorted(maps.Keys(where)) {
			if strings.HasPrefix(what, step) {
				t.Log(what, where[what])
				n += where[what]
			}
		}
		if n == 0 && runs >= enough {
			t.Errorf("the disk never went off in %s: the runs prove too little", step)
		}
	}
}

// setting gives the log's writing connection another setting than persdb uses.
func setting(pragma string) func(*powerRun) {
	return func(r *powerRun) {
		r.spoil = func(s *commitlog.Store) error {
			_, err := s.LogPragma(pragma)
			return err
		}
	}
}

// A store that does not wait for its disk loses something within a few runs; otherwise the test above proves nothing.
func TestStore_PowerLoss_BrokenBuildsAreFound(t *testing.T) {
	for name, spoil := range map[string]func(*powerRun){
		"SynchronousNormal": setting("synchronous=NORMAL"),
		"SynchronousOff":    setting("synchronous=OFF"),
		"LyingDisk":         func(r *powerRun) { r.disk.Lie() },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				if _, err := playPower(t, seed, cutsPerRun, spoil); err != nil {
					t.Logf("run %d: %v", seed, err)
					return
				}
			}
			t.Error("nothing was lost")
		})
	}
}

// mostlyFree creates the files of a process that died: a database of mostly free pages, and its WAL. It returns the
// content.
func mostlyFree(t *testing.T, d *disktest.Disk) dbaas.TableHashes {
	t.Helper()
	r := powerRun{disk: d, elapsed: time.Hour}
	s := reopen(t, r.config())
	epoch := storetest.Claim(t, s)
	storetest.Commit(t, s, epoch, op(1, "CREATE TABLE x(v)",
		"INSERT INTO x WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<200) SELECT randomblob(500) FROM n"))
	closeStore(t, s)
	s = reopen(t, r.config()) // so that the WAL has some of the pages only
	storetest.Commit(t, s, epoch, op(2, "DELETE FROM x WHERE rowid%100<>7"), op(3, ann))
	r.elapsed += 2 * time.Hour
	storetest.Commit(t, s, epoch, seen(4, 2, bob))
	trim(t, s)
	h, err := s.Hashes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.CutAfter(1)
	_ = s.Close()                                             // it dies in it
	if off, op := d.Off(); !off || op.Kind != disktest.Sync { // the first thing that a checkpoint does
		t.Fatalf("the disk went off with %v", op)
	}
	d.Restart()
	return h
}

// However far a start gets, whether it creates the database or shrinks its file, the next start finds the previous
// content.
func TestStore_PowerLoss_AtEachStepOfOpen(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *disktest.Disk) dbaas.TableHashes{
		"FirstDatabase": func(*testing.T, *disktest.Disk) dbaas.TableHashes { return dbaas.TableHashes{} },
		"SmallerFile":   mostlyFree,
		"OldFolder":     oldFolder,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			origin := disktest.New(t)
			want := prepare(t, origin)
			last := map[disktest.Kind]bool{}
			for n, done := 1, false; !done; n++ {
				for seed, tries := uint64(0), uint64(1); seed < tries; seed++ {
					d := disktest.New(t)
					copyDisk(t, d, origin)
					var op disktest.Op
					done, op = openCut(t, d, n, seed, want)
					if last[op.Kind] = true; op.Kind == disktest.Rename || op.Kind == disktest.SyncDir { // they decide what files there are
						tries = 12
					}
				}
			}
			if !last[disktest.SyncDir] || last[disktest.Rename] != (want.Seq > 0) {
				t.Errorf("the disk went off with %v", last)
			}
		})
	}
}

// copyDisk copies the files of one disk to another, all durable.
func copyDisk(t *testing.T, to, from *disktest.Disk) {
	t.Helper()
	if err := os.CopyFS(to.Dir(), os.DirFS(from.Dir())); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(to.Dir(), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) == ".db-shm" {
			return err
		}
		return to.SyncPath(path)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// openCut opens a store on a disk that loses power at the nth operation, and again when power is back. done reports
// that there were fewer operations.
func openCut(t *testing.T, d *disktest.Disk, n int, seed uint64, want dbaas.TableHashes) (done bool, last disktest.Op) {
	t.Helper()
	r := powerRun{disk: d}
	d.CutAfter(n)
	s, err := commitlog.Open(t.Context(), app(r.config()))
	off, last := d.Off()
	if err == nil {
		_ = s.Close() // the disk may be off
	} else if !off {
		t.Fatal(err)
	}
	if err := d.LosePower(rand.New(rand.NewPCG(seed, uint64(n)))); err != nil {
		t.Fatal(err)
	}
	if err := sameAfter(t.Context(), &r, want); err != nil {
		t.Errorf("the disk went off with operation %d, %v: %v", n, last, err)
	}
	return !off, last
}

// sameAfter opens the store and compares its content.
func sameAfter(ctx context.Context, r *powerRun, want dbaas.TableHashes) error {
	s, err := commitlog.Open(ctx, app(r.config()))
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // only read
	got, err := s.Hashes(ctx)
	if err != nil || len(got.Damaged) > 0 {
		return fmt.Errorf("damaged %v, %w", got.Damaged, err)
	}
	if want.Seq == 0 { // it was made just now
		return nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("content (-want +got):\n%s", diff)
	}
	return nil
}
