package lifeline_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rideshare/internal/lifeline"
	"rideshare/internal/testkit/testenv"
)

// limit is the maximum wait for what must happen.
const limit = 30 * time.Second

func TestMain(m *testing.M) { testenv.NoLeaksMain(m) }

// handOver passes this process a copy of f as its parent would: inheritable by child processes, and named in the
// environment. It returns the copy's number.
func handOver(t *testing.T, variable string, f *os.File) int {
	t.Helper()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(variable, strconv.Itoa(fd))
	return fd
}

// line passes a lifeline and returns the parent's end of it.
func line(t *testing.T) (parent *os.File, fd int) {
	t.Helper()
	theirs, parent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Close() })
	return parent, handOver(t, lifeline.EnvLine, theirs)
}

// handedOn reports whether a process started now would inherit the file.
func handedOn(t *testing.T, fd int) bool {
	t.Helper()
	flags, _, err := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
	if err != 0 {
		t.Fatalf("flags of file %d: %v", fd, err)
	}
	return flags&syscall.FD_CLOEXEC == 0
}

func watch(t *testing.T, ctx context.Context) (gone chan struct{}) { //nolint:revive // t comes first in tests
	t.Helper()
	gone = make(chan struct{}, 2)
	if err := lifeline.Watch(ctx, func() { gone <- struct{}{} }); err != nil {
		t.Fatalf("watch: got %v, want nil", err)
	}
	return gone
}

func wantGone(t *testing.T, gone <-chan struct{}) {
	t.Helper()
	select {
	case <-gone:
	case <-time.After(limit):
		t.Fatal("the callback was not called though the parent is gone")
	}
}

// The end of the parent is reported, whatever the parent wrote before, and child processes do not inherit the
// lifeline.
func TestWatch_ParentEnds(t *testing.T) {
	parent, fd := line(t)
	gone := watch(t, t.Context())
	if handedOn(t, fd) {
		t.Error("the lifeline is open in what this process starts")
	}
	if name, ok := os.LookupEnv(lifeline.EnvLine); ok {
		t.Errorf("%s is %s for what this process starts, want it gone", lifeline.EnvLine, name)
	}
	// More than a pipe holds: the write returns only if the lifeline is still read.
	if _, err := parent.Write(make([]byte, 128<<10)); err != nil {
		t.Fatal(err)
	}
	if len(gone) > 0 {
		t.Error("the callback was called while the parent lives")
	}
	if err := parent.Close(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, gone)
}

// A parent that was gone before Watch is reported too.
func TestWatch_ParentIsGone(t *testing.T) {
	parent, _ := line(t)
	if err := parent.Close(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, watch(t, t.Context()))
}

// Watch ends with its context and closes the lifeline; then onGone is not called.
func TestWatch_ContextEnds(t *testing.T) {
	parent, _ := line(t)
	settled := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	gone := watch(t, ctx)
	cancel()
	// The pipe breaks when its last reader is closed.
	for {
		if _, err := parent.WriteString("x"); err != nil {
			break
		}
	}
	testenv.NoLeaks(t, settled)
	if len(gone) > 0 {
		t.Error("the callback was called though the parent lives")
	}
}

// A process that no launcher started has nothing to watch.
func TestWatch_NoParent(t *testing.T) {
	if gone := watch(t, t.Context()); len(gone) > 0 {
		t.Error("the callback was called where there is no parent")
	}
}

// A variable that does not refer to a lifeline is an error that names the variable; it is not reported as the end of
// the parent.
func TestWatch_NoLifeline(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("File", func(t *testing.T) {
		handOver(t, lifeline.EnvLine, file)
		wantError(t, lifeline.EnvLine, lifeline.Watch(t.Context(), func() { t.Error("the callback was called") }))
	})
	for name, value := range map[string]string{"Empty": "", "Word": "x", "Stdout": "1", "Negative": "-1", "Closed": "1000000", "Huge": "99999999999"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(lifeline.EnvLine, value)
			wantError(t, lifeline.EnvLine, lifeline.Watch(t.Context(), func() { t.Error("the callback was called") }))
		})
	}
}

func wantError(t *testing.T, variable string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), variable) {
		t.Errorf("got %v, want an error that names %s", err, variable)
	}
}
