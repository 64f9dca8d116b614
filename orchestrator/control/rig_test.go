package control_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
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

// epochs is a persdb that only counts.
type epochs struct {
	mu      sync.Mutex
	last    dbaas.Epoch
	away    bool
	refused int // claims while it was away
}

func (e *epochs) setAway(away bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = away
}

func (e *epochs) Head(context.Context) (dbaas.Head, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return dbaas.Head{Epoch: e.last}, nil
}

func (e *epochs) Claim(context.Context) (dbaas.Epoch, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		e.refused++
		return 0, dbaas.ErrUnavailable
	}
	e.last++
	return e.last, nil
}

// rig is engine, coordinator and persdb without any orchestrator.
type rig struct {
	t        *testing.T
	launcher *engine
	coord    *coordinator
	store    *epochs
	diesAt   atomic.Bool
	assigned atomic.Int64  // how often a role was assigned
	busLost  atomic.Bool   // the orchestrator has no bus
	deaf     atomic.Bool   // the orchestrator gets no sign of life
	pulses   atomic.Int64  // how often a worker was asked for a sign of life
	ahead    atomic.Int64  // how much further the orchestrator's clock is, in nanoseconds
	writes   atomic.Uint64 // as control.Config.WritesAnswered
	log      *slog.Logger
	lines    bytes.Buffer  // of log
	loads    time.Duration // from a worker's role to its registration
	stuckAt  time.Duration // after how much of loads a worker makes no more progress; zero if it never stops

	mu      sync.Mutex // guards the fields below
	workers map[dbaas.WorkerID]*stubWorker
	hangs   map[dbaas.WorkerID]bool // workers that do not answer
}

func (s *rig) hung(id dbaas.WorkerID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hangs[id]
}

func (s *rig) hang(id dbaas.WorkerID, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs[id] = on
}

func (s *rig) worker(id dbaas.WorkerID) *stubWorker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workers[id]
}

// engine is a launcher whose kills, removals and lists can be made to fail.
type engine struct {
	*inproc.Launcher
	noKills, noRemovals, noLists atomic.Bool
	killsFailed, removalsFailed  atomic.Int64
}

func (e *engine) List(ctx context.Context) ([]launch.Instance, error) {
	if e.noLists.Load() {
		return nil, launch.ErrUnavailable
	}
	return e.Launcher.List(ctx)
}

func (e *engine) Kill(ctx context.Context, id dbaas.WorkerID) error {
	if e.noKills.Load() {
		e.killsFailed.Add(1)
		return launch.ErrUnavailable
	}
	return e.Launcher.Kill(ctx, id)
}

func (e *engine) Remove(ctx context.Context, id dbaas.WorkerID) error {
	if e.noRemovals.Load() {
		e.removalsFailed.Add(1)
		return launch.ErrUnavailable
	}
	return e.Launcher.Remove(ctx, id)
}

// coordinator can freeze between two calls of a pass: from then on an orchestrator's calls get no answer.
type coordinator struct {
	*coordinproc.Coordinator
	freezesAtLead, frozen, losesCount atomic.Bool // losesCount: the next SlaveCount gets no answer
}

func (c *coordinator) Open(ctx context.Context) (coord.Session, error) {
	s, err := c.Coordinator.Open(ctx)
	return coordSession{s, c}, err
}

// answers returns nil if the coordinator answers, else coord.ErrUnavailable at the end of ctx.
func (c *coordinator) answers(ctx context.Context) error {
	if !c.frozen.Load() {
		return nil
	}
	<-ctx.Done()
	return coord.ErrUnavailable
}

type coordSession struct {
	coord.Session
	coordinator *coordinator
}

func (s coordSession) Members(ctx context.Context) ([]coord.Member, error) {
	if err := s.coordinator.answers(ctx); err != nil {
		return nil, err
	}
	return s.Session.Members(ctx)
}

func (s coordSession) Lead(ctx context.Context, name string) (bool, error) {
	if s.coordinator.freezesAtLead.CompareAndSwap(true, false) {
		s.coordinator.frozen.Store(true)
	}
	if err := s.coordinator.answers(ctx); err != nil {
		return false, err
	}
	return s.Session.Lead(ctx, name)
}

func (s coordSession) SlaveCount(ctx context.Context) (int, coord.Version, error) {
	if s.coordinator.losesCount.CompareAndSwap(true, false) {
		return 0, 0, coord.ErrUnavailable
	}
	if err := s.coordinator.answers(ctx); err != nil {
		return 0, 0, err
	}
	return s.Session.SlaveCount(ctx)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	c, err := coordinproc.New(coordinproc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &rig{t: t, coord: &coordinator{Coordinator: c}, store: &epochs{}, workers: map[dbaas.WorkerID]*stubWorker{}, hangs: map[dbaas.WorkerID]bool{}}
	s.log = slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &s.lines), nil))
	s.launcher = &engine{Launcher: inproc.New(inproc.Config{
		Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		Make: func(spec inproc.Spec) (inproc.Worker, error) {
			w := &stubWorker{spec: spec, client: c.Dial(), diesAt: s.diesAt.Load(), rig: s, opened: make(chan coord.Session, 1)}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.workers[spec.ID] = w
			return w, nil
		},
	})}
	return s
}

// startsPerMinute is the limit of starts in these tests.
const startsPerMinute = 10

// orchestrate runs a loop until the returned function is called.
func (s *rig) orchestrate(slaves int) (*control.Loop, func()) {
	return s.orchestrateOn(s.coord, slaves)
}

// orchestrateOn is orchestrate with a coordinator of its own.
func (s *rig) orchestrateOn(coordinator coord.Coordinator, slaves int) (*control.Loop, func()) {
	return s.orchestrateWith(control.Config{Coordinator: coordinator, Slaves: slaves})
}

// orchestrateWith is orchestrate with settings.
func (s *rig) orchestrateWith(cfg control.Config) (*control.Loop, func()) {
	cfg.Log, cfg.Launcher, cfg.Name, cfg.StartsPerMinute = s.log, s.launcher, "o", startsPerMinute
	if cfg.Store == nil {
		cfg.Store = s.store
	}
	cfg.Workers = &workerapi.Client{HTTP: &http.Client{Transport: s.launcher.Transport()}}
	cfg.BusUp, cfg.WritesAnswered = func() bool { return !s.busLost.Load() }, s.writes.Load
	cfg.Now = func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
	l := control.New(cfg)
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx) // ends with ctx's error
	}()
	return l, func() { cancel(); <-done }
}

// reconcile lets the loop work until nothing changes any more.
func (s *rig) reconcile() { pass(10 * time.Second) }

// pass lets the fake time of the bubble go on.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// roles lists the running workers by pid, as "pid role epoch".
func (s *rig) roles() []string {
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

func (s *rig) running() []launch.Instance {
	s.t.Helper()
	all, err := s.launcher.List(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(in launch.Instance) bool { return !in.Running })
	slices.SortFunc(all, func(a, b launch.Instance) int { return a.PID - b.PID })
	return all
}

func (s *rig) pids() []int {
	s.t.Helper()
	var pids []int
	for _, in := range s.running() {
		pids = append(pids, in.PID)
	}
	return pids
}

func (s *rig) end() {
	s.launcher.noKills.Store(false)
	for _, in := range s.running() {
		if err := s.launcher.Kill(s.t.Context(), in.ID); err != nil {
			s.t.Error(err)
		}
	}
}

func (s *rig) want(want ...string) {
	s.t.Helper()
	if got := s.roles(); !slices.Equal(got, want) {
		s.t.Fatalf("got %v, want %v", got, want)
	}
	if got := len(s.running()); got != len(want) {
		s.t.Fatalf("got %d running workers, want %d", got, len(want))
	}
}

// bubble runs a test in fake time with a loop for two slaves.
func bubble(t *testing.T, story func(s *rig, l *control.Loop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		l, stop := s.orchestrate(2)
		defer s.end()
		defer stop()
		s.reconcile()
		story(s, l)
	})
}

// withStandby runs a test in fake time with two orchestrators, of which the first one leads. stop ends the leader.
func withStandby(t *testing.T, slaves int, story func(s *rig, leader, standby *control.Loop, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		leader, stop := s.orchestrate(slaves)
		defer s.end()
		defer stop()
		s.reconcile()
		standby, stopStandby := s.orchestrate(slaves)
		defer stopStandby()
		s.reconcile()
		story(s, leader, standby, stop)
	})
}

// first returns the first worker's pid, so that tests can count from it.
func (s *rig) first() int { return s.running()[0].PID }
