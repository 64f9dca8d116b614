// Package containers tests the delivered stack: the images, docker-compose.yml and `make up`, with workers as containers.
// It calls the stack, and breaks it, from outside.
//
// It needs a Docker engine. Without one the tests fail if CI is set, and are otherwise skipped with a visible message.
// Each run has a project name and ports of its own, so several run side by side. When it fails, the logs of all containers
// are kept in bin/containers-NAME.
package containers

import (
	"os/exec"
	"strings"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// requireEngine ends the test unless a Docker engine answers.
func requireEngine(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput()
	if err == nil {
		return
	}
	testenv.Cannot(t, false, "no Docker engine: %v: %s", err, strings.TrimSpace(string(out)))
}

// TestStack brings the stack up once and causes one fault after the other while a client writes all the time. After each
// fault the stack recovers by itself, `rideshare check` finds nothing wrong, and no acknowledged write is lost.
func TestStack(t *testing.T) {
	requireEngine(t)
	s := newStack(t)
	s.writeArchiveKey(t)
	s.up(t)
	// phase runs a phase. If it fails, its logs are kept as they are at that moment.
	phase := func(name string, run func(t *testing.T)) {
		if !t.Run(name, run) {
			s.keepLogs(t, name)
		}
	}
	phase("Inspect", s.testInspect)
	phase("Networks", s.testNetworks)
	phase("Published", s.testPublished)
	phase("API", s.testAPI)
	phase("Console", s.testConsole)
	phase("Observe", s.testObserve)
	w := s.startWriter(t)
	// fault is a phase after which the stack must recover completely. Until then the affected service may give no answers.
	fault := func(name, service string, run func(t *testing.T)) {
		phase(name, func(t *testing.T) {
			t.Helper()
			w.expect(service)
			run(t)
			s.awaitWhole(t)
			w.expect("")
		})
	}
	for _, role := range []string{"master", "slave"} {
		fault("Crash_"+role, "", func(t *testing.T) { t.Helper(); s.crash(t, role) })
		fault("Pause_"+role, "", func(t *testing.T) { t.Helper(); s.pauseWorker(t, role) })
	}
	fault("Alerts", "", s.testAlerts)
	fault("NewSlaves", "", s.testNewSlaves)
	for _, service := range services {
		fault("Kill_"+service, service, func(t *testing.T) { t.Helper(); s.killProcess(t, service) })
	}
	for _, service := range services[:6] {
		fault("Restart_"+service, service, func(t *testing.T) { t.Helper(); s.restart(t, service) })
	}
	fault("NewAddress_rabbitmq", "rabbitmq", func(t *testing.T) { t.Helper(); s.newAddress(t, "rabbitmq") })
	fault("NewAddress_zookeeper", "zookeeper", func(t *testing.T) { t.Helper(); s.testZooKeeperElsewhere(t, w) })
	w.stop() // a new user is looked up first, and reads scale the slaves
	phase("Acknowledged", w.verify)
	fault("Bombs", "", s.testBombs)
	phase("Settings", s.testSettings)
	phase("Scale", s.testScale)
	phase("DownAndUp", func(t *testing.T) { t.Helper(); s.testDownAndUp(t, w) })
	phase("Auth", s.testAuth)
	phase("TLS", s.testTLS)
	phase("Restore", func(t *testing.T) { t.Helper(); s.testRestore(t, w) })
	phase("ConsoleSignedIn", s.testConsoleSignedIn)
	phase("Down", s.testDown)
	for _, line := range s.failed { // once more at the end, where they are found
		t.Log(line)
	}
}
