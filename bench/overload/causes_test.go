package overload_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/bench/overload"
	"rideshare/internal/progressbar"
)

// opened returns the breaker that is open. The caller holds mu.
func (f *fake) opened() string {
	if _, err := os.Stat(f.alarm); err == nil {
		return "broker"
	}
	return f.open
}

// crash opens the breaker of a role. The caller holds mu.
func (f *fake) crash(role string) {
	f.crashed[role]++
	f.asked = 0
	switch {
	case role == "master":
		f.open = "master"
	case f.open == "":
		f.open = "slaves"
	}
}

// ready answers whether the fake is ready: the third time after a crash it is. The caller holds mu.
func (f *fake) ready(w http.ResponseWriter) {
	if f.asked++; f.asked >= 3 && f.open != "depth" {
		f.open = ""
	}
	if f.opened() != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// playLong plays the long form of N5 with real causes, in less than its usual time.
func playLong(t *testing.T, f *fake, set, unset string) (*overload.Result, error) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return overload.Run(t.Context(), overload.Config{
		Scene: "n5", Start: overload.StartNone, Orchestrator: server.URL, Rate: 200, Length: 200 * time.Millisecond,
		AlarmSet: set, AlarmClear: unset, Progress: progressbar.Output{Writer: io.Discard},
	})
}

// alarmed is a fake whose broker has an alarm while a file exists.
func alarmed(t *testing.T, fault string) (f *fake, set, unset string) {
	t.Helper()
	f = newFake(fault)
	f.alarm = filepath.Join(t.TempDir(), "alarm")
	return f, "touch " + f.alarm, "rm " + f.alarm
}

// The long form brings each cause about, judges while the breaker is open, and ends the cause.
func TestRun_N5_RealCauses(t *testing.T) {
	f, set, unset := alarmed(t, "")
	result, err := playLong(t, f, set, unset)
	if err != nil {
		t.Fatal(err)
	}
	shares := 0
	for _, check := range result.Checks {
		if strings.Contains(check.Name, "share of requests") {
			shares++
		}
		if !check.OK && !strings.Contains(check.Name, "p99") && !strings.Contains(check.Name, "half") { // these are about the machine.
			t.Errorf("missed: %+v", check)
		}
	}
	if shares != 4 {
		t.Errorf("got %d checks of a share, want 4: %+v", shares, result.Checks)
	}
	for stage, reason := range map[string]string{"broker alarm": "broker", "no slave": "slaves", "no worker": "master", "full queue": "depth_breaker"} {
		if n := reasonsOf(result, stage)[reason]; n == 0 {
			t.Errorf("%s: no request was refused with %q", stage, reason)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crashed["slave"] == 0 || f.crashed["master"] == 0 || f.opened() != "" {
		t.Errorf("crashed %v, left open: %q; want both roles crashed, and nothing left open", f.crashed, f.opened())
	}
}

func reasonsOf(result *overload.Result, stage string) map[string]int64 {
	for _, s := range result.Stages {
		if s.Name == stage {
			return s.Reasons
		}
	}
	return nil
}

// A queue whose breaker stays closed misses the goal.
func TestRun_N5_BreakerStaysClosed_IsFound(t *testing.T) {
	f, set, unset := alarmed(t, ignoresBreaker)
	result, err := playLong(t, f, set, unset)
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range result.Checks {
		if strings.HasPrefix(check.Name, "full queue: share") && !check.OK && !result.OK {
			return
		}
	}
	t.Errorf("got %+v, want the share of the full queue missed", result.Checks)
}

// A command that fails ends the scene, and the alarm is cleared.
func TestRun_N5_AlarmCommandFails(t *testing.T) {
	f, set, unset := alarmed(t, "")
	_, err := playLong(t, f, set+"; echo no broker; exit 3", unset)
	if err == nil || !strings.Contains(err.Error(), "no broker") {
		t.Errorf("got %v, want what the command said", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened() != "" {
		t.Errorf("the alarm was not cleared")
	}
}
