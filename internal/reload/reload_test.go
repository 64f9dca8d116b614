package reload_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/reload"
	"rideshare/internal/testkit/testenv"
)

// follower is a Watcher of two files that refuses contents with the word "bad".
type follower struct {
	dir  string
	logs bytes.Buffer // readable after stop
	stop func()

	mu       sync.Mutex // guards the fields below
	applied  string
	observed []error
}

func follow(t *testing.T) *follower {
	t.Helper()
	f := &follower{dir: t.TempDir()}
	f.write(t, "a", "a1")
	f.write(t, "b", "b1")
	w := &reload.Watcher{What: "things", Paths: []string{f.path("a"), f.path("b")}, Apply: f.apply}
	if err := w.Load(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx, slog.New(slog.NewJSONHandler(&f.logs, nil)), f.observe) })
	f.stop = func() { cancel(); running.Wait() }
	t.Cleanup(f.stop)
	return f
}

func (f *follower) path(name string) string { return filepath.Join(f.dir, name) }

func (f *follower) write(t *testing.T, name, text string) {
	t.Helper()
	testenv.Replace(t, f.path(name), text)
}

func (f *follower) apply(contents [][]byte) error {
	text := string(bytes.Join(contents, []byte("+")))
	if strings.Contains(text, "bad") {
		return errors.New("refused")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied = text
	return nil
}

func (f *follower) observe(_ string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.observed = append(f.observed, err)
}

// await waits until text is in force and so many changes were seen.
func (f *follower) await(t *testing.T, text string, changes int) {
	t.Helper()
	testenv.Eventually(t, time.Minute, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.applied != text || len(f.observed) != changes {
			return errors.New("in force: " + f.applied)
		}
		return nil
	})
}

// Changed files are applied together, and a bad or missing file changes nothing.
func TestWatcher_AppliesChanges(t *testing.T) {
	f := follow(t)
	f.await(t, "a1+b1", 0)
	f.write(t, "b", "b2")
	f.await(t, "a1+b2", 1)
	f.write(t, "a", "bad")
	f.await(t, "a1+b2", 2)
	f.write(t, "a", "a3")
	f.await(t, "a3+b2", 3)
	if err := os.Remove(f.path("b")); err != nil {
		t.Fatal(err)
	}
	f.await(t, "a3+b2", 4)
	f.stop()
	if got := strings.Count(f.logs.String(), `"ERROR"`); got != 2 {
		t.Errorf("got %d errors in the log, want one for each bad state: %s", got, &f.logs)
	}
	if f.observed[0] != nil || f.observed[1] == nil || f.observed[2] != nil || !errors.Is(f.observed[3], os.ErrNotExist) {
		t.Errorf("observed %v", f.observed)
	}
}

// SIGHUP applies the files once more, whether or not they have changed, and does not end the process.
func TestWatcher_SIGHUP(t *testing.T) {
	f := follow(t)
	f.write(t, "a", "a2")
	f.await(t, "a2+b1", 1) // so it listens for the signal
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	f.await(t, "a2+b1", 2)
}

// A file is applied when two readings agree: until then it may still be being written.
func TestWatcher_HalfWrittenFile_IsNotApplied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	applied := 0
	w := &reload.Watcher{Paths: []string{path}, Apply: func([][]byte) error { applied++; return nil }}
	for i, text := range []string{"whole", "h", "ha", "half", "half", "half", "whole", "whole"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := w.Load(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		w.Look()
		if want := map[int]int{4: 2, 5: 2, 6: 2, 7: 3}[i]; applied != max(want, 1) {
			t.Errorf("reading %d: applied %d times, want %d", i, applied, max(want, 1))
		}
	}
}

// Files that are missing, too long or refused at the start are errors.
func TestWatcher_Load_Errors(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, "long")
	if err := os.WriteFile(long, make([]byte, 4<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing"), long, dir} {
		w := reload.Watcher{Paths: []string{path}, Apply: func([][]byte) error { return nil }}
		if err := w.Load(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v", path, err)
		}
	}
	refused := errors.New("refused")
	w := reload.Watcher{Apply: func([][]byte) error { return refused }}
	if err := w.Load(); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}
