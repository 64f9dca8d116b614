package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scriptTimeout bounds one run of tools/services.sh; a start on a busy machine takes longest.
const scriptTimeout = 5 * time.Minute

// Service is a RabbitMQ or ZooKeeper of a test's own, which it may break. It ends
// with the test, also when the test's process is killed. Its methods fail the
// test that they are given, and are not safe for concurrent use.
type Service struct {
	// URL stays the same over Kill and Start.
	URL string

	name, dir, script string
}

// StartRabbitMQ starts a RabbitMQ for this test. A first start takes some 10 s.
func StartRabbitMQ(tb testing.TB) *Service {
	tb.Helper()
	return startService(tb, "rabbitmq", "RABBITMQ_URL")
}

// StartZooKeeper starts a ZooKeeper for this test, with tickTime 1 s and sessions of 2 s to 20 s. A start takes some 2 s.
func StartZooKeeper(tb testing.TB) *Service {
	tb.Helper()
	return startService(tb, "zookeeper", "ZOOKEEPER_URL")
}

func startService(tb testing.TB, name, variable string) *Service {
	tb.Helper()
	root, err := checkout()
	if err != nil {
		tb.Fatal(err)
	}
	s := &Service{name: name, dir: tb.TempDir(), script: filepath.Join(root, "tools", "services.sh")}
	// Cleanups run when the test's context is over.
	tb.Cleanup(func() {
		if _, stopErr := s.run(context.Background(), "stop"); stopErr != nil {
			tb.Errorf("stop %s: %v", name, stopErr)
		}
	})
	out, err := s.start(tb.Context())
	if err != nil {
		missing(tb, variable, err)
	}
	for line := range strings.Lines(out) {
		if address, ok := strings.CutPrefix(line, variable+"="); ok {
			s.URL = strings.TrimSpace(address)
		}
	}
	if s.URL == "" {
		tb.Fatalf("start %s: got %q, want a line with %s", name, out, variable)
	}
	return s
}

// Kill ends the service's process with SIGKILL. Its data stays.
func (s *Service) Kill(tb testing.TB) {
	tb.Helper()
	s.must(tb, "kill")
}

// Start starts it again after Kill, and returns when it answers. One that runs is no error.
func (s *Service) Start(tb testing.TB) {
	tb.Helper()
	if _, err := s.start(tb.Context()); err != nil {
		tb.Fatalf("start %s: %v", s.name, err)
	}
}

// Pause freezes its process with SIGSTOP until Resume.
func (s *Service) Pause(tb testing.TB) {
	tb.Helper()
	s.must(tb, "pause")
}

// Resume ends what Pause began.
func (s *Service) Resume(tb testing.TB) {
	tb.Helper()
	s.must(tb, "resume")
}

// Ctl runs rabbitmqctl on this RabbitMQ and returns what it prints.
func (s *Service) Ctl(tb testing.TB, args ...string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	out, err := output(exec.CommandContext(ctx, filepath.Join(s.dir, "rabbitmq", "rabbitmqctl"), args...)) //nolint:gosec // a tool of this test
	if err != nil {
		tb.Fatalf("rabbitmqctl %v: %v", args, err)
	}
	return out
}

func (s *Service) must(tb testing.TB, verb string) {
	tb.Helper()
	if _, err := s.run(tb.Context(), verb); err != nil {
		tb.Fatalf("%s %s: %v", verb, s.name, err)
	}
}

// start names this process as the owner: without it the service ends.
func (s *Service) start(ctx context.Context) (string, error) {
	return s.run(ctx, "start", "--owner", strconv.Itoa(os.Getpid()))
}

func (s *Service) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.script, append(args, "--dir", s.dir, s.name)...) //nolint:gosec // a script of this checkout
	// A test run installs nothing; `make services` does.
	cmd.Env = append(os.Environ(), "SERVICES_INSTALL=no")
	return output(cmd)
}

// output runs a command and returns what it prints; an error has what it complains of.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("run: %w", err)
	}
	return string(out), nil
}
