// Package uptest runs `rideshare up` as a process, for tests of what uses its HTTP API. RIDESHARE_E2E_FLAGS chooses the
// bus, the coordinator and the launcher, as for tests/e2e.
package uptest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

const (
	startLimit = time.Minute
	stopLimit  = 20 * time.Second
)

// built is the binary under test. Main makes it.
var built string

// Main builds the binary, runs the tests, and returns the exit code. root is the path of the module.
func Main(m *testing.M, root string) int {
	dir, err := os.MkdirTemp("", "rideshare-up-")
	if err == nil {
		built = filepath.Join(dir, "rideshare")
		err = testenv.BuildBinary(built)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build rideshare:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	sources = root
	return m.Run()
}

var (
	sources string
	systems atomic.Int64 // numbers the systems of a run
)

// Start runs a system for tb alone, ends it with tb, and returns the orchestrator's URL.
func Start(tb testing.TB, flags ...string) string {
	tb.Helper()
	if err := testenv.NoteSources(sources); err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	ready := filepath.Join(dir, "ready.json")
	args := append([]string{
		"up", "--data", filepath.Join(dir, "data"), "--ready-file", ready,
		"--gateway", "127.0.0.1:0", "--users", "127.0.0.1:0", "--rides", "127.0.0.1:0", "--orchestrator", "127.0.0.1:0",
	}, flags...)
	id := fmt.Sprintf("up-%d-%d", os.Getpid(), systems.Add(1))
	args = append(args, strings.Fields(strings.ReplaceAll(os.Getenv("RIDESHARE_E2E_FLAGS"), "{id}", id))...)
	cmd := exec.Command(built, args...) //nolint:gosec,noctx // The test's own binary; it is ended by a signal.
	// The deadline is less than the 10 s of the examples' client.
	cmd.Env = append([]string{"CALL_TIMEOUT=9s"}, os.Environ()...)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // It may have ended by itself.
		select {
		case err := <-ended:
			if err != nil {
				tb.Errorf("rideshare up: %v", err)
			}
			if tb.Failed() {
				tb.Logf("rideshare up:\n%s", &log)
			}
		case <-time.After(stopLimit):
			_ = cmd.Process.Kill() // It does not end by itself.
			tb.Errorf("rideshare up did not end after SIGTERM: %v\n%s", <-ended, &log)
		}
	})
	return await(tb, ready, ended)
}

// await returns the orchestrator's URL once the system is ready.
func await(tb testing.TB, ready string, ended chan error) string {
	tb.Helper()
	var urls struct{ Orchestrator string }
	testenv.Eventually(tb, startLimit, func() error {
		select {
		case err := <-ended:
			ended <- err
			tb.Fatalf("rideshare up ended: %v", err)
		default:
		}
		text, err := os.ReadFile(ready) //nolint:gosec // It is in the directory of the test.
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &urls)
	})
	return urls.Orchestrator
}
