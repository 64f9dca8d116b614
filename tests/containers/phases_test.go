package containers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// apiTests matches the tests of the API that the way in which the parts are started and connected can break: they call all services, workers, or
// one service through another. The other tests of the API would show no more here than in make test-real.
const apiTests = "^(TestAsync_Write|TestBackup_EachForm|TestBodies_OverTheLimit|TestChanges_|TestClear_|TestCounters_(EachRequest|Reset)|TestGateway_|TestKeys_SameKeyAgain|" +
	"TestOperations_(Events_TellOf|Workers)|TestPositions_ReadWith|TestRides_(Count|EachCall|Seats)|TestSQL_(EachForm|Queue)|TestStructured_EachStatement|TestUsers_(Delete|EachCall|NameOf|SameName))"

// passing is how many tests that are.
const passing = 22

// Tests of the API, through the gateway. users and rides have no published port, so their counters are read at their
// addresses in the internal network, which this machine can reach.
func (s *stack) testAPI(t *testing.T) {
	t.Helper()
	out, err := s.tests(t, "e2e", "RIDESHARE_E2E_READY", map[string]string{
		"gateway": s.gateway, "orchestrator": s.orchestrator, "users": s.users(t), "rides": s.rides(t),
	}, "-run", apiTests)
	passed := strings.Count(out, "\n--- PASS: ")
	for line := range strings.Lines(out) {
		if strings.Contains(line, "e2e: ") {
			t.Log(line)
		}
	}
	if err != nil || passed != passing {
		t.Fatalf("tests of the API: %d passed, want %d (%v)\n%s", passed, passing, err, out)
	}
	t.Logf("%d tests of the API passed through the gateway", passed)
	s.awaitWhole(t)
}

func (s *stack) users(t *testing.T) string {
	t.Helper()
	return s.scheme() + s.address(t, "users", "services") + ":9510"
}

func (s *stack) rides(t *testing.T) string {
	t.Helper()
	return s.scheme() + s.address(t, "rides", "services") + ":9520"
}

// tests runs tests of a folder of tests/ on this stack. They find it by a ready file, which setting names.
func (s *stack) tests(t *testing.T, folder, setting string, contents map[string]string, flags ...string) (string, error) {
	t.Helper()
	ready, err := json.Marshal(contents)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ready.json")
	if err = os.WriteFile(file, ready, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(s.root, "bin", "image", "rideshare") // that of the image
	args := slices.Concat([]string{setting + "=" + file, "RIDESHARE_E2E_BINARY=" + binary, "go", "test", "-vet=off", "-count=1", "-v", "-timeout", "15m"}, testenv.RaceFlags(), flags, []string{"./tests/" + folder})
	out, err := s.run(t.Context(), "env", args...)
	for line := range strings.Lines(out) {
		if strings.Contains(line, "--- FAIL: ") || strings.Contains(line, "DATA RACE") || strings.HasPrefix(line, "panic: ") {
			s.failed = append(s.failed, folder+": "+strings.TrimSpace(line))
		}
	}
	return out, err
}

// crash calls crash/ROLE, which answers a pid. The worker with that pid is then gone.
func (s *stack) crash(t *testing.T, role string) {
	t.Helper()
	s.member(t, role) // there is one
	var pids []int
	text := s.call(t, http.MethodPost, s.orchestrator+"/api/v1/crash/"+role, "")
	if err := json.Unmarshal([]byte(text), &pids); err != nil || len(pids) != 1 {
		t.Fatalf("crash/%s: got %s (%v), want one pid", role, text, err)
	}
	for _, w := range s.workers(t) {
		if w.State.Pid == pids[0] {
			t.Errorf("crash/%s answered pid %d, which still runs as %s", role, pids[0], w.Name)
		}
	}
}

// pauseWorker freezes a worker. The orchestrator notices that it hangs, and removes it.
func (s *stack) pauseWorker(t *testing.T, role string) {
	t.Helper()
	frozen := s.member(t, role).Container
	s.docker(t, "pause", frozen)
	testenv.Eventually(t, wholeLimit, func() error {
		if slices.ContainsFunc(s.ids(t, "container"), func(id string) bool { return strings.HasPrefix(id, frozen) }) {
			return errors.New("the frozen worker is still there")
		}
		return nil
	})
}

// killProcess ends a container as its own failure would: not through the engine, which then restarts it.
func (s *stack) killProcess(t *testing.T, service string) {
	t.Helper()
	pid := s.of(t, service).State.Pid
	if pid == 0 {
		t.Fatalf("%s does not run", service)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d (this test needs root): %v", pid, err)
	}
	testenv.Eventually(t, wholeLimit, func() error {
		if now := s.of(t, service).State; now.Pid == pid || now.Pid == 0 {
			return fmt.Errorf("%s is not started again: %+v", service, now)
		}
		return nil
	})
}

// restart is `docker restart`.
func (s *stack) restart(t *testing.T, service string) {
	t.Helper()
	s.docker(t, "restart", s.of(t, service).ID)
}

// testScale runs the load test of tests/e2e on this stack: slaves are added under load and removed after it, and no request
// fails.
func (s *stack) testScale(t *testing.T) {
	t.Helper()
	out, err := s.tests(t, "e2e", "RIDESHARE_LOAD_READY_FILE", map[string]string{"gateway": s.gateway, "orchestrator": s.orchestrator},
		"-run", "^TestLoad_SlavesComeAndGo_NothingFails$")
	if err != nil || !strings.Contains(out, "--- PASS: TestLoad_SlavesComeAndGo_NothingFails") {
		t.Errorf("the load test: %v\n%s", err, out)
	}
	s.awaitOneSlave(t)
}

// set changes settings of the running stack.
func (s *stack) set(t *testing.T, settings ...string) {
	t.Helper()
	s.env = append(s.env, settings...)
	if _, err := s.run(t.Context(), "make", "--no-print-directory", "up"); err != nil {
		t.Fatal(err)
	}
}

// awaitOneSlave waits until scaling has removed all slaves but one, as it does after the reads of the load test.
func (s *stack) awaitOneSlave(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, wholeLimit, func() error {
		c, err := s.cluster(t.Context())
		if workers := len(s.workers(t)); err != nil || c.DesiredSlaves != 1 || workers != 2 {
			return fmt.Errorf("got %d workers, %+v (%w), want one slave and the master", workers, c, err)
		}
		return nil
	})
}

// `make down` keeps the data, and the next `make up`, with other settings, finds it: the number of slaves stays the same,
// and all parts use TLS.
func (s *stack) testDownAndUp(t *testing.T, w *writer) {
	t.Helper()
	s.down(t)
	volumes := s.ids(t, "volume")
	for _, name := range []string{"persdb", "archive", "rabbitmq", "zookeeper", "prometheus"} {
		if !slices.Contains(volumes, s.project+"_"+name) {
			t.Errorf("volumes after make down: got %v, want that of %s", volumes, name)
		}
	}
	s.env = append(s.env, "SCALE_PERIOD=1h")
	s.useTLS(t)
	s.up(t)
	w.verify(t)
}

// `make down VOLUMES=1` leaves nothing behind, even while workers run and one of them is frozen.
func (s *stack) testDown(t *testing.T) {
	t.Helper()
	s.docker(t, "pause", s.member(t, "slave").Container)
	s.down(t, "VOLUMES=1")
	if volumes := s.ids(t, "volume"); len(volumes) != 0 {
		t.Errorf("volumes after make down VOLUMES=1: got %v, want none", volumes)
	}
}

// down runs `make down` while workers run. No container and no network is left.
func (s *stack) down(t *testing.T, settings ...string) {
	t.Helper()
	if n := len(s.ids(t, "container", "label=com.docker.compose.service=worker")); n < 2 {
		t.Errorf("before make down: got %d workers, want at least two", n)
	}
	if _, err := s.run(t.Context(), "make", append([]string{"--no-print-directory", "down"}, settings...)...); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"container", "network"} {
		if left := s.ids(t, kind); len(left) != 0 {
			t.Errorf("left after make down: %s %v", kind, left)
		}
	}
}
