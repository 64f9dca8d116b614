package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/settings"
	"rideshare/internal/testkit/testenv"
)

// parts is a system whose parts run as separate processes, as in containers: persdb, launcher, orchestrator.
type parts struct {
	dir, id, orchestrator, persdb string
	stack                         []string // settings of launcher and orchestrator
	processes                     map[string]*process
}

// startParts starts all but the orchestrator, on the shared broker and coordinator.
func startParts(t *testing.T) *parts {
	t.Helper()
	p := newParts(t)
	p.start(t, "persdb", "--listen", p.persdb, "--data", p.path("persdb"))
	p.startLauncher(t)
	return p
}

// newParts starts nothing yet.
func newParts(t *testing.T) *parts {
	t.Helper()
	rabbit, zoo := testenv.RabbitMQ(t), testenv.ZooKeeper(t)
	p := &parts{
		dir: t.TempDir(), id: fmt.Sprintf("e2e-%d-%d", os.Getpid(), systems.Add(1)),
		orchestrator: testenv.FreeAddress(t), persdb: testenv.FreeAddress(t), processes: map[string]*process{},
	}
	p.stack = []string{"--bus", rabbit, "--coordinator", zoo + "/" + p.id, "--prefix", p.id + "-", "--persdb-url", "http://" + p.persdb}
	if err := os.WriteFile(p.path("token"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end(t) })
	return p
}

func (p *parts) path(name string) string { return filepath.Join(p.dir, name) }

func (p *parts) start(t *testing.T, name string, args ...string) {
	t.Helper()
	p.startAs(t, name, append([]string{name}, args...)...)
}

// startAs starts a part under a name of its own.
func (p *parts) startAs(t *testing.T, name string, args ...string) {
	t.Helper()
	started, err := startProcess(p.path(name+".log"), []string{patientWorkers, markerEnv + "=" + p.id}, args...)
	if err != nil {
		t.Fatal(err)
	}
	p.processes[name] = started
}

func (p *parts) startLauncher(t *testing.T) {
	t.Helper()
	p.start(t, "launcher", append(p.stack, "--listen", "unix://"+p.path("l.sock"), "--token-file", p.path("token"), "--data", p.path("launcher"))...)
}

func (p *parts) startOrchestrator(t *testing.T) {
	t.Helper()
	p.start(t, "orchestrator", append(p.stack, "--listen", p.orchestrator, "--launcher", "unix://"+p.path("l.sock"),
		"--launcher-token-file", p.path("token"), "--data", p.path("orchestrator"))...)
}

// kill ends a part with SIGKILL.
func (p *parts) kill(t *testing.T, name string) {
	t.Helper()
	if err := p.processes[name].signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.processes[name].done
}

// end stops every part, the orchestrator first, and checks that nothing is left.
func (p *parts) end(t *testing.T) {
	t.Helper()
	for _, name := range []string{"orchestrator", "launcher", "persdb", "second"} {
		p.stop(t, name)
	}
	testenv.Eventually(t, stopLimit, func() error {
		if left := processesOf(p.id); len(left) > 0 {
			return fmt.Errorf("processes %v are left", left)
		}
		return nil
	})
	for name := range p.processes {
		if log, err := os.ReadFile(p.path(name + ".log")); err == nil && t.Failed() {
			t.Logf("log of %s:\n%s", name, log[max(0, len(log)-6000):])
		}
	}
}

// stop ends a part, if it was started.
func (p *parts) stop(t *testing.T, name string) {
	t.Helper()
	one := p.processes[name]
	if one == nil {
		return
	}
	_ = one.signal(syscall.SIGCONT) // a test may have paused it.
	_ = one.signal(syscall.SIGTERM)
	select {
	case <-one.done:
	case <-time.After(2 * stopLimit):
		t.Errorf("%s did not end", name)
	}
}

// ready waits until the orchestrator and all behind it serve, and returns the pids of master and slaves.
func (p *parts) ready(t *testing.T) []int {
	t.Helper()
	var pids []int
	testenv.Eventually(t, startLimit, func() error {
		resp, err := http.Get("http://" + p.orchestrator + "/readyz")
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %s", resp.Status)
		}
		if resp, err = http.Get("http://" + p.orchestrator + "/api/v1/worker/list"); err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if err = json.NewDecoder(resp.Body).Decode(&pids); err == nil && len(pids) != 2 {
			err = fmt.Errorf("got workers %v, want a master and a slave", pids)
		}
		return err
	})
	return pids
}

// wantSettings waits until the orchestrator returns the settings of every other part. It does not wait long for a part that
// stands still.
func (p *parts) wantSettings(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, startLimit, func() error {
		resp, err := http.Get("http://" + p.orchestrator + "/api/v1/settings")
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		var told struct{ Parts []settings.Part }
		if err = json.NewDecoder(resp.Body).Decode(&told); err != nil {
			return err
		}
		var names []string
		for _, part := range told.Parts {
			names = append(names, part.Part)
			if part.Error != "" || !slices.ContainsFunc(part.Settings, func(s settings.Setting) bool { return s.Source == "flag" }) {
				return fmt.Errorf("the settings of %s %s: got %v and error %q, want some from flags", part.Part, part.Instance, part.Settings, part.Error)
			}
		}
		if want := []string{"persdb", "launcher", "worker", "worker"}; !slices.Equal(names, want) {
			return fmt.Errorf("got the settings of %v, want those of %v", names, want)
		}
		return nil
	})
}

// Workers belong to the launcher: they outlive the orchestrator, whether it is terminated or killed, and the next
// orchestrator adopts them. They end with the launcher, and a new launcher starts new workers.
func TestLauncher_WorkersOutliveTheOrchestrator(t *testing.T) {
	t.Parallel()
	p := startParts(t)
	p.startOrchestrator(t)
	first := p.ready(t)
	p.wantSettings(t)
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		one := p.processes["orchestrator"]
		if err := one.signal(signal); err != nil {
			t.Fatal(err)
		}
		<-one.done
		for _, pid := range first {
			if err := syscall.Kill(pid, 0); err != nil {
				t.Errorf("worker %d after %v of the orchestrator: %v, want it alive", pid, signal, err)
			}
		}
		p.startOrchestrator(t)
		if pids := p.ready(t); !slices.Equal(pids, first) {
			t.Errorf("workers after %v of the orchestrator: got %v, want %v", signal, pids, first)
		}
	}
	p.kill(t, "launcher")
	testenv.Eventually(t, stopLimit, func() error {
		for _, pid := range first {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) { // nil while it is there
				return fmt.Errorf("worker %d is there still", pid)
			}
		}
		return nil
	})
	p.startLauncher(t)
	if pids := p.ready(t); slices.Contains(pids, first[0]) || slices.Contains(pids, first[1]) {
		t.Errorf("workers of a new launcher: got %v, want others than %v", pids, first)
	}
}
