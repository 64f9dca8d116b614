package testenv_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// A private service keeps its URL when it is killed and started again, and is
// reached neither while it is dead nor while it is frozen.
func TestStartZooKeeper_FaultsAndReturn(t *testing.T) {
	s := testenv.StartZooKeeper(t)
	first := s.URL
	t.Setenv("ZOOKEEPER_URL", first)
	mustReach := func(when string, want bool) {
		t.Helper()
		_, end := require(t, testenv.ZooKeeper)
		if reached := end == ""; reached != want {
			t.Fatalf("%s: got %q, want reached %v", when, end, want)
		}
	}
	mustReach("started", true)
	s.Kill(t)
	mustReach("killed", false)
	s.Start(t)
	if s.URL != first {
		t.Errorf("URL after the restart: got %s, want %s", s.URL, first)
	}
	s.Start(t)
	mustReach("started again", true)
	s.Pause(t)
	s.Resume(t)
	mustReach("resumed", true)
	s.Wipe(t)
	mustReach("wiped", false)
	s.Start(t)
	mustReach("started empty", true)
	if s.URL != first {
		t.Errorf("URL after the loss of its data: got %s, want %s", s.URL, first)
	}
}

// Services whose owner was killed end by themselves; another process that now has the pid is not taken for the
// service.
func TestServicesScript_OwnerGoneEndsService(t *testing.T) {
	testenv.StartZooKeeper(t) // where it is not available, this is not tested either
	dir := t.TempDir()
	script := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "../../../tools/services.sh", append(args, "--dir", dir, "zookeeper")...)
		cmd.Env = append(os.Environ(), "SERVICES_INSTALL=no")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// This test's pid, at another time.
	write(t, filepath.Join(dir, "zookeeper", "zookeeper.pid"), strconv.Itoa(os.Getpid())+" 1 another-boot\n")
	if out, err := script("stop"); err != nil {
		t.Fatalf("stop with a stale pid: %v: %s", err, out)
	}
	owner := exec.CommandContext(t.Context(), "sleep", "3600")
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	if out, err := script("start", "--owner", strconv.Itoa(owner.Process.Pid)); err != nil {
		t.Fatalf("start: %v: %s", err, out)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	testenv.Eventually(t, 30*time.Second, func() error {
		out, err := script("status")
		if err == nil || !strings.Contains(out, "does not run") {
			return errors.New("it runs on: " + out)
		}
		return nil
	})
}
