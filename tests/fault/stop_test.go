package fault_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// end is the cleanup: SIGTERM must end the system within its limit, with nothing left behind.
func (s *system) end(t *testing.T) {
	t.Helper()
	if s.running() {
		s.stop(t)
	}
	s.removeQueues(t)
	if t.Failed() {
		text, err := os.ReadFile(s.logFile())
		t.Logf("the last of the log (%v):\n%s", err, text[max(0, len(text)-20_000):])
	}
}

// wantRightCache fails the test if an audit of the read cache has found a wrong answer.
func (s *system) wantRightCache(t *testing.T) {
	t.Helper()
	wrong, err := s.metric(s.orchestrator, "rideshare_cache_mismatches_total", "")
	switch {
	case err != nil: // the test may have left the system without an answer
		t.Logf("the read cache's wrong answers are not known: %v", err)
	case wrong > 0 && !s.wrongCache:
		t.Errorf("the read cache had %v wrong answers", wrong)
	}
}

// stop looks at the audits of the read cache, and terminates up.
func (s *system) stop(t *testing.T) {
	t.Helper()
	s.wantRightCache(t)
	s.terminate(t)
}

// terminate sends SIGTERM and checks that the process ends in time and with exit code 0, and leaves nothing behind. A
// process that does not end is killed.
func (s *system) terminate(t *testing.T) {
	t.Helper()
	s.client.CloseIdleConnections()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
	if !testenv.Within(stopLimit, s.done) {
		t.Errorf("up still runs %v after SIGTERM", stopLimit)
		s.kill(t)
	}
	s.endPersdb()
	if s.err != nil {
		t.Errorf("how up ended: got %v, want exit status 0", s.err)
	}
	if _, err := os.Stat(s.readyFile()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ready file: got %v, want it removed", err)
	}
	if left := s.processes(); len(left) > 0 {
		t.Errorf("left behind: processes %v", left)
	}
}

// kill ends up with SIGKILL, and waits until its children have noticed that and ended.
func (s *system) kill(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Errorf("kill: %v", err)
	}
	<-s.done
	s.awaitNoChild(t)
}

// awaitNoChild waits until all children of the dead up have ended.
func (s *system) awaitNoChild(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, orphanLimit, func() error {
		if left := s.processes(); len(left) > 0 {
			return fmt.Errorf("children %v live on", left)
		}
		return nil
	})
	_ = os.Remove(s.readyFile())
}

// processes returns the pids of this system's processes, which it finds by the marker in their environment. A zombie
// has no environment and is not found.
func (s *system) processes() []int {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	marker := []byte(markerEnv + "=" + s.id + "\x00")
	var pids []int
	for _, path := range paths {
		env, err := os.ReadFile(path) // The process has ended, or belongs to another user.
		if err != nil || !bytes.Contains(env, marker) {
			continue
		}
		if pid, convErr := strconv.Atoi(filepath.Base(filepath.Dir(path))); convErr == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// persdb returns the pid of the system's persdb.
func (s *system) persdb(t *testing.T) int {
	t.Helper()
	for _, pid := range s.processes() {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.Contains(args, []byte("\x00persdb\x00")) {
			return pid
		}
	}
	t.Fatal("there is no persdb")
	return 0
}

// awaitDead waits until up has ended, for whatever reason.
func (s *system) awaitDead(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		if s.running() {
			return errors.New("up still runs")
		}
		return nil
	})
}

// settingOf returns the value of a flag on the command line of one of the system's processes.
func settingOf(pid int, flag string) (string, error) {
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "", err
	}
	_, behind, found := strings.Cut(string(args), "\x00"+flag+"\x00")
	if !found {
		return "", fmt.Errorf("process %d has no %s in %q", pid, flag, args)
	}
	value, _, _ := strings.Cut(behind, "\x00")
	return value, nil
}
