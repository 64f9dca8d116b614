package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// Every command for a running system goes past an orchestrator that is away to the next one.
func TestCommands_FirstOrchestratorAway(t *testing.T) {
	clusterStatus, err := json.Marshal(known())
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for pattern, answer := range map[string]string{
		"GET /api/v1/cluster": string(clusterStatus),
		"GET /readyz":         "{}",
		"POST /api/v1/check":  `{"ok":true,"invariants":[{"name":"log_dense","ok":true}]}`,
		"/db/":                `{"results":[{"columns":["a"],"types":["integer"],"values":[[4711]]}]}`,
		"GET /db/backup":      "SQLite format 3\x00",
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Cluster-Id", strings.Repeat("1", 32))
			_, _ = fmt.Fprint(w, answer)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	list := "http://" + testenv.FreeAddress(t) + "," + server.URL
	for _, test := range []struct {
		args []string
		want string // on standard output
	}{
		{[]string{"status", list}, "w-mwst8lc5-0001"},
		{[]string{"check", "--orchestrator", list}, "log_dense"},
		{[]string{"shell", list, "-c", "SELECT 4711", "--history", os.DevNull}, "4711"},
		{[]string{"backup", "-", "--orchestrator", list}, "SQLite format 3"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), test.args, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), test.want) {
			t.Errorf("%s: got %d, %q, %s, want %q", test.args[0], code, &stdout, &stderr, test.want)
		}
	}
}

// A wrong list is wrong usage, whatever the command, and the error names the wrong element.
func TestCommands_WrongAddresses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a part that starts all the same ends well
	defer cancel()
	file := filepath.Join(t.TempDir(), "backup.db")
	for _, list := range []struct{ text, want string }{
		{"http://a:1,", "is empty"},
		{"http://a:1,http://a:1", "is there twice"},
		{"http://a:1,https://b:1", "all are https"},
		{"http://a:1,http://b:1/path", "nothing may stand beside the host"},
	} {
		for _, args := range []string{
			"status LIST", "shell LIST -c x", "check --orchestrator LIST", "check --persdb LIST", "backup " + file + " --orchestrator LIST",
			"load --gateway LIST", "load --users LIST", "load --rides LIST", "load --orchestrator LIST", "load n1 --orchestrator LIST",
			"bench failover --orchestrator LIST", "users --orchestrator-url LIST", "rides --orchestrator-url LIST --gateway-url http://a:1",
			"rides --orchestrator-url http://a:1 --gateway-url LIST", "gateway --users-url LIST --rides-url http://a:1", "gateway --users-url http://a:1 --rides-url LIST",
		} {
			var stdout, stderr bytes.Buffer
			code := run(ctx, strings.Fields(strings.ReplaceAll(args, "LIST", list.text)), &stdout, &stderr)
			if code != exitUsage || !strings.Contains(stderr.String(), list.want) {
				t.Errorf("%s, %s: got %d, %s, want %d with %q", args, list.text, code, &stderr, exitUsage, list.want)
			}
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"status", "http://a:1,http://ann:secret@b:1"}, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "--auth-file") || strings.Contains(stderr.String(), "secret") {
		t.Errorf("credentials: got %d, %s", code, &stderr)
	}
	stderr.Reset()
	if code := run(ctx, strings.Fields("gateway --users-url http://a:1 --rides-url http://a:1 --order last"), &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "round-robin") {
		t.Errorf("order: got %d, %s", code, &stderr)
	}
}
