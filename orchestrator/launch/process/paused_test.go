package process_test

import (
	"syscall"
	"testing"
	"time"

	"rideshare/orchestrator/launch/process"
)

func pause(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatalf("pause process %d: %v", pid, err)
	}
}

// A paused worker can be killed.
func TestLauncher_Kill_Paused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roleWorker, process.Config{})
	i := start(t, w, "s1")
	pause(t, i.PID)
	if err := w.Kill(t.Context(), i.ID); err != nil {
		t.Fatalf("kill: got %v, want nil", err)
	}
	if got := dead(t, w); got.ExitCode != 137 {
		t.Errorf("exit code: got %d, want 137", got.ExitCode)
	}
}

// A paused worker cannot finish, so it is killed when its grace is over.
func TestLauncher_Stop_Paused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roleWorker, process.Config{})
	i := start(t, w, "s1")
	pause(t, i.PID)
	if err := w.Stop(t.Context(), i.ID, time.Millisecond); err != nil {
		t.Fatalf("stop: got %v, want nil", err)
	}
	if got := dead(t, w); got.ExitCode != 137 {
		t.Errorf("exit code: got %d, want 137", got.ExitCode)
	}
}

// A worker is in a process group of its own: Ctrl-C on a terminal does not reach it.
func TestLauncher_Start_OwnProcessGroup(t *testing.T) {
	t.Parallel()
	i := start(t, newWorld(t, roleWorker, process.Config{}), "s1")
	if group, err := syscall.Getpgid(i.PID); err != nil || group != i.PID {
		t.Errorf("got group %d and error %v, want %d", group, err, i.PID)
	}
}
