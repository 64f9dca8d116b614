package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinproc "rideshare/internal/coord/inproc"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/control"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/inproc"
)

// stubWorker registers with the role that it is given, and does nothing else.
type stubWorker struct {
	spec     inproc.Spec
	client   *coordinproc.Client
	diesAt   bool // ends as soon as it runs
	assigned *atomic.Int64
}

func (w *stubWorker) Run(ctx context.Context) error {
	if w.diesAt {
		return fmt.Errorf("worker %s has nothing to live for", w.spec.ID)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (w *stubWorker) Kill() { w.client.Sever() }

func (w *stubWorker) Control() http.Handler {
	var mu sync.Mutex
	var session coord.Session
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.assigned.Add(1)
		var a workerapi.Assignment
		err := json.NewDecoder(r.Body).Decode(&a)
		if err == nil && session == nil {
			session, err = w.client.Open(context.WithoutCancel(r.Context()))
		}
		if err == nil {
			err = session.Register(r.Context(), coord.Member{PID: a.PID, Worker: w.spec.ID, Role: a.Role, Epoch: a.Epoch})
		}
		if err != nil {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

// epochs is a persdb that only counts.
type epochs struct {
	mu   sync.Mutex
	last dbaas.Epoch
}

func (e *epochs) Claim(context.Context) (dbaas.Epoch, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	return e.last, nil
}

// stand is engine, coordinator and persdb without any orchestrator.
type stand struct {
	t        *testing.T
	launcher *inproc.Launcher
	coord    *coordinproc.Coordinator
	store    *epochs
	diesAt   atomic.Bool
	assigned atomic.Int64 // how often a role was assigned
}

func newStand(t *testing.T) *stand {
	t.Helper()
	c, err := coordinproc.New(coordinproc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{t: t, coord: c, store: &epochs{}}
	s.launcher = inproc.New(inproc.Config{
		Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		Make: func(spec inproc.Spec) (inproc.Worker, error) {
			return &stubWorker{spec: spec, client: c.Dial(), diesAt: s.diesAt.Load(), assigned: &s.assigned}, nil
		},
	})
	return s
}

// orchestrate runs a loop until the returned function is called.
func (s *stand) orchestrate(slaves int) (*control.Loop, func()) {
	l := control.New(control.Config{
		Log: slog.New(slog.NewTextHandler(s.t.Output(), nil)), Launcher: s.launcher, Coordinator: s.coord, Store: s.store,
		Workers: &workerapi.Client{HTTP: &http.Client{Transport: s.launcher.Transport()}}, Name: "o", Slaves: slaves,
		StartsPerMinute: 10,
	})
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx) // ends with ctx's error
	}()
	return l, func() { cancel(); <-done }
}

// settle lets the loop work until nothing moves any more.
func (s *stand) settle() { pass(10 * time.Second) }

// pass lets the fake time of the bubble go on.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// roles lists the running workers by pid, as "pid role epoch".
func (s *stand) roles() []string {
	s.t.Helper()
	session, err := s.coord.Open(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = session.Close() }() // only reads.
	members, err := session.Members(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, m := range members {
		out = append(out, fmt.Sprintf("%d %s %d", m.PID, m.Role, m.Epoch))
	}
	return out
}

func (s *stand) running() []launch.Instance {
	s.t.Helper()
	all, err := s.launcher.List(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(in launch.Instance) bool { return !in.Running })
	slices.SortFunc(all, func(a, b launch.Instance) int { return a.PID - b.PID })
	return all
}

func (s *stand) end() {
	for _, in := range s.running() {
		if err := s.launcher.Kill(s.t.Context(), in.ID); err != nil {
			s.t.Error(err)
		}
	}
}

func (s *stand) want(want ...string) {
	s.t.Helper()
	if got := s.roles(); !slices.Equal(got, want) {
		s.t.Fatalf("got %v, want %v", got, want)
	}
	if got := len(s.running()); got != len(want) {
		s.t.Fatalf("got %d running workers, want %d", got, len(want))
	}
}

// bubble runs a story in fake time with a loop for two slaves.
func bubble(t *testing.T, story func(s *stand, l *control.Loop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		l, stop := s.orchestrate(2)
		defer s.end()
		defer stop()
		s.settle()
		story(s, l)
	})
}

// first returns the pid that the first worker has, so that stories can count from it.
func (s *stand) first() int { return s.running()[0].PID }

// The first worker becomes master, alone, so that it has the lowest pid of all.
func TestLoop_FirstStart_MasterHasLowestPID(t *testing.T) {
	bubble(t, func(s *stand, _ *control.Loop) {
		p := s.first()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d slave 0", p+2))
	})
}

// A killed master is followed by the slave with the lowest pid, in a new epoch, in place;
// a new slave takes its seat.
func TestLoop_MasterKilled_LowestPIDFollows(t *testing.T) {
	bubble(t, func(s *stand, _ *control.Loop) {
		p := s.first()
		if err := s.launcher.Kill(s.t.Context(), s.running()[0].ID); err != nil {
			s.t.Fatal(err)
		}
		s.settle()
		s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// A killed slave is replaced, and nobody's role changes.
func TestLoop_SlaveKilled_Replaced(t *testing.T) {
	bubble(t, func(s *stand, _ *control.Loop) {
		p := s.first()
		if err := s.launcher.Kill(s.t.Context(), s.running()[1].ID); err != nil {
			s.t.Fatal(err)
		}
		s.settle()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+2), fmt.Sprintf("%d slave 0", p+3))
	})
}

// Fewer slaves wanted: the highest pids leave and are not taken for crashed;
// more wanted: they come.
func TestLoop_SetSlaves_FollowsBothWays(t *testing.T) {
	bubble(t, func(s *stand, l *control.Loop) {
		p := s.first()
		if err := l.SetSlaves(s.t.Context(), 1); err != nil {
			s.t.Fatal(err)
		}
		s.settle()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1))
		if err := l.SetSlaves(s.t.Context(), 3); err != nil {
			s.t.Fatal(err)
		}
		s.settle()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d slave 0", p+3), fmt.Sprintf("%d slave 0", p+4))
	})
}

// A new orchestrator adopts what runs: no start, no new epoch, and the wanted
// number is the remembered one, not its own default.
func TestLoop_OrchestratorRestarted_Adopts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		_, stop := s.orchestrate(2)
		defer s.end()
		s.settle()
		before := s.roles()
		stop()
		_, stop = s.orchestrate(5)
		defer stop()
		s.settle()
		s.want(before...)
	})
}

// While one orchestrator leads, another one stands by; it takes over when the first is gone.
func TestLoop_SecondOrchestrator_StandsBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		_, stop := s.orchestrate(1)
		defer s.end()
		s.settle()
		_, stopSecond := s.orchestrate(1)
		defer stopSecond()
		s.settle()
		p := s.first()
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1))
		stop()
		if err := s.launcher.Kill(t.Context(), s.running()[0].ID); err != nil {
			t.Fatal(err)
		}
		s.settle()
		s.want(fmt.Sprintf("%d master 2", p+1), fmt.Sprintf("%d slave 0", p+2))
	})
}

// A coordinator that is away for long costs no worker and no epoch.
func TestLoop_CoordinatorAway_NothingChanges(t *testing.T) {
	bubble(t, func(s *stand, _ *control.Loop) {
		before := s.roles()
		s.coord.Stop()
		s.settle()
		s.coord.Start()
		s.settle()
		s.want(before...)
	})
}

// Workers that die at once are started again, but not faster than the limit.
func TestLoop_CrashLoop_StartsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		s.diesAt.Store(true)
		_, stop := s.orchestrate(2)
		defer s.end()
		defer stop()
		pass(30 * time.Second)
		s.diesAt.Store(false)
		pass(90 * time.Second)
		running := s.running()
		if len(running) != 3 {
			t.Fatalf("got %d running workers after the crash loop, want 3", len(running))
		}
		if last := running[2].PID - 1000; last > 30 {
			t.Errorf("got %d starts in two minutes, want at most 30", last)
		}
	})
}

// While the coordinator is away the master is told, again and again, that nobody else
// is chosen; while it answers nobody is told anything.
func TestLoop_CoordinatorAway_MastershipRenewed(t *testing.T) {
	bubble(t, func(s *stand, _ *control.Loop) {
		s.coord.Stop()
		before := s.assigned.Load()
		s.settle()
		if got := s.assigned.Load() - before; got < 2 {
			s.t.Errorf("away for 10 s: got %d renewals, want some", got)
		}
		s.coord.Start()
		s.settle()
		before = s.assigned.Load()
		s.settle()
		if got := s.assigned.Load() - before; got != 0 {
			s.t.Errorf("coordinator is back: got %d renewals, want none", got)
		}
	})
}
