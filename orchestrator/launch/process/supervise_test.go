package process_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/logkey"
	"rideshare/orchestrator/launch/process"
)

func supervise(t *testing.T, role string, c process.ChildConfig) *process.Child {
	t.Helper()
	c.Name, c.Env = "persdb", roleEnv(role)
	child, err := process.Supervise(c)
	if err != nil {
		t.Fatalf("supervise: got %v, want a child", err)
	}
	t.Cleanup(func() {
		if err := child.Stop(context.Background(), limit); err != nil {
			t.Errorf("stop child: %v", err)
		}
	})
	return child
}

// A child that dies is started again on the same address, and a request that comes in between waits for it.
func TestSupervise_ChildDies_RequestWaitsForTheNext(t *testing.T) {
	t.Parallel()
	child := supervise(t, roleWorker, process.ChildConfig{})
	url, last := child.URL(), get(t, child.URL()).PID
	for range 3 {
		if pid := child.PID(); pid != last {
			t.Errorf("got pid %d, want %d, which answers", pid, last)
		}
		if err := syscall.Kill(last, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if pid := child.PID(); pid == last {
				return fmt.Errorf("process %d has not ended", pid)
			}
			return nil
		})
		next := get(t, url).PID
		if next == last {
			t.Errorf("got an answer of process %d, which was killed", last)
		}
		last = next
	}
	if child.URL() != url {
		t.Errorf("URL: got %s, want %s as before", child.URL(), url)
	}
}

// A stopped child is dead, is not started again, and gives its address back.
func TestSupervise_Stop_IsFinal(t *testing.T) {
	t.Parallel()
	child := supervise(t, roleWorker, process.ChildConfig{Listen: "127.0.0.3:0"}) // no other process takes the port at this address
	get(t, child.URL())
	for range 2 {
		if err := child.Stop(t.Context(), limit); err != nil {
			t.Fatalf("stop: got %v, want nil", err)
		}
	}
	if pid := child.PID(); pid != 0 {
		t.Errorf("after stop: got pid %d, want none", pid)
	}
	// To listen on its address is no test: the port may be the local end of another process's connection by now.
	if conn, err := net.Dial("tcp", strings.TrimPrefix(child.URL(), "http://")); err == nil {
		_ = conn.Close() // it is not used.
		t.Error("after stop: something listens on its address")
	}
}

// A child that cannot run is restarted with growing pauses, logged once, and can be stopped during a pause.
func TestSupervise_CrashLoop_IsToldOnce(t *testing.T) {
	t.Parallel()
	var log, stdout buffer
	c := process.ChildConfig{Stdout: &stdout, Log: slog.New(slog.NewJSONHandler(&log, nil))}
	c.SetDrainLimit(limit)
	child := supervise(t, roleDoomed, c)
	eventually(t, func() error {
		if lives := strings.Count(stdout.String(), `{"line":49}`); lives < 3 {
			return fmt.Errorf("got %d lives, want 3", lives)
		}
		return nil
	})
	if err := child.Stop(t.Context(), limit); err != nil {
		t.Errorf("stop: got %v, want nil", err)
	}
	if n := strings.Count(log.String(), `"process died"`); n != 1 {
		t.Errorf("got %d lines about deaths, want 1:\n%s", n, log.String())
	}
	if r := record(t, &log, "process died"); r[logkey.Process] != "persdb" || !strings.Contains(r[logkey.Reason].(string), "no luck") {
		t.Errorf("got %v, want the name of the child and its last words", r)
	}
}

// A caller that gives up gets its context's error, and the child is still not started again.
func TestSupervise_Stop_CallerGivesUp(t *testing.T) {
	t.Parallel()
	child := supervise(t, roleWorker, process.ChildConfig{})
	if _, err := ask(t.Context(), http.MethodPost, child.URL()+"/stubborn"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := child.Stop(ctx, limit); !errors.Is(err, context.Canceled) {
		t.Errorf("stop: got %v, want %v", err, context.Canceled)
	}
	if child.PID() == 0 {
		t.Error("the child is dead, though it is stubborn and its grace is not over")
	}
	if err := child.Stop(t.Context(), time.Millisecond); err != nil || child.PID() != 0 {
		t.Errorf("stop again: got %v and pid %d, want it dead", err, child.PID())
	}
}

// What cannot be started is named.
func TestSupervise_NotStarted(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "no-such-program")
	_, err := process.Supervise(process.ChildConfig{Name: "persdb", Binary: missing})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), "persdb") {
		t.Errorf("missing program: got %v, want %v that names it", err, fs.ErrNotExist)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	address := busy.Addr().String()
	_, err = process.Supervise(process.ChildConfig{Name: "persdb", Listen: address})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), address) {
		t.Errorf("busy address: got %v, want %v that names it", err, syscall.EADDRINUSE)
	}
}

// Pauses double from a tenth of a second to five seconds, and stay there.
func TestPause(t *testing.T) {
	t.Parallel()
	pause := process.NewPause()
	for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		if got := pause.Next(); got != want*time.Millisecond {
			t.Errorf("pause after %d deaths: got %v, want %d ms", i+1, got, want)
		}
	}
}
