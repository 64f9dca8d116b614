package commitlog

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// A data directory has one user at a time, and the second one is told who the first is.
func TestLockDir_InUse_NamesTheProcess(t *testing.T) {
	// In memory: the list of locks has other device numbers for the file systems of some containers.
	dir, err := os.MkdirTemp("/dev/shm", "lock") //nolint:usetesting // t.TempDir is elsewhere.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // it is small, and in memory.
	first, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("in use by the process %d", os.Getpid())
	testenv.Eventually(t, time.Minute, func() error { // The list of locks may skip a lock while others come and go.
		if _, failed := lockDir(dir); failed == nil || !strings.Contains(failed.Error(), want) {
			return fmt.Errorf("the second lock: got %w, want %q", failed, want)
		}
		return nil
	})
	if err = first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err = again.Close(); err != nil {
		t.Fatal(err)
	}
}
