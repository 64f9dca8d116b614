package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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

// stubWorker takes roles by the rules of real workers, registers with them, and does nothing else.
type stubWorker struct {
	spec   inproc.Spec
	client *coordinproc.Client
	stand  *stand
	diesAt bool        // ends as soon as it runs
	silent atomic.Bool // takes roles, but does not come to serve in them
	opened chan coord.Session

	mu      sync.Mutex // guards the fields below
	session coord.Session
	member  coord.Member
	newest  dbaas.Epoch
}

func (w *stubWorker) Run(ctx context.Context) error {
	if w.diesAt {
		return fmt.Errorf("worker %s has nothing to live for", w.spec.ID)
	}
	for s := range w.sessions(ctx) {
		select {
		case <-s.Doubt():
			w.registerAgain(ctx)
		case <-ctx.Done():
			_ = s.Close() // of a dead one it stays until its time is over
		}
	}
	return ctx.Err()
}

// sessions are those that the worker has, one after the other, until ctx ends.
func (w *stubWorker) sessions(ctx context.Context) iter.Seq[coord.Session] {
	return func(yield func(coord.Session) bool) {
		for ctx.Err() == nil {
			select {
			case s := <-w.opened:
				if !yield(s) {
					return
				}
			case <-ctx.Done():
			}
		}
	}
}

// registerAgain opens another session, as a real worker does when it doubts its own.
func (w *stubWorker) registerAgain(ctx context.Context) {
	s, err := w.client.Open(ctx)
	for err != nil {
		select {
		case <-time.After(registerRetry):
		case <-ctx.Done():
			return
		}
		s, err = w.client.Open(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.session = s
	w.opened <- s
	if errors.Is(s.Register(ctx, w.member), coord.ErrExists) {
		_ = s.Expel(ctx, w.member.PID, w.spec.ID)
		_ = s.Register(ctx, w.member)
	}
}

// registerRetry is the wait between tries to open a session, as a real worker's.
const registerRetry = 200 * time.Millisecond

func (w *stubWorker) Kill() { w.client.Sever() }

func (w *stubWorker) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT "+workerapi.PathRole, func(rw http.ResponseWriter, r *http.Request) {
		w.stand.assigned.Add(1)
		var a workerapi.Assignment
		w.answer(rw, r, &a, func() error { return w.assign(r.Context(), a) })
	})
	mux.HandleFunc("POST "+workerapi.PathYield, func(rw http.ResponseWriter, r *http.Request) {
		var y workerapi.Yield
		w.answer(rw, r, &y, func() error {
			w.member.YieldTo = y.To
			return w.session.Register(r.Context(), w.member)
		})
	})
	return mux
}

func (w *stubWorker) answer(rw http.ResponseWriter, r *http.Request, body any, do func() error) {
	if w.stand.hung(w.spec.ID) {
		<-r.Context().Done()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	err := json.NewDecoder(r.Body).Decode(body)
	if err == nil {
		err = do()
	}
	if err != nil {
		rw.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(rw).Encode(workerapi.Problem{Code: dbaas.CodeConflict, Message: err.Error()})
	}
}

func (w *stubWorker) assign(ctx context.Context, a workerapi.Assignment) (err error) {
	have := w.member
	switch {
	case a.Worker != w.spec.ID:
		return fmt.Errorf("meant is %s", a.Worker)
	case a.Role == dbaas.RoleSlave && a.Epoch != have.Epoch:
		return fmt.Errorf("ends %d, not %d", a.Epoch, have.Epoch)
	case a.Role == dbaas.RoleMaster && (a.Epoch < w.newest || a.Epoch == w.newest && have.Role != dbaas.RoleMaster):
		return fmt.Errorf("has had %d", w.newest)
	}
	w.newest = max(w.newest, a.Epoch)
	if a.Role == dbaas.RoleSlave {
		a.Epoch = 0
	}
	if w.session == nil {
		if w.session, err = w.client.Open(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		w.opened <- w.session
	}
	if w.silent.Load() {
		return nil
	}
	w.member = coord.Member{PID: a.PID, Worker: w.spec.ID, Role: a.Role, Epoch: a.Epoch, Leaving: have.Leaving}
	return w.session.Register(ctx, w.member)
}

// leave announces the end of the worker.
func (w *stubWorker) leave(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.member.Leaving = true
	if err := w.session.Register(t.Context(), w.member); err != nil {
		t.Fatal(err)
	}
}

// loseBus announces that the worker has lost the bus.
func (w *stubWorker) loseBus(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.member.BusLost = true
	if err := w.session.Register(t.Context(), w.member); err != nil {
		t.Fatal(err)
	}
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
	launcher *engine
	coord    *coordinproc.Coordinator
	store    *epochs
	diesAt   atomic.Bool
	assigned atomic.Int64 // how often a role was assigned
	busLost  atomic.Bool  // the orchestrator has no bus

	mu      sync.Mutex // guards the fields below
	workers map[dbaas.WorkerID]*stubWorker
	hangs   map[dbaas.WorkerID]bool // workers that do not answer
}

func (s *stand) hung(id dbaas.WorkerID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hangs[id]
}

func (s *stand) hang(id dbaas.WorkerID, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs[id] = on
}

func (s *stand) worker(id dbaas.WorkerID) *stubWorker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workers[id]
}

// engine is a launcher whose kills and lists can be made to fail.
type engine struct {
	*inproc.Launcher
	noKills, noLists atomic.Bool
	killsFailed      atomic.Int64
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

func newStand(t *testing.T) *stand {
	t.Helper()
	c, err := coordinproc.New(coordinproc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{t: t, coord: c, store: &epochs{}, workers: map[dbaas.WorkerID]*stubWorker{}, hangs: map[dbaas.WorkerID]bool{}}
	s.launcher = &engine{Launcher: inproc.New(inproc.Config{
		Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		Make: func(spec inproc.Spec) (inproc.Worker, error) {
			w := &stubWorker{spec: spec, client: c.Dial(), diesAt: s.diesAt.Load(), stand: s, opened: make(chan coord.Session, 1)}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.workers[spec.ID] = w
			return w, nil
		},
	})}
	return s
}

// orchestrate runs a loop until the returned function is called.
func (s *stand) orchestrate(slaves int) (*control.Loop, func()) {
	l := control.New(control.Config{
		Log: slog.New(slog.NewTextHandler(s.t.Output(), nil)), Launcher: s.launcher, Coordinator: s.coord, Store: s.store,
		Workers: &workerapi.Client{HTTP: &http.Client{Transport: s.launcher.Transport()}}, Name: "o", Slaves: slaves,
		StartsPerMinute: 10, BusUp: func() bool { return !s.busLost.Load() },
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

func (s *stand) pids() []int {
	s.t.Helper()
	var pids []int
	for _, in := range s.running() {
		pids = append(pids, in.PID)
	}
	return pids
}

func (s *stand) end() {
	s.launcher.noKills.Store(false)
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

// A master that says that it has lost the bus is followed by a slave, but only once the orchestrator itself has it.
func TestLoop_MasterLosesTheBus_Replaced(t *testing.T) {
	bubble(t, func(s *stand, _ *control.Loop) {
		p := s.first()
		s.busLost.Store(true)
		s.worker(s.running()[0].ID).loseBus(s.t)
		pass(time.Minute)
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d slave 0", p+2))
		s.busLost.Store(false)
		pass(20 * time.Second)
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
