package process_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/process"
)

func start(t *testing.T, w world, startID string) launch.Instance {
	t.Helper()
	i, err := w.Start(t.Context(), startID)
	if err != nil {
		t.Fatalf("start: got %v, want a worker", err)
	}
	return i
}

func get(t *testing.T, url string) status {
	t.Helper()
	s, err := ask(t.Context(), http.MethodGet, url)
	if err != nil {
		t.Fatalf("ask %s: %v", url, err)
	}
	return s
}

// A worker receives its Spec, and its pid is the pid of its process.
func TestLauncher_Start_TellsTheWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(t, roleWorker, process.Config{Dir: dir, Args: func(s process.Spec) []string {
		return []string{string(s.ID), s.StartID, s.Dir, s.Control}
	}})
	i := start(t, w, "s1")
	want := status{PID: i.PID, Args: []string{string(i.ID), "s1", filepath.Join(dir, string(i.ID)), i.Control}}
	got := get(t, i.Control)
	got.Files = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the worker knows (-want +got):\n%s", diff)
	}
	if left, err := os.ReadDir(want.Args[2]); err != nil || len(left) > 0 {
		t.Errorf("directory of the worker: got %v and error %v, want it there and empty", left, err)
	}
}

// A worker listens at the launcher's address, and is reached under it.
func TestLauncher_Start_AtItsAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roleWorker, process.Config{Address: "127.0.0.2"})
	i := start(t, w, "s1")
	if !strings.HasPrefix(i.Control, "http://127.0.0.2:") {
		t.Errorf("control: got %s, want the launcher's address", i.Control)
	}
	if got := get(t, i.Control); got.PID != i.PID {
		t.Errorf("asked at %s: got pid %d, want %d", i.Control, got.PID, i.PID)
	}
}

// No two lives have the same id, also not those of launchers that follow each other.
func TestLauncher_Start_IDsAreNeverUsedAgain(t *testing.T) {
	t.Parallel()
	dir, seen := t.TempDir(), map[dbaas.WorkerID]bool{}
	for range 3 {
		w := newWorld(t, roleWorker, process.Config{Dir: dir})
		for range 2 {
			i := start(t, w, "s1")
			if seen[i.ID] {
				t.Errorf("id %s came twice", i.ID)
			}
			seen[i.ID] = true
			if err := errors.Join(w.Kill(t.Context(), i.ID), w.Remove(t.Context(), i.ID)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A worker's directory is kept when it dies, and deleted after it was removed. A large one is deleted bit by bit, but not
// any more when the launcher ends, which nothing is left for then.
func TestLauncher_Remove_DeletesDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(t, roleWorker, process.Config{Dir: dir})
	i := start(t, w, "s1")
	file := filepath.Join(dir, string(i.ID), "replica.db")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<40)); err != nil { // takes an hour bit by bit
		t.Fatal(err)
	}
	if err := w.Kill(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("after death: got %v, want the file there", err)
	}
	if err := errors.Join(w.Remove(t.Context(), i.ID), w.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(file)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after removal: got %v, want the directory gone", err)
	}
}

// A program that is not there is named, before anything is started.
func TestNew_BinaryMissing(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "no-such-program")
	_, err := process.New(process.Config{Binary: missing, Dir: t.TempDir()})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v, want %v that names %s", err, fs.ErrNotExist, missing)
	}
}

// A directory has one launcher, until that is closed; the next one deletes what the workers left.
func TestNew_DirectoryHasOneLauncher(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(t, roleWorker, process.Config{Dir: dir})
	start(t, w, "s1")
	if _, err := process.New(process.Config{Dir: dir}); !errors.Is(err, process.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second launcher: got %v, want %v that names %s", err, process.ErrInUse, dir)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	newWorld(t, roleWorker, process.Config{Dir: dir})
	var left []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"kept", "launcher.lock"}, left); err != nil || diff != "" {
		t.Errorf("left after an earlier launcher (error %v, -want +got):\n%s", err, diff)
	}
}

// A worker that cannot be started leaves nothing, and the error names its program. The
// same start works when the program is back.
func TestLauncher_Start_BinaryVanished(t *testing.T) {
	t.Parallel()
	dir, binary := t.TempDir(), filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, roleWorker, process.Config{Dir: dir, Binary: binary})
	if err := os.Remove(binary); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := w.Start(t.Context(), "s1")
		if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, launch.ErrUnavailable) || !strings.Contains(err.Error(), binary) {
			t.Errorf("got %v, want %v that names %s", err, fs.ErrNotExist, binary)
		}
	}
	list, err := w.List(t.Context())
	entries, dirErr := os.ReadDir(dir)
	if err = errors.Join(err, dirErr); err != nil || len(list) > 0 || len(entries) != 1 {
		t.Errorf("left behind: %v and %v (error %v), want the lock only", list, entries, err)
	}
	if err := os.Symlink("/bin/true", binary); err != nil {
		t.Fatal(err)
	}
	start(t, w, "s1")
}

// A start that is asked for too late does not happen.
func TestLauncher_Start_ContextEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roleWorker, process.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Start(ctx, "s1"); !errors.Is(err, launch.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, launch.ErrUnavailable)
	}
	if list, err := w.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("got %v listed (error %v), want none", list, err)
	}
}

// A start whose caller gives up happens all the same: the list waits for it, and the
// same start again gives that worker.
func TestLauncher_Start_CallerGivesUp(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, roleWorker, process.Config{Args: func(process.Spec) []string {
		close(begun)
		<-release
		return nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := w.Start(ctx, "s1"); !errors.Is(err, launch.ErrUnavailable) {
		t.Errorf("start: got %v, want %v", err, launch.ErrUnavailable)
	}
	if _, err := w.List(ctx); !errors.Is(err, launch.ErrUnavailable) {
		t.Errorf("list while it starts: got %v, want %v", err, launch.ErrUnavailable)
	}
	close(release)
	list, err := w.List(t.Context())
	if err != nil || len(list) != 1 || list[0].StartID != "s1" || !list[0].Running {
		t.Fatalf("list: got %+v and error %v, want the worker", list, err)
	}
	if again := start(t, w, "s1"); again.ID != list[0].ID {
		t.Errorf("same start again: got %s, want %s", again.ID, list[0].ID)
	}
}

// Close leaves no worker, also none whose start was under way, and starts nothing any more.
func TestLauncher_Close_LeavesNothing(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, roleWorker, process.Config{Args: func(s process.Spec) []string {
		if s.StartID == "slow" {
			close(begun)
			<-release
		}
		return nil
	}})
	first := start(t, w, "s1")
	gaveUp, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	_, _ = w.Start(gaveUp, "slow")
	if err := w.Close(gaveUp); !errors.Is(err, launch.ErrUnavailable) {
		t.Errorf("close while a start is under way: got %v, want %v", err, launch.ErrUnavailable)
	}
	close(release)
	if err := errors.Join(w.Close(t.Context()), w.Close(t.Context())); err != nil {
		t.Errorf("close: got %v, want nil", err)
	}
	list, err := w.List(t.Context())
	if err != nil || len(list) != 2 || slices.ContainsFunc(list, func(i launch.Instance) bool { return i.Running }) {
		t.Errorf("list: got %+v and error %v, want %s and the other, dead", list, err, first.ID)
	}
	if _, err := w.Start(t.Context(), "s2"); err == nil || errors.Is(err, launch.ErrUnavailable) {
		t.Errorf("start after close: got %v, want an error that says no", err)
	}
}

// A dead worker's port refuses connections instead of leaving them waiting.
func TestLauncher_Kill_ControlRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roleWorker, process.Config{Address: "127.0.0.4"}) // no other process takes the port at this address
	i := start(t, w, "s1")
	if err := w.Kill(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if _, err := ask(ctx, http.MethodGet, i.Control); err == nil || ctx.Err() != nil {
		t.Errorf("ask a dead worker: got %v, want it refused", err)
	}
}

// A worker that is asked to stop again and again gets one signal: a second one would cut its grace short.
func TestLauncher_Stop_AsksOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roleWorker, process.Config{})
	i := start(t, w, "s1")
	w.Stubborn(t, i.ID) // it counts
	gaveUp, cancel := context.WithCancel(t.Context())
	cancel()
	for range 5 {
		if err := w.Stop(gaveUp, i.ID, limit); !errors.Is(err, launch.ErrUnavailable) {
			t.Errorf("stop whose caller gives up: got %v, want %v", err, launch.ErrUnavailable)
		}
		eventually(t, func() error {
			if get(t, i.Control).Terminated == 0 {
				return errors.New("not asked yet")
			}
			return nil
		})
	}
	if got := get(t, i.Control).Terminated; got != 1 {
		t.Errorf("got SIGTERM %d times, want once", got)
	}
}
