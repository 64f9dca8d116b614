package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// markerEnv is in the environment of a system and of its children, so that the
// harness can find what is left over.
const markerEnv = "RIDESHARE_E2E_SYSTEM"

// process is one run of the binary.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone and reaped
	err  error         // how it ended; readable once done is closed
}

// startProcess runs the binary and appends its output to a file. It uses a file and not a pipe, so that the last output
// of a killed process is not lost.
func startProcess(logFile string, env []string, args ...string) (*process, error) {
	if err := noteSources(); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // The child has its own copy.
	cmd := exec.Command(suite.binary, args...)
	cmd.Env = append(cleanEnv(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err = cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal sends sig; a process that has ended already is no error.
func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// cleanEnv returns this environment without settings that a developer may have set and that would change the results of
// tests.
func cleanEnv() []string {
	var kept []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		setting := strings.HasPrefix(name, "RIDES_") || strings.HasPrefix(name, "SCALE_") ||
			strings.HasSuffix(name, "AUTH_FILE") || strings.HasPrefix(name, "TLS_") || strings.HasPrefix(name, "LOG_") || strings.HasPrefix(name, "OTEL_") || name == "CALL_TIMEOUT" || name == "STARTS_PER_MINUTE" || name == "HUNG_AFTER" || name == "RIDESHARE_SESSION"
		if !setting {
			kept = append(kept, pair)
		}
	}
	return kept
}

// processesOf returns the pids of the processes of a system, by the marker in
// their environment. Where there is no /proc it finds none.
func processesOf(id string) []int {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	marker := []byte(markerEnv + "=" + id + "\x00")
	var pids []int
	for _, path := range paths {
		env, err := os.ReadFile(path) // The process has ended, or belongs to another user.
		if err != nil || !bytes.Contains(env, marker) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ended is how a short run of the binary ended.
type ended struct {
	code           int
	stdout, stderr string
}

// runBinary runs the binary until it ends, which must be soon.
func runBinary(t *testing.T, env []string, args ...string) ended {
	t.Helper()
	return runInput(t, "", env, args...)
}

// runInput is runBinary with a standard input.
func runInput(t *testing.T, input string, env []string, args ...string) ended {
	t.Helper()
	if err := noteSources(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), suite.binary, args...)
	cmd.Env = append(cleanEnv(), env...)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	limit := time.AfterFunc(startLimit, func() { _ = cmd.Process.Kill() })
	err := cmd.Run()
	if !limit.Stop() {
		t.Fatalf("%v: did not end within %v", args, startLimit)
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("%v: %v", args, err)
	}
	return ended{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

// expect checks the exit code, and that stderr is one line that contains want.
func (e ended) expect(t *testing.T, code int, want string) {
	t.Helper()
	if e.code != code {
		t.Errorf("exit code: got %d, want %d; stderr: %s", e.code, code, e.stderr)
	}
	if !strings.Contains(strings.ToLower(e.stderr), strings.ToLower(want)) {
		t.Errorf("stderr: got %q, want it to say %q", e.stderr, want)
	}
}

// eventually is short for testenv.Eventually.
func eventually(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	testenv.Eventually(t, limit, check)
}

// together calls each concurrently for 0..n-1, and returns the errors.
func together(n int, each func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = each(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}
