package docker_test

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/docker"
)

// awaitToken waits for a token that comes from now on.
func awaitToken(t *testing.T, l *docker.Launcher, after func()) {
	t.Helper()
	for len(l.Events()) > 0 {
		<-l.Events()
	}
	after()
	select {
	case <-l.Events():
	case <-time.After(limit):
		t.Fatal("no token")
	}
}

// While the engine is away the state of the workers is unknown. Its return sends a token, and the list is right: with
// live-restore the workers kept running, except those that died in the meantime, for which there is no event; without
// live-restore all are dead. Either way they can be removed and others started.
func TestEngineKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"LiveRestore": {"--live-restore"}, "Plain": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newOwnEngine(t, flags...)
			c := e.config(t)
			l := e.launcher(t, c)
			stays, dies := mustStart(t, l, "stays"), mustStart(t, l, "dies")
			// The launcher looks for free ports in this process's namespace, and the workers are in the engine's: a port may
			// come twice. One of the workers ends then.
			for dies.Control == stays.Control {
				e.sweep(t, c.Stack)
				stays, dies = mustStart(t, l, "stays"), mustStart(t, l, "dies")
			}
			e.kill(t)
			if _, err := l.List(t.Context()); !errors.Is(err, launch.ErrUnavailable) {
				t.Fatalf("list while the engine is away: got %v, want %v", err, launch.ErrUnavailable)
			}
			if err := l.Kill(t.Context(), stays.ID); !errors.Is(err, launch.ErrUnavailable) {
				t.Errorf("kill while the engine is away: got %v, want %v", err, launch.ErrUnavailable)
			}
			if err := syscall.Kill(dies.PID, syscall.SIGKILL); err != nil {
				t.Fatalf("kill worker %d, which should have outlived the engine: %v (the other worker: %v)", dies.PID, err, syscall.Kill(stays.PID, 0))
			}
			awaitToken(t, l, func() { e.start(t) })
			running := map[string]int{}
			list, err := l.List(t.Context())
			if err != nil || len(list) != 2 {
				t.Fatalf("got %+v and error %v, want both workers", list, err)
			}
			for _, i := range list {
				if i.Running {
					running[i.StartID] = i.PID
				}
			}
			if flags != nil && (len(running) != 1 || running["stays"] != stays.PID) || flags == nil && len(running) != 0 {
				t.Errorf("got %v running, want worker %d only with live-restore, else none", running, stays.PID)
			}
			dead := slices.DeleteFunc(list, func(i launch.Instance) bool { return i.Running })
			for _, i := range dead {
				if err := l.Remove(t.Context(), i.ID); err != nil {
					t.Errorf("remove %s: %v", i.ID, err)
				}
			}
			if next := mustStart(t, l, "next"); !next.Running {
				t.Errorf("got %+v, want a running worker", next)
			}
		})
	}
}
