package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// A stop while the database is opened is no failure. An opening of so little notices the stop in one of two cases only.
func TestUp_StoppedWhileOpening_ExitsZero(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	args := "up --gateway 127.0.0.1:0 --users 127.0.0.1:0 --rides 127.0.0.1:0 --orchestrator 127.0.0.1:0 --log-level error --data " + t.TempDir()
	for range 12 {
		var stdout, stderr lines
		if code := run(ctx, strings.Fields(args), &stdout, &stderr); code != exitDone || stderr.text.String() != "" {
			t.Fatalf("got exit code %d and stderr %q, want %d and nothing", code, stderr.text.String(), exitDone)
		}
	}
}

// The persdb of up listens at 127.0.0.1, where workers in a network of the engine cannot reach it.
func TestUp_NetworkOfTheEngine(t *testing.T) {
	const up = "up --bus amqp://127.0.0.1:1/ --coordinator zk://127.0.0.1:1 --slaves 0 --launcher "
	runFailing(t, up+"docker --docker-network mine", "--docker-network (LAUNCHER_NETWORK): workers in mine cannot reach")
	t.Setenv("LAUNCHER_NETWORK", "theirs")
	runFailing(t, up+"docker", "--docker-network (LAUNCHER_NETWORK): workers in theirs cannot reach")
	var stdout, stderr bytes.Buffer
	for _, allowed := range []string{"process", "docker --docker-network host"} {
		run(t.Context(), strings.Fields(up+allowed), &stdout, &stderr)
	}
	if strings.Contains(stderr.String(), "LAUNCHER_NETWORK") {
		t.Errorf("got %s, want nothing about the network", &stderr)
	}
}
