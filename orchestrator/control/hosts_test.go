package control_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/control"
	"rideshare/orchestrator/launch"
)

// While only the launcher of a host is away, its workers go on: none is replaced, and none is started elsewhere.
func TestLoop_LauncherAway_ItsWorkersCount(t *testing.T) {
	for name, state := range map[string]int32{"Refuses": refuses, "Paused": paused} {
		t.Run(name, func(t *testing.T) {
			onHosts(t, func(s *hostsRig, l *control.Loop) {
				s.machine("a").launcher.Store(state)
				pass(time.Minute)
				wantLayout(s.t, l, "a master 1", "b slave 0", "c slave 0")
				if status, err := l.Status(s.t.Context()); err != nil || status.Hosts[0] != (control.HostState{Name: "a", State: "silent"}) {
					s.t.Errorf("got %+v, %v, want a silent", status.Hosts, err)
				}
				// Another orchestrator, which never had a list of the host, knows the workers from their registrations.
				other, stop := s.run(control.Config{Name: "other", Slaves: 2})
				defer stop()
				s.reconcile()
				wantLayout(s.t, other, "a master 1", "b slave 0", "c slave 0")
			})
		})
	}
}

// A paused host with a slave does not delay what concerns other hosts, and its slave is replaced when its registration
// has ended. When the host is back, the surplus slave is drained, not killed.
func TestLoop_SlavesHostPaused_ReplacedThenDrained(t *testing.T) {
	onHosts(t, func(s *hostsRig, l *control.Loop) {
		s.pause("c")
		pass(4 * time.Second)
		if n, _ := l.Slaves(); n != 1 {
			s.t.Errorf("got %d slaves that serve, want 1", n)
		}
		// The master dies meanwhile: the election does not wait for c.
		died := time.Now()
		s.onHost("a", func(w *stubWorker) { _ = s.machine("a").Launcher.Kill(s.t.Context(), w.spec.ID) })
		pass(time.Second)
		if present, _ := l.Master(); !present {
			s.t.Errorf("no master %v after the old one died", time.Since(died))
		}
		pass(2 * hostSession)
		wantLayout(s.t, l, "a slave 0", "b master 2", "b slave 0")
		kills := s.machine("a").kills.Load() + s.machine("b").kills.Load() + s.machine("c").kills.Load()
		s.resume("c")
		pass(time.Minute)
		wantLayout(s.t, l, "a slave 0", "b master 2", "c slave 0")
		if got := s.machine("a").kills.Load() + s.machine("b").kills.Load() + s.machine("c").kills.Load(); got != kills {
			s.t.Errorf("got %d kills after the return, want none", got-kills)
		}
	})
}

// A start that gets no answer is not repeated elsewhere under its id. If it takes effect late, the surplus is drained.
func TestLoop_StartUnanswered_AnotherIDElsewhere(t *testing.T) {
	onHosts(t, func(s *hostsRig, l *control.Loop) {
		s.kill("c")
		pass(2 * hostSession)
		s.machine("c").launcher.Store(present)
		s.machine("c").worker.Store(present)
		s.reconcile()
		wantLayout(s.t, l, "a master 1", "a slave 0", "b slave 0") // nothing moves
		s.machine("c").launcher.Store(paused)
		if err := l.SetSlaves(s.t.Context(), 3); err != nil {
			s.t.Fatal(err)
		}
		pass(5 * time.Second)
		wantLayout(s.t, l, "a master 1", "a slave 0", "b slave 0", "b slave 0")
		if len(s.machine("c").received) != 1 {
			s.t.Fatalf("c received %v, want one start", s.machine("c").received)
		}
		s.resume("c")
		pass(time.Minute)
		if got := layout(s.t, l); len(got) != 4 {
			s.t.Errorf("got %q, want a master and three slaves", got)
		}
		for _, m := range s.machines {
			if m.kills.Load() > 0 {
				s.t.Errorf("%s was told to kill %d workers, want none", m.name, m.kills.Load())
			}
		}
	})
}

// crash/slave kills the slave with the highest pid. While that worker's launcher does not answer, nothing is killed.
func TestLoop_CrashSlave_LauncherAway(t *testing.T) {
	onHosts(t, func(s *hostsRig, l *control.Loop) {
		s.machine("c").launcher.Store(paused)
		began := time.Now()
		_, _, err := l.CrashSlave(s.t.Context(), dbaas.Seen{})
		if !errors.Is(err, launch.ErrUnavailable) || time.Since(began) > 3*time.Second {
			s.t.Errorf("got %v after %v, want %v soon", err, time.Since(began), launch.ErrUnavailable)
		}
		s.machine("c").launcher.Store(present)
		s.reconcile()
		if pid, ok, err := l.CrashSlave(s.t.Context(), dbaas.Seen{}); err != nil || !ok || pid != 1000 {
			s.t.Errorf("got pid %d, %t, %v, want the slave of c", pid, ok, err)
		}
		if s.machine("c").kills.Load() != 1 || s.machine("b").kills.Load() != 0 {
			s.t.Error("the slave of c was not killed")
		}
	})
}

// A host that answers but fails to start workers is passed over for a while, if another host can start them.
func TestLoop_StartsFailOnAHost_AnotherHostTakesOver(t *testing.T) {
	onHosts(t, func(s *hostsRig, l *control.Loop) {
		s.machine("c").noStarts.Store(true)
		s.onHost("c", func(w *stubWorker) { _ = s.machine("c").Launcher.Kill(s.t.Context(), w.spec.ID) })
		s.reconcile()
		wantLayout(s.t, l, "a master 1", "a slave 0", "b slave 0")
		if got := s.machine("c").startsFailed.Load(); got != 1 {
			s.t.Errorf("got %d starts on c, want 1", got)
		}
	})
}

// A host whose workers start but never serve is passed over after the first one was killed, as long as it counts as failing.
func TestLoop_WorkersOfAHostNeverServe_AnotherHostTakesOver(t *testing.T) {
	onHosts(t, func(s *hostsRig, l *control.Loop) {
		c := s.machine("c")
		c.silent.Store(true)
		before := c.starts.Load()
		s.onHost("c", func(w *stubWorker) { _ = c.Launcher.Kill(s.t.Context(), w.spec.ID) })
		pass(4 * time.Minute)
		wantLayout(s.t, l, "a master 1", "a slave 0", "b slave 0")
		if got := c.starts.Load() - before; got != 1 {
			s.t.Errorf("got %d workers started on c, want 1", got)
		}
	})
}

// The first worker is started alone. If it ends before it takes a role, the next one is started on another host.
func TestLoop_FirstWorkersHostFails_AnotherHostBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHostsRig(t, "a", "b", "c")
		s.machine("a").diesAt.Store(true)
		l, stop := s.run(control.Config{Name: "o", Slaves: 2})
		defer s.end()
		defer stop()
		s.reconcile()
		if got := s.machine("a").starts.Load(); got != 1 {
			t.Errorf("got %d workers started on a, want 1", got)
		}
		if present, _ := l.Master(); !present || len(layout(t, l)) != 3 {
			t.Errorf("got %q, want a master and two slaves", layout(t, l))
		}
	})
}

// A worker that ends on request before it served says nothing of its host.
func TestLoop_UnreadyWorkerEndsOnRequest_HostKeepsItsPlace(t *testing.T) {
	onHosts(t, func(s *hostsRig, l *control.Loop) {
		c := s.machine("c")
		c.silent.Store(true)
		crash := func() {
			s.t.Helper()
			members, err := l.Members(s.t.Context())
			if err != nil {
				s.t.Fatal(err)
			}
			newest := slices.MaxFunc(members, func(a, b control.Member) int { return a.PID - b.PID })
			if _, ok, err := l.CrashSlave(s.t.Context(), dbaas.Seen{Worker: newest.Worker}); newest.Host != "c" || !ok || err != nil {
				s.t.Fatalf("got %+v, %t, %v, want the slave of c killed", newest, ok, err)
			}
		}
		s.onHost("c", func(w *stubWorker) { _ = c.Launcher.Kill(s.t.Context(), w.spec.ID) })
		s.reconcile()
		crash()
		s.reconcile()
		wantLayout(s.t, l, "a master 1", "b slave 0", "c slave 0")
	})
}
