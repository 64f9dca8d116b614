package inproc_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/coord/inproc"
	"rideshare/internal/wait"
)

const timeout = 6 * time.Second

func newCoordinator(t *testing.T, file string) *inproc.Coordinator {
	t.Helper()
	k, err := inproc.New(inproc.Config{SessionTimeout: timeout, File: file})
	if err != nil {
		t.Fatalf("new: got %v, want nil", err)
	}
	return k
}

func open(t *testing.T, c coord.Coordinator) coord.Session {
	t.Helper()
	s, err := c.Open(t.Context())
	if err != nil {
		t.Fatalf("open: got %v, want nil", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func register(t *testing.T, s coord.Session, pid int) {
	t.Helper()
	if err := s.Register(t.Context(), coord.Member{PID: pid, Worker: "w"}); err != nil {
		t.Fatalf("register %d: got %v, want nil", pid, err)
	}
}

func memberCount(t *testing.T, s coord.Session) int {
	t.Helper()
	members, err := s.Members(t.Context())
	if err != nil {
		t.Fatalf("members: got %v, want nil", err)
	}
	return len(members)
}

// The slave count, the values and their versions are the same after a restart.
func TestNew_FileKeepsValues(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "coordinator.json")
	before := open(t, newCoordinator(t, file))
	if _, _, err := before.SlaveCount(t.Context()); !errors.Is(err, coord.ErrNone) {
		t.Fatalf("new file: got error %v, want %v", err, coord.ErrNone)
	}
	for version := range coord.Version(3) {
		if err := before.SetSlaveCount(t.Context(), 5, version); err != nil {
			t.Fatalf("set: got %v, want nil", err)
		}
	}
	if err := before.SetValue(t.Context(), "one", []byte("text"), 0); err != nil {
		t.Fatalf("set a value: got %v, want nil", err)
	}
	after := open(t, newCoordinator(t, file))
	if v, version, err := after.Value(t.Context(), "one"); string(v) != "text" || version != 1 || err != nil {
		t.Errorf("value after a restart: got %q, version %d, error %v; want text, version 1", v, version, err)
	}
	n, version, err := after.SlaveCount(t.Context())
	if n != 5 || version != 3 || err != nil {
		t.Errorf("after a restart: got %d, version %d, error %v; want 5, version 3", n, version, err)
	}
	if left, err := filepath.Glob(file + "?*"); err != nil || len(left) > 0 {
		t.Errorf("left beside the file: %v (error %v)", left, err)
	}
}

// A file with invalid contents is an error, not a fresh start.
func TestNew_BadFileIsAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "slavecount.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := inproc.New(inproc.Config{File: file}); err == nil {
		t.Error("got nil, want an error")
	}
}

// A slave count that cannot be saved is not set.
func TestSession_SetSlaveCount_NotOnDiskIsNotSet(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "missing")
	s := open(t, newCoordinator(t, filepath.Join(dir, "slavecount.json")))
	if err := s.SetSlaveCount(t.Context(), 5, 0); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("set: got %v, want %v", err, coord.ErrUnavailable)
	}
	if _, _, err := s.SlaveCount(t.Context()); !errors.Is(err, coord.ErrNone) {
		t.Errorf("slave count: got error %v, want %v", err, coord.ErrNone)
	}
}

// A session that is cut off is suspended after two thirds of its timeout and ends after all of it.
func TestSession_Partition_DoubtThenLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newCoordinator(t, "")
		s, err := k.OpenSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		watcher := open(t, k)
		register(t, s, 1)
		s.Partition()
		steps := []struct {
			after     time.Duration
			suspended bool
			members   int
		}{
			{timeout*2/3 - time.Millisecond, false, 1},
			{2 * time.Millisecond, true, 1},
			{timeout/3 - 2*time.Millisecond, true, 1},
			{2 * time.Millisecond, true, 0},
		}
		for _, step := range steps {
			advance(step.after)
			synctest.Wait()
			if suspended, members := wait.Closed(s.Suspended()), memberCount(t, watcher); suspended != step.suspended || members != step.members {
				t.Errorf("got suspended %v and %d members, want %v and %d", suspended, members, step.suspended, step.members)
			}
		}
	})
}

// A session that came back after it was suspended is alive, and stays suspended.
func TestSession_Heal_DoubtStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newCoordinator(t, "")
		s, err := k.OpenSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		register(t, s, 1)
		s.Partition()
		advance(timeout - time.Second)
		s.Heal()
		advance(10 * timeout)
		if !wait.Closed(s.Suspended()) || memberCount(t, s) != 1 {
			t.Error("after a cut between suspension and loss: want Suspended closed and the registration there")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A session closed by a client that is cut off ends at its timeout, because the coordinator does not learn of the
// close.
func TestSession_Close_CutOffEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newCoordinator(t, "")
		s, err := k.OpenSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		watcher := open(t, k)
		register(t, s, 1)
		s.Partition()
		if err := s.Close(); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
		s.Heal()
		if err := s.Register(t.Context(), coord.Member{PID: 2}); !errors.Is(err, coord.ErrSessionLost) {
			t.Errorf("register after Close: got %v, want %v", err, coord.ErrSessionLost)
		}
		if got := memberCount(t, watcher); got != 1 {
			t.Errorf("after Close: got %d members, want 1", got)
		}
		advance(timeout)
		synctest.Wait()
		if got := memberCount(t, watcher); got != 0 {
			t.Errorf("after the time-out: got %d members, want none", got)
		}
	})
}

// While the coordinator is stopped no session ends, not even a dead process's: that session gets a full timeout at
// the start.
func TestCoordinator_Stop_NothingExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newCoordinator(t, "")
		dead, alive := open(t, k), open(t, k)
		register(t, dead, 1)
		register(t, alive, 2)
		dead.(*inproc.Session).Abandon()
		advance(timeout / 2)
		k.Stop()
		advance(10 * timeout)
		k.Start()
		advance(timeout - time.Millisecond)
		if got := memberCount(t, alive); got != 2 {
			t.Errorf("less than a time-out after the start: got %d members, want 2", got)
		}
		advance(2 * time.Millisecond)
		synctest.Wait()
		if got := memberCount(t, alive); got != 1 {
			t.Errorf("a time-out after the start: got %d members, want only the living one", got)
		}
	})
}

// A pause shorter than the timeout ends no session.
func TestCoordinator_Pause_ShortIsHarmless(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newCoordinator(t, "")
		s := open(t, k)
		register(t, s, 1)
		k.Pause()
		advance(timeout / 2)
		k.Resume()
		advance(10 * timeout)
		if wait.Closed(s.Suspended()) || memberCount(t, s) != 1 {
			t.Error("after a short pause: want Suspended open and the registration there")
		}
	})
}

// A long enough pause also ends the sessions that fell silent before it.
func TestCoordinator_Pause_SilentSessionEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newCoordinator(t, "")
		dead, alive := open(t, k), open(t, k)
		register(t, dead, 1)
		dead.(*inproc.Session).Abandon()
		advance(timeout / 2)
		k.Pause()
		advance(timeout/2 + time.Millisecond)
		k.Resume()
		if got := memberCount(t, alive); got != 0 {
			t.Errorf("got %d members, want none", got)
		}
	})
}

// A crashed client is as good as dead: its sessions cannot be used any more, their registrations end in time, and it
// can open no other session.
func TestClient_Crash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newCoordinator(t, "")
		watcher, client := open(t, k), k.Dial()
		s := open(t, client)
		register(t, s, 1)
		client.Crash()
		if _, err := s.Members(t.Context()); !errors.Is(err, coord.ErrSessionLost) {
			t.Errorf("use after Crash: got %v, want %v", err, coord.ErrSessionLost)
		}
		if _, err := client.Open(t.Context()); !errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("open after Crash: got %v, want %v", err, coord.ErrUnavailable)
		}
		if err := s.Close(); err != nil || memberCount(t, watcher) != 1 {
			t.Error("close by the dead: want no error and no effect")
		}
		advance(timeout)
		synctest.Wait()
		if got := memberCount(t, watcher); got != 0 {
			t.Errorf("after the time-out: got %d members, want none", got)
		}
	})
}

// A partitioned client opens no session; its sessions survive if it is healed in time.
func TestClient_Partition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newCoordinator(t, "").Dial()
		s := open(t, client)
		client.Partition()
		if _, err := client.Open(t.Context()); !errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("open: got %v, want %v", err, coord.ErrUnavailable)
		}
		if err := s.Register(t.Context(), coord.Member{}); !errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("register: got %v, want %v", err, coord.ErrUnavailable)
		}
		client.Heal()
		register(t, s, 1)
		advance(2 * timeout)
		if got := memberCount(t, s); got != 1 {
			t.Errorf("after healing: got %d members, want 1", got)
		}
	})
}

// A call whose context has ended does nothing.
func TestSession_EndedContextIsUnavailable(t *testing.T) {
	t.Parallel()
	s := open(t, newCoordinator(t, ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Register(ctx, coord.Member{PID: 1}); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("register: got %v, want %v", err, coord.ErrUnavailable)
	}
	if got := memberCount(t, s); got != 0 {
		t.Errorf("got %d members, want none", got)
	}
}

// advance moves the bubble's clock.
func advance(d time.Duration) { <-time.After(d) }
