package docker_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/client"

	"rideshare/internal/testkit/testenv"
)

// ownEngine is a container engine for one test, which may break it. It has its own network namespace, since two engines
// in one namespace disturb each other's bridges.
type ownEngine struct {
	*bench
	dir, namespace string
	flags          []string
	daemon         *exec.Cmd
}

// needEngine ends the test where it cannot have its own engine.
func needEngine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED: an engine of its own takes long")
	}
	for _, program := range []string{"dockerd", "nsenter", "ip"} {
		if _, err := exec.LookPath(program); err != nil || os.Getuid() != 0 {
			testenv.Cannot(t, false, "no engine to break: needs root and %s (%v)", program, err)
		}
	}
}

// newOwnEngine starts an engine, in this process's namespace if a test has made the namespace for it.
func newOwnEngine(t *testing.T, flags ...string) *ownEngine {
	t.Helper()
	needEngine(t)
	dir, err := os.MkdirTemp("", "rseng") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	e := &ownEngine{dir: dir, namespace: os.Getenv(namespaceEnv), flags: flags}
	t.Cleanup(func() { e.remove(t) })
	if e.namespace == "" {
		e.namespace = filepath.Base(dir)
		addNamespace(t, e.namespace)
	}
	if err = os.WriteFile(e.path("none.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	host := "unix://" + e.path("s")
	sdk, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	e.bench = &bench{host: host, sdk: sdk, image: runName + ":stub", network: "host"}
	e.start(t)
	if err = e.importImage(t.Context(), stubWorker, e.path("stub")); err != nil {
		t.Fatalf("import the image: %v", err)
	}
	return e
}

func (e *ownEngine) path(name string) string { return filepath.Join(e.dir, name) }

// start starts the daemon and returns when it answers.
func (e *ownEngine) start(t *testing.T) {
	t.Helper()
	args := append([]string{
		"--net=/run/netns/" + e.namespace, "dockerd", "--config-file=" + e.path("none.json"), "--data-root=" + e.path("data"),
		"--exec-root=" + e.path("exec"), "--pidfile=" + e.path("pid"), "--bridge=none", "--iptables=false", "-H", "unix://" + e.path("s"),
	}, e.flags...)
	log, err := os.OpenFile(e.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the daemon has its own copy
	e.daemon = exec.Command("nsenter", args...)
	e.daemon.Stdout, e.daemon.Stderr = log, log
	if err = e.daemon.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, limit, func() error {
		_, err := e.sdk.Ping(context.Background())
		return err
	})
}

// kill kills the daemon, and returns once nothing that it leaves behind can block the next one.
func (e *ownEngine) kill(t *testing.T) {
	t.Helper()
	if err := e.daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = e.daemon.Wait() // it was killed
	text, err := os.ReadFile(e.path("exec/containerd/containerd.pid"))
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, limit, func() error {
		if _, err := os.Stat("/proc/" + strings.TrimSpace(string(text))); err == nil {
			return errors.New("containerd is there still")
		}
		return nil
	})
	_ = os.Remove(e.path("pid"))
}

// remove ends all that belongs to the engine.
func (e *ownEngine) remove(t *testing.T) {
	t.Helper()
	if t.Failed() {
		log, _ := os.ReadFile(e.path("log"))
		t.Logf("log of the engine:\n%s", log[max(0, len(log)-8000):])
	}
	if e.daemon != nil && e.daemon.ProcessState == nil {
		_ = e.daemon.Process.Signal(syscall.SIGTERM)
		_ = e.daemon.Wait()
	}
	if e.bench != nil {
		_ = e.sdk.Close()
	}
	for _, pid := range e.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	testenv.Eventually(t, limit, func() error {
		if left := e.processes(); len(left) > 0 {
			return errors.New("processes are left")
		}
		return nil
	})
	mounts, _ := os.ReadFile("/proc/self/mounts")
	lines := slices.Collect(strings.Lines(string(mounts)))
	for _, line := range slices.Backward(lines) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], e.dir+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH)
		}
	}
	_ = exec.Command("ip", "netns", "del", e.namespace).Run()
	if err := os.RemoveAll(e.dir); err != nil {
		t.Errorf("remove the engine: %v", err)
	}
}

// processes returns the pids of the engine's own, which have its directory in their arguments.
func (e *ownEngine) processes() []int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var pids []int
	for _, file := range files {
		args, err := os.ReadFile(file)
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && bytes.Contains(args, []byte(e.dir+"/")) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// addNamespace makes a network namespace with nothing but a loopback address.
func addNamespace(t *testing.T, name string) {
	t.Helper()
	run(t, "ip", "netns", "add", name)
	run(t, "ip", "-n", name, "link", "set", "lo", "up")
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}
