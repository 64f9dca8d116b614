package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All wrong settings of load are reported together, with the allowed values, before anything is sent.
func TestLoad_WrongUsage(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "ready.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ args, want string }{
		{"--rate 5 --clients 5", "only one of --rate, --clients and --phases"},
		{"--rate=-5", "must be positive"},
		{"--duration 0s", "must be positive"},
		{"--clients 100000", "at most 20000 clients"},
		{"--phases ramp", "NAME DURATION LEVEL"},
		{"--mix read=100", "the kinds: create-user"},
		{"--mix db-read=50", "add up to 50 percent"},
		{"--gateway nowhere", "--users or --gateway"},
		{"--orchestrator nowhere", "--orchestrator"},
		{"--ready-file /does/not/exist", "--ready-file"},
		{"--ready-file " + broken, "--ready-file"},
		{"--max-failed 101", "between 0 and 100"},
		{"--pool-users 1 --mix read=100 --rate=-1", "at least 2"},
		{"--pool-users 1 --mix read=100 --rate=-1", "the kinds"},
		{"--pool-users 1 --mix read=100 --rate=-1", "must be positive"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"load"}, strings.Fields(test.args)...), &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("%s: got %d, %s, want %d with %q", test.args, code, &stderr, exitUsage, test.want)
		}
	}
}

// A system that is not there is a failure, not a wrong usage.
func TestLoad_NobodyThere_ExitsFailed(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"load", "--orchestrator", "http://127.0.0.1:1"}, &stdout, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "no system there, set --orchestrator or --ready-file") {
		t.Errorf("got %d, %s, want %d and what to do", code, &stderr, exitFailed)
	}
}
