package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// Each command that writes a report finds before its work that there is no folder for the report, not after it.
func TestReports_NoFolder_FoundBeforeTheWork(t *testing.T) {
	inCheckout(t, "")
	report := filepath.Join(t.TempDir(), "missing", "report")
	const nowhere = " --orchestrator http://127.0.0.1:1"
	for _, args := range []string{
		"bench --json", "bench --html", "bench join --json", "bench costs --json", "bench scale --json", "bench scale --html", "bench failover --json" + nowhere,
		"load --json" + nowhere, "load --html" + nowhere, "load n5 --json" + nowhere, "check --json" + nowhere, "status http://127.0.0.1:1 --json",
		"backup b.db --json" + nowhere, "restore --json --from b.db --data data", "archive list file:///missing --json", "archive verify file:///missing --json",
	} {
		flag := args[strings.Index(args, "--"):][:len("--json")]
		args = strings.Replace(args, flag, flag+"="+report, 1)
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), flag+": there is no folder") {
			t.Errorf("%s: got %d, %s", args, code, &stderr)
		}
	}
	t.Setenv("BENCH_JSON", report)
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"bench"}, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "--json: there is no folder") {
		t.Errorf("by the environment: got %d, %s", code, &stderr)
	}
}
