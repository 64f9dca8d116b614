package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"rideshare/internal/testkit/uptest"
	"rideshare/orchestrator/scale"
	"rideshare/rides/usercheck"
	"rideshare/system"
)

// realParts is set to run each test on a system of its own, with the bus, the coordinator and the launcher that it chooses.
const realParts = "RIDESHARE_E2E_FLAGS"

var (
	// embedded is the URL of the database in this process that the tests share. Each test sells goods of its own.
	embedded string
	// started are the URLs of the databases on real parts, by test.
	started = map[string]string{}
)

// database returns the URL of the database of a test.
func database(t *testing.T) string {
	t.Helper()
	if os.Getenv(realParts) == "" {
		return embedded
	}
	if started[t.Name()] == "" {
		started[t.Name()] = uptest.Start(t)
	}
	return started[t.Name()]
}

// instance is set in a process of this test that the scene leases starts: it is the command itself.
const instance = "FLASHSALE_INSTANCE"

func TestMain(m *testing.M) {
	if os.Getenv(instance) != "" {
		main()
		return
	}
	if os.Getenv(realParts) != "" {
		os.Exit(uptest.Main(m, "../..")) //nolint:forbidigo // TestMain is a test's main.
	}
	if err := withDatabase(m); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // TestMain is a test's main.
	}
}

func withDatabase(m *testing.M) (err error) {
	data, err := os.MkdirTemp("", "flashsale")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(data) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const anyPort = "127.0.0.1:0"
	s, err := system.Start(ctx, system.Config{
		Log: slog.New(slog.DiscardHandler), Data: data, Name: "flashsale", Slaves: 1, CallTimeout: 9 * time.Second, // less than the client's 10 s

		Gateway: anyPort, Users: anyPort, Rides: anyPort, Orchestrator: anyPort,
		Scale:     system.Scale{Settings: scale.Settings{Policy: "reads", Min: 1, Max: 1, ReadsPerSlave: 20}, Period: time.Hour},
		RideRules: system.RideRules{Now: time.Now, Location: time.UTC, UserCheck: usercheck.Lookup},
	})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.Background()) }()
	if err = s.Ready(ctx); err != nil {
		return err
	}
	embedded = s.URLs().Orchestrator
	if code := m.Run(); code != 0 {
		return fmt.Errorf("tests failed with code %d", code)
	}
	return nil
}

// start starts an instance of the service, and returns its URL.
func start(t *testing.T, args ...string) string {
	t.Helper()
	settings, err := parse(append([]string{"--database", database(t)}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, settings, listener, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}
