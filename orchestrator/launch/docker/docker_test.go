package docker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/docker"
)

// fakeConfig is that of a launcher on an engine in memory.
func fakeConfig(f *fakeEngine) docker.Config {
	return docker.Config{
		Engine: f, Stack: "test", Image: "rideshare:test", Network: "net", BusFile: "/secrets/bus",
		Coordinator: "zk://zookeeper", Session: 4 * time.Second, Persdb: "http://persdb",
		Limits: docker.Limits{User: "65532:65532", Memory: 512 << 20, Replica: 128 << 20, Answers: 32 << 20, CPUs: 1, PIDs: 64},
	}
}

// scene is what such a test works with.
type scene struct {
	*testing.T
	engine   *fakeEngine
	launcher *docker.Launcher
}

// bubble runs a test of a launcher on an engine in memory, with a clock of its own.
func bubble(t *testing.T, test func(s scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l, err := docker.New(fakeConfig(f))
		if err != nil {
			t.Fatal(err)
		}
		test(scene{t, f, l})
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func mustStart(t *testing.T, l *docker.Launcher, startID string) launch.Instance {
	t.Helper()
	i, err := l.Start(t.Context(), startID)
	if err != nil {
		t.Fatalf("start %s: %v", startID, err)
	}
	return i
}

// Whichever answer of the engine is lost on the way, the same start again gives the one worker.
func TestStart_AnswerLost_SameStartGivesTheWorker(t *testing.T) {
	for _, call := range []string{"create", "start"} {
		t.Run(call, func(t *testing.T) {
			bubble(t, func(s scene) {
				t, f, l := s.T, s.engine, s.launcher
				f.set(func() { f.lose[call] = 1 })
				if _, err := l.Start(t.Context(), "s1"); !errors.Is(err, launch.ErrUnavailable) {
					t.Fatalf("lost answer: got %v, want %v", err, launch.ErrUnavailable)
				}
				i := mustStart(t, l, "s1")
				if list, err := l.List(t.Context()); err != nil || len(list) != 1 || list[0].ID != i.ID || !i.Running {
					t.Errorf("got %+v and error %v, want only %s", list, err, i.ID)
				}
			})
		})
	}
}

// A worker gets the addresses of the other parts and its session length. For the broker, whose URL has a password, it
// gets only the file.
func TestStart_TellsTheWorkerItsSettings(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		mustStart(t, l, "s1")
		for _, want := range []string{
			"RIDESHARE_BUS_FILE=/run/secrets/bus", "RIDESHARE_COORDINATOR=zk://zookeeper", "RIDESHARE_SESSION=4s", "PERSDB_URL=http://persdb", "WORKER_ANSWER_MIB=32",
		} {
			if !slices.Contains(f.planned.Env, want) {
				t.Errorf("got %q, want %s among it", f.planned.Env, want)
			}
		}
	})
}

// All workers of a network share a name. On the host's network there are no names.
func TestStart_SharedName(t *testing.T) {
	for network, want := range map[string]string{"net": "worker", "host": ""} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			cfg := fakeConfig(f)
			cfg.Network = network
			l, err := docker.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			mustStart(t, l, "s1")
			if f.planned.Alias != want {
				t.Errorf("network %s: got the name %q, want %q", network, f.planned.Alias, want)
			}
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Workers with TLS have the files mounted, their places in the settings, and an https address. Without it they have none of
// that.
func TestStart_TLS(t *testing.T) {
	for _, dir := range []string{"", "/etc/workers"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			cfg := fakeConfig(f)
			cfg.TLS = dir
			l, err := docker.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			worker := mustStart(t, l, "s1")
			secure := dir != ""
			for _, setting := range []string{"TLS_CERT=/run/tls/cert.pem", "TLS_KEY=/run/tls/key.pem", "TLS_CA=/run/tls/ca.pem"} {
				if slices.Contains(f.planned.Env, setting) != secure {
					t.Errorf("directory %q: got %q", dir, f.planned.Env)
				}
			}
			if f.planned.Binds["/run/tls"] != dir || strings.HasPrefix(worker.Control, "https://") != secure {
				t.Errorf("directory %q: got mounts %v and address %s", dir, f.planned.Binds, worker.Control)
			}
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A name that is taken by a container of another start is reported, and that container is left alone.
func TestStart_NameTakenByAnother_IsToldAndLeft(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		for _, labels := range []map[string]string{nil, {"rideshare.stack": "other", "rideshare.start": "s1"}, {"rideshare.stack": "test", "rideshare.start": "s2"}} {
			f.set(func() {
				f.containers["x"] = &docker.Container{ID: "xxxxxxxxxxxxxxxx", Name: l.NameOf("s1"), Labels: labels, Status: "created"}
			})
			_, err := l.Start(t.Context(), "s1")
			if err == nil || errors.Is(err, launch.ErrUnavailable) || !strings.Contains(err.Error(), l.NameOf("s1")) {
				t.Errorf("labels %v: got %v, want a final error that names the container", labels, err)
			}
		}
		if f.count("start") != 0 || f.count("remove") != 0 || f.count("signal") != 0 {
			t.Errorf("got calls %v, want none that touches the other container", f.calls)
		}
	})
}

// A missing image is a final error that says what to do, and leaves nothing.
func TestStart_MissingImage_SaysWhatToDo(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		f.set(func() { f.fail["create"] = docker.ErrMissingImage })
		_, err := l.Start(t.Context(), "s1")
		if err == nil || errors.Is(err, launch.ErrUnavailable) {
			t.Fatalf("got %v, want a final error", err)
		}
		for _, part := range []string{"rideshare:test", "make images", "docker pull"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("got %q, want it to name %s", err, part)
			}
		}
	})
}

// A container that the engine refuses to run is removed, and the reason is returned.
func TestStart_EngineRefuses_LeavesNothing(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		f.set(func() { f.fail["start"] = docker.ErrRefused })
		if _, err := l.Start(t.Context(), "s1"); !errors.Is(err, docker.ErrRefused) || errors.Is(err, launch.ErrUnavailable) {
			t.Errorf("got %v, want the engine's reason as a final error", err)
		}
		if len(f.containers) != 0 {
			t.Errorf("left behind: %+v", f.only())
		}
	})
}

// A kill that the engine did not do, or did not answer, is no kill: the caller must know.
func TestKill_EngineFails_IsUnavailable(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		i := mustStart(t, l, "s1")
		f.set(func() { f.fail["signal"] = errLost })
		if err := l.Kill(t.Context(), i.ID); !errors.Is(err, launch.ErrUnavailable) {
			t.Errorf("got %v, want %v", err, launch.ErrUnavailable)
		}
		f.set(func() { f.fail["signal"] = nil; f.lose["signal"] = 1 })
		if err := l.Kill(t.Context(), i.ID); !errors.Is(err, launch.ErrUnavailable) {
			t.Errorf("answer lost: got %v, want %v", err, launch.ErrUnavailable)
		}
		if err := l.Kill(t.Context(), i.ID); err != nil {
			t.Errorf("killed already: got %v, want nil", err)
		}
	})
}

// A worker is asked to finish once, however often: a second SIGTERM would end it immediately. The caller's end is
// no kill, the grace's is.
func TestStop_AsksOnce(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		i := mustStart(t, l, "s1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Stop(ctx, i.ID, time.Minute); !errors.Is(err, launch.ErrUnavailable) {
			t.Errorf("caller gave up: got %v, want %v", err, launch.ErrUnavailable)
		}
		if n := f.count("signal SIGKILL"); n != 0 {
			t.Errorf("caller gave up: got %d kills, want none", n)
		}
		if err := l.Stop(t.Context(), i.ID, time.Second); err != nil {
			t.Errorf("grace over: got %v, want nil", err)
		}
		if asked, killed := f.count("signal SIGTERM"), f.count("signal SIGKILL"); asked != 1 || killed != 1 {
			t.Errorf("got %d SIGTERM and %d SIGKILL, want one of each", asked, killed)
		}
	})
}

// A kill that did not reach the worker takes nothing from a later stop: the worker may still finish.
func TestStop_AfterAFailedKill_Asks(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		i := mustStart(t, l, "s1")
		f.set(func() { f.fail["signal"] = errLost })
		if err := l.Kill(t.Context(), i.ID); !errors.Is(err, launch.ErrUnavailable) {
			t.Errorf("got %v, want %v", err, launch.ErrUnavailable)
		}
		f.set(func() { f.fail["signal"] = nil })
		if err := l.Stop(t.Context(), i.ID, time.Second); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		if n := f.count("signal SIGTERM"); n != 1 {
			t.Errorf("got %d SIGTERM, want one", n)
		}
	})
}

// A paused worker is not woken by a stop, since it might write.
func TestStop_Paused_IsKilledAfterGrace(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		i := mustStart(t, l, "s1")
		one := f.only()
		f.set(func() { one.Status = "paused" })
		if list, err := l.List(t.Context()); err != nil || !list[0].Running {
			t.Errorf("got %+v and error %v, want it running: it may wake up", list, err)
		}
		start := time.Now()
		if err := l.Stop(t.Context(), i.ID, time.Minute); err != nil || time.Since(start) < time.Minute {
			t.Errorf("got %v after %v, want nil after the grace", err, time.Since(start))
		}
		if n := f.count("signal SIGTERM"); n != 0 {
			t.Errorf("got %d SIGTERM, want none", n)
		}
	})
}

// A worker is its container: a pid that the system gives out again is no identity.
func TestPIDUsedAgain_IsAnotherWorker(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		first := mustStart(t, l, "s1")
		if err := l.Kill(t.Context(), first.ID); err != nil {
			t.Fatal(err)
		}
		f.set(func() { f.pid = first.PID })
		second := mustStart(t, l, "s2")
		if second.PID != first.PID || second.ID == first.ID {
			t.Fatalf("got %+v after %+v, want another worker with the same pid", second, first)
		}
		if err := l.Kill(t.Context(), first.ID); err != nil {
			t.Errorf("kill of the dead one: got %v, want nil", err)
		}
		list, err := l.List(t.Context())
		if err != nil || len(list) != 2 || list[0].PID != 0 || !list[1].Running {
			t.Errorf("got %+v and error %v, want the first dead and the second running", list, err)
		}
	})
}

// A container without our label is not found, whatever it is called.
func TestOthers_AreNeverTouched(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		f.set(func() {
			f.containers["x"] = &docker.Container{ID: "abcdefabcdefabcdef", Name: "w1", Labels: map[string]string{"rideshare.stack": "other"}, Status: "running"}
		})
		for _, id := range []string{"abcdefabcdef", "w1", "abcdefabcdefabcdef"} {
			if err := l.Kill(t.Context(), dbaas.WorkerID(id)); !errors.Is(err, launch.ErrNoWorker) {
				t.Errorf("kill %s: got %v, want %v", id, err, launch.ErrNoWorker)
			}
			if err := l.Remove(t.Context(), dbaas.WorkerID(id)); err != nil {
				t.Errorf("remove %s: got %v, want nil", id, err)
			}
		}
		if c := f.only(); c.Status != "running" {
			t.Errorf("got it %s, want it running", c.Status)
		}
	})
}

// Settings that can never work are refused immediately.
func TestNew_BadSettings(t *testing.T) {
	for name, change := range map[string]func(*docker.Config){
		"UserByName": func(c *docker.Config) { c.Limits.User = "nobody" },
		"UserOnly":   func(c *docker.Config) { c.Limits.User = "65532" },
		"NoImage":    func(c *docker.Config) { c.Image = "" },
		"NoNetwork":  func(c *docker.Config) { c.Network = "" },
		"NoBus":      func(c *docker.Config) { c.BusFile = "" },
		"NoStack":    func(c *docker.Config) { c.Stack = "" },
		"NoSession":  func(c *docker.Config) { c.Session = 0 },
		"NoRoom":     func(c *docker.Config) { c.Limits.Memory = c.Limits.Replica },
		"NoAnswers":  func(c *docker.Config) { c.Limits.Answers = 1<<20 - 1 },
		"NoCPU":      func(c *docker.Config) { c.Limits.CPUs = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			c := fakeConfig(newFake())
			change(&c)
			if l, err := docker.New(c); err == nil {
				t.Error("got no error, want one")
				_ = l.Close(t.Context())
			}
		})
	}
}
