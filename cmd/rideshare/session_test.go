package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
	"rideshare/worker"
)

// The parts of a distributed system, with what each must have.
var stackParts = []string{
	"worker --bus amqp://127.0.0.1:1/ --coordinator zk://127.0.0.1:1 --persdb-url http://127.0.0.1:1",
	"orchestrator --bus amqp://127.0.0.1:1/ --coordinator zk://127.0.0.1:1 --persdb-url http://127.0.0.1:1",
	"launcher --bus amqp://127.0.0.1:1/ --coordinator zk://127.0.0.1:1 --persdb-url http://127.0.0.1:1",
	"up --bus amqp://127.0.0.1:1/ --coordinator zk://127.0.0.1:1 --launcher process",
	"bench failover --launcher process",
}

// runFailing runs a command that must refuse its settings.
func runFailing(t *testing.T, args, want string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), strings.Fields(args), &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), want) {
		t.Errorf("%s: got %d, %s, want %d with %q", args, code, &stderr, exitUsage, want)
	}
}

// Every part that has sessions at ZooKeeper refuses the lengths that cannot be, from flag and environment.
func TestSession_OutOfBounds(t *testing.T) {
	for _, part := range stackParts {
		for _, length := range []string{"0s", "1999ms", "60001ms"} {
			runFailing(t, part+" --session "+length, "is not between 2s and 1m0s")
		}
		runFailing(t, part+" --session soon", "--session")
	}
	t.Setenv("RIDESHARE_SESSION", "1s")
	for _, part := range stackParts {
		runFailing(t, part, "--session: 1s is not between")
	}
}

// The bounds themselves are allowed.
func TestSession_Bounds(t *testing.T) {
	for _, length := range []time.Duration{2 * time.Second, time.Minute} {
		if err := (sessionSetting{Session: length}).checkSession(); err != nil {
			t.Errorf("%v: got %v, want no error", length, err)
		}
	}
}

// Where there is no ZooKeeper of ours a length would silently change nothing, and so would settings of containers where workers are
// none. Those of the environment may be for other commands.
func TestSettings_WithoutEffect(t *testing.T) {
	t.Setenv("WORKER_PIDS", "99")
	t.Setenv("RIDESHARE_SESSION", "20s")
	for _, command := range []string{"up", "bench failover", "bench failover --orchestrator http://127.0.0.1:1"} {
		runFailing(t, command+" --session 4s", "--session: 4s would change nothing")
	}
	runFailing(t, "up --docker-image foo", "--docker-image: foo would change nothing without --launcher docker")
	runFailing(t, "up --worker-cpus 7 --slaves 0", "--worker-cpus: 7 would change nothing")
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"up", "--slaves", "0"}, &stdout, &stderr)
	if code != exitUsage || strings.Contains(stderr.String(), "would change nothing") {
		t.Errorf("got %d, %s, want %d and nothing about WORKER_PIDS and RIDESHARE_SESSION", code, &stderr, exitUsage)
	}
}

// The help of every part shows the setting and its default.
func TestSession_Help(t *testing.T) {
	for _, command := range []string{"worker", "orchestrator", "launcher", "up", "bench failover"} {
		var stdout, stderr bytes.Buffer
		run(t.Context(), append(strings.Fields(command), "--help"), &stdout, &stderr)
		for _, want := range []string{"--session=6s", "RIDESHARE_SESSION"} {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("%s --help does not show %s", command, want)
			}
		}
	}
}

// ZooKeeper grants a worker the length that was set.
func TestSession_IsGranted(t *testing.T) {
	cfg := worker.Config{ID: "session-test", Log: slog.New(slog.DiscardHandler)}
	s := stack{Coordinator: testenv.ZooKeeper(t) + "/session-test", PersdbURL: "http://127.0.0.1:1", sessionSetting: sessionSetting{Session: 4 * time.Second}}
	if _, err := s.connect(&cfg, "amqp://127.0.0.1:1/", nil, nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cfg.Bus.Close() }()
	session, err := cfg.Coordinator.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	if got := session.Timeout(); got != 4*time.Second {
		t.Errorf("got a session of %v, want 4s", got)
	}
}
