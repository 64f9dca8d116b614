package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
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
		{"n9", "must be one of"},
		{"n3", "--start process"},
		{"n6", "--start process"},
		{"n1 --html x", "neither --html"},
		{"n1 --knee=-1 --html x", "must not be negative"},
		{"n1 --lane-limit 0", "adaptive"},
		{"n1 --rows 19", "--rows at least 20"},
		{"n1 --orchestrator nowhere", "--orchestrator"},
		{"--pool-users 1 --mix read=100 --rate=-1", "at least 2"},
		{"--pool-users 1 --mix read=100 --rate=-1", "the kinds"},
		{"--pool-users 1 --mix read=100 --rate=-1", "must be positive"},
		{"n5 --alarm-set true", "need each other"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"load"}, strings.Fields(test.args)...), &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("%s: got %d, %s, want %d with %q", test.args, code, &stderr, exitUsage, test.want)
		}
	}
}

// A scene that misses a goal is a failure, and says which. This system has no protection from overload: it accepts what is to be
// refused, and has nothing that was written.
func TestLoad_Scene_Missed_ExitsFailed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{}`
		if r.URL.RawQuery == "level=linearizable" {
			answer = `{"results":[{}]}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "n5.json")
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"load", "n5", "--short", "--orchestrator", server.URL, "--json", file}, &stdout, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "missed a goal") || !strings.Contains(stdout.String(), "MISSED  broker held open: accepted") {
		t.Errorf("got %d, %s%s, want %d and the missed check", code, &stdout, &stderr, exitFailed)
	}
	var result struct {
		OK     *bool
		Checks []any
	}
	if text, err := os.ReadFile(file); err != nil || json.Unmarshal(text, &result) != nil || result.OK == nil || *result.OK || len(result.Checks) == 0 {
		t.Errorf("got %s, %v, want the result", text, err)
	}
}

// A system that is not there is a failure, not a wrong usage.
func TestLoad_NobodyThere_ExitsFailed(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"load", "--orchestrator", "http://127.0.0.1:1"}, &stdout, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "no system there, set --orchestrator or --ready-file: GET http://127.0.0.1:1/api/v1/worker/list: dial tcp") {
		t.Errorf("got %d, %s, want %d and what to do", code, &stderr, exitFailed)
	}
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]\n")) }))
	defer there.Close()
	stderr.Reset()
	code = run(t.Context(), []string{"load", "--orchestrator", there.URL, "--gateway", "http://127.0.0.1:1"}, &stdout, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "no system there, set --users, --gateway or --ready-file: GET http://127.0.0.1:1/") {
		t.Errorf("a wrong gateway: got %d, %s, want %d and what to do", code, &stderr, exitFailed)
	}
}
