package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/orchestratorapi"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// known is a system with a slave that does not answer yet.
func known() orchestratorapi.ClusterStatus {
	return orchestratorapi.ClusterStatus{
		Members: []orchestratorapi.WorkerInfo{
			{
				PID: 4194300, Role: dbaas.RoleMaster, Container: "w-mwst8lc5-0001", Ready: true, StartedAt: noon.Add(-51 * time.Hour),
				Host: "a", WorkerLoad: &orchestratorapi.WorkerLoad{MemoryBytes: 1 << 30, ReadsInFlight: 12, Busy: 0.5},
			},
			{PID: 17, Role: dbaas.RoleSlave, Container: "w-mwst8lc5-0002", Lag: 123456, StartedAt: noon.Add(-2 * time.Second)},
		},
		Cluster: dbaas.ClusterID{0xab}, Epoch: 3, Head: 9, DesiredSlaves: 2, ActualSlaves: 1, StartsHeldBack: 1,
		Database: &dbaas.Sizes{Tables: 3 << 20, Limit: 1 << 30, Log: 512, DiskFree: 5 << 30},
	}
}

// orchestrator answers as one of the cluster known, with that answer to /readyz.
func orchestrator(t *testing.T, code int, ready string) string {
	t.Helper()
	text, err := json.Marshal(known())
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/cluster", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, ready)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// A status fits 80 columns, and names what is missing.
func TestScreen_Show(t *testing.T) {
	var got bytes.Buffer
	st := status{URL: "http://127.0.0.1:8083", Missing: "no caught-up slave", Cluster: known()}
	if err := (screen{w: &got}).show(st, noon); err != nil {
		t.Fatal(err)
	}
	want := `rideshare at http://127.0.0.1:8083, 12:00:00

health    not ready: no caught-up slave
slaves    1 of 2 wanted, 1 held back by STARTS_PER_MINUTE
position  9 in epoch 3
cluster   ab000000000000000000000000000000
database  3.0 MiB of 1.0 GiB, log 512 B, disk has 5.0 GiB free

PID      ROLE    STATE     LAG     READS  BUSY  MEMORY   UP    WORKER
4194300  master  serving   0       12     50%   1.0 GiB  2d3h  w-mwst8lc5-0001
17       slave   starting  123456  -      -     -        2s    w-mwst8lc5-0002
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for line := range strings.Lines(got.String()) {
		if len(line) > 81 {
			t.Errorf("longer than 80 columns: %q", line)
		}
	}
}

// In color, what is wrong stands out. Without color there is no escape sequence.
func TestScreen_Colors(t *testing.T) {
	var got bytes.Buffer
	if err := (screen{w: &got, color: true}).show(status{Missing: "all", Cluster: known()}, noon); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\x1b[31mnot ready: all\x1b[0m", "\x1b[33m1 of 2 wanted", "\x1b[33m17  "} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("got %q, want %q in it", got.String(), want)
		}
	}
}

// While persdb does not answer, the position is shown with its age.
func TestScreen_OldPosition(t *testing.T) {
	var got bytes.Buffer
	old := known()
	old.HeadAgeMS = 61_000
	if err := (screen{w: &got}).show(status{Cluster: old}, noon); err != nil {
		t.Fatal(err)
	}
	if want := "\nposition  9 in epoch 3, 1m1s ago: persdb does not answer\n"; !strings.Contains(got.String(), want) {
		t.Errorf("got %q, want %q in it", got.String(), want)
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59*time.Second + 900*time.Millisecond: "59s", 61 * time.Minute: "1h1m", 25 * time.Hour: "1d1h", 3 * time.Minute: "3m0s",
	} {
		if got := age(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

// The exit code tells a ready system from one that is not ready or does not answer. With --json - the output is JSON.
func TestStatus_ExitCodes(t *testing.T) {
	ready, waiting := orchestrator(t, http.StatusOK, "{}"), orchestrator(t, http.StatusServiceUnavailable, `{"detail":"missing: master"}`)
	for name, tc := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"ready":     {[]string{ready}, exitDone, "health    ready\n", ""},
		"not ready": {[]string{waiting}, exitFailed, "health    not ready: missing: master\n", "not ready: missing: master"},
		"JSON":      {[]string{waiting, "--json", "-"}, exitFailed, `"missing": "missing: master"`, "not ready"},
		"nobody":    {[]string{"http://127.0.0.1:1"}, exitFailed, "", "ask the orchestrator at http://127.0.0.1:1: dial tcp"},
		"both":      {[]string{ready, "--watch", "--json", "-"}, exitUsage, "", "give one of them"},
		"no URL":    {[]string{"nobody"}, exitUsage, "", "neither http://host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append([]string{"status"}, tc.args...), &stdout, &stderr)
			if code != tc.code || !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("got %d, %q, %q", code, stdout.String(), stderr.String())
			}
			if name == "JSON" && !json.Valid(stdout.Bytes()) {
				t.Errorf("got %s, want JSON", stdout.String())
			}
		})
	}
}

// --watch goes on when the orchestrator goes away, and ends with the context.
func TestStatus_Watch(t *testing.T) {
	var gone http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"detail":"gone"}`, http.StatusServiceUnavailable)
	})
	server := httptest.NewServer(gone)
	defer server.Close()
	var stdout, stderr lines
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"status", "--watch", server.URL}, &stdout, &stderr) }()
	testenv.Eventually(t, 30*time.Second, func() error { return stdout.count("the orchestrator refused: 503 Service Unavailable: gone", 2) })
	stop()
	if code := <-ended; code != exitDone {
		t.Errorf("got exit code %d, want %d", code, exitDone)
	}
}
