package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// busyAddress returns an address at which somebody listens until the test ends.
func busyAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// A part with an occupied port ends with one line that names the port and its setting, before it opens anything.
func TestParts_PortOccupied_NameTheSetting(t *testing.T) {
	const stack = " --bus amqp://127.0.0.1:1/ --coordinator zk://127.0.0.1:1 --persdb-url http://127.0.0.1:1"
	addr, data := busyAddress(t), filepath.Join(t.TempDir(), "data")
	for args, settings := range map[string]string{
		"persdb --data " + data + " --listen ":                                                                 "--listen (PERSDB_LISTEN)",
		"orchestrator --data " + data + stack + " --listen ":                                                   "--listen (ORCHESTRATOR_LISTEN)",
		"launcher --data " + data + stack + " --listen ":                                                       "--listen (LAUNCHER_LISTEN)",
		"worker --id w-1 --dir " + data + stack + " --listen ":                                                 "--listen (WORKER_LISTEN)",
		"users --orchestrator-url http://127.0.0.1:1 --listen ":                                                "--listen (USERS_LISTEN)",
		"rides --gateway-url http://127.0.0.1:1 --orchestrator-url http://127.0.0.1:1 --listen ":               "--listen (RIDES_LISTEN)",
		"gateway --users-url http://127.0.0.1:1 --rides-url http://127.0.0.1:2 --listen ":                      "--listen (GATEWAY_LISTEN)",
		"persdb --data " + data + " --listen 127.0.0.1:0 --admin ":                                             "--admin (RIDESHARE_ADMIN)",
		"up --gateway 127.0.0.1:0 --users 127.0.0.1:0 --orchestrator 127.0.0.1:0 --data " + data + " --rides ": "--rides (RIDESHARE_RIDES)",
	} {
		var stdout, stderr lines
		code := run(t.Context(), strings.Fields(args+addr), &stdout, &stderr)
		text := stderr.text.String()
		want := "listen on " + addr + ": address already in use: end what listens there, or choose another with " + settings + "\n"
		if code != exitFailed || !strings.HasSuffix(text, want) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: got exit code %d and stderr %q, want %d and one line that ends with %q", args, code, text, exitFailed, want)
		}
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data folder was made")
	}
}

// The ports of up that are occupied are all in one line, with the settings of these and of no others.
func TestUp_PortsOccupied_OneLine(t *testing.T) {
	users, rides := busyAddress(t), busyAddress(t)
	var stdout, stderr lines
	code := run(t.Context(), []string{"up", "--gateway", "127.0.0.1:0", "--users", users, "--rides", rides, "--orchestrator", "127.0.0.1:0", "--data", t.TempDir()}, &stdout, &stderr)
	want := "rideshare: users: listen on " + users + ": address already in use; rides: listen on " + rides +
		": address already in use: end what listens there, or choose another with --rides (RIDESHARE_RIDES), --users (RIDESHARE_USERS)\n"
	if got := stderr.text.String(); code != exitFailed || got != want {
		t.Errorf("got exit code %d and stderr %q, want %d and %q", code, got, exitFailed, want)
	}
}
