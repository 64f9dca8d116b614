package restore_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"rideshare/persdb/archive/place"
	"rideshare/persdb/restore"
)

// The settings of a child process, which restores until it is killed.
const (
	killAtEnv  = "RIDESHARE_RESTORE_KILL_AT" // the step at which it ends itself
	archiveEnv = "RIDESHARE_RESTORE_ARCHIVE"
	targetEnv  = "RIDESHARE_RESTORE_TARGET"
)

// steps counts the steps of a restore, and ends the process at one of them, as kill -9 does.
type steps struct {
	slog.Handler
	place.Place

	done, last atomic.Int64
}

func (s *steps) step() {
	if s.done.Add(1) == s.last.Load() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // it cannot fail
		select {}
	}
}

// Open implements place.Place.
func (s *steps) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	s.step()
	return s.Place.Open(ctx, name)
}

// Enabled and Handle implement slog.Handler: the store logs between the steps of its start.
func (*steps) Enabled(context.Context, slog.Level) bool { return true }

func (s *steps) Handle(context.Context, slog.Record) error {
	s.step()
	return nil
}

// A process that is killed at any step of a restore leaves no folder, and the next restore makes it all the same.
//
// The test is not parallel: a child that is being made holds the locks of stores that other tests have just closed.
func TestFromArchive_KilledAnywhere(t *testing.T) {
	if at, err := strconv.ParseInt(os.Getenv(killAtEnv), 10, 64); err == nil {
		restoreUntilKilled(t, at)
		return
	}
	r := filled(t)
	archive := t.TempDir()
	copyArchive(t, r.p, archive)
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	kills := 0
	for ; ; kills++ {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), killAtEnv+"="+strconv.Itoa(kills+1), archiveEnv+"="+archive, targetEnv+"="+dir)
		out, err := child.CombinedOutput()
		if err == nil {
			break
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("kill at step %d: %v\n%s", kills+1, err, out)
		}
		if slices.Contains(names(t, parent), "data") {
			t.Fatalf("killed at step %d, there is a folder", kills+1)
		}
	}
	if left := names(t, parent); kills < 8 || !slices.Equal(left, []string{"data"}) {
		t.Errorf("after %d kills: got %v, want at least 8 kills and the folder alone", kills, left)
	}
	s := open(t, dir)
	if head, err := s.Head(t.Context()); err != nil || head.Seq != r.head.Seq {
		t.Errorf("got %+v, %v, want position %d", head, err, r.head.Seq)
	}
}

func restoreUntilKilled(t *testing.T, at int64) {
	t.Helper()
	s := &steps{Handler: slog.DiscardHandler, Place: place.Folder(os.Getenv(archiveEnv))}
	s.last.Store(at)
	cfg := in(os.Getenv(targetEnv))
	cfg.Log = slog.New(s)
	if _, err := restore.FromArchive(t.Context(), cfg, s, restore.Want{}); err != nil {
		t.Fatal(err)
	}
}

// copyArchive copies all objects to a folder.
func copyArchive(t *testing.T, from place.Place, dir string) {
	t.Helper()
	objects, err := from.List(t.Context(), "")
	for _, o := range objects {
		var body io.ReadCloser
		if body, err = from.Open(t.Context(), o.Name); err == nil {
			err = errors.Join(place.Folder(dir).Create(t.Context(), o.Name, body), body.Close())
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
