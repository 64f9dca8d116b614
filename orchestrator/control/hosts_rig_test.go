package control_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	coordinproc "rideshare/internal/coord/inproc"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/control"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/hosts"
	"rideshare/orchestrator/launch/inproc"
)

// What a machine does with calls.
const (
	present = iota
	paused  // it accepts them, and answers when it continues
	refuses // nobody listens
)

// machine is one host: a launcher with workers.
type machine struct {
	*inproc.Launcher
	name             string
	launcher, worker atomic.Int32 // what the launcher and the workers do
	kills            atomic.Int64
	noStarts         atomic.Bool  // its engine is away
	startsFailed     atomic.Int64 // since
	starts           atomic.Int64 // workers that it made
	silent, diesAt   atomic.Bool  // what its new workers do, as stubWorker's

	mu       sync.Mutex // guards the fields below
	received []string   // ids of starts that came while the machine was paused
}

func answers(ctx context.Context, state *atomic.Int32) error {
	switch state.Load() {
	case paused:
		<-ctx.Done()
		return fmt.Errorf("%w: %w", launch.ErrUnavailable, ctx.Err())
	case refuses:
		return fmt.Errorf("%w: %w", launch.ErrUnavailable, syscall.ECONNREFUSED)
	default:
		return nil
	}
}

func (m *machine) List(ctx context.Context) ([]launch.Instance, error) {
	if err := answers(ctx, &m.launcher); err != nil {
		return nil, err
	}
	return m.Launcher.List(ctx)
}

func (m *machine) Start(ctx context.Context, startID string) (launch.Instance, error) {
	if err := answers(ctx, &m.launcher); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.launcher.Load() == paused {
			m.received = append(m.received, startID)
		}
		return launch.Instance{}, err
	}
	if m.noStarts.Load() {
		m.startsFailed.Add(1)
		return launch.Instance{}, launch.ErrUnavailable
	}
	return m.Launcher.Start(ctx, startID)
}

func (m *machine) Kill(ctx context.Context, id dbaas.WorkerID) error {
	if err := answers(ctx, &m.launcher); err != nil {
		return err
	}
	m.kills.Add(1)
	return m.Launcher.Kill(ctx, id)
}

func (m *machine) Stop(ctx context.Context, id dbaas.WorkerID, grace time.Duration) error {
	if err := answers(ctx, &m.launcher); err != nil {
		return err
	}
	return m.Launcher.Stop(ctx, id, grace)
}

// RoundTrip implements http.RoundTripper for calls to the machine's workers.
func (m *machine) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := answers(r.Context(), &m.worker); err != nil {
		return nil, err
	}
	return m.Transport().RoundTrip(r)
}

// hostsRig is a rig with several hosts.
type hostsRig struct {
	*rig
	machines []*machine
}

// hostSession is the session length at the coordinator, longer than it takes to find a host lost.
const hostSession = 10 * time.Second

func newHostsRig(t *testing.T, names ...string) *hostsRig {
	t.Helper()
	c, err := coordinproc.New(coordinproc.Config{SessionTimeout: hostSession})
	if err != nil {
		t.Fatal(err)
	}
	s := &hostsRig{rig: &rig{t: t, coord: &coordinator{Coordinator: c}, store: &epochs{}, workers: map[dbaas.WorkerID]*stubWorker{}, hangs: map[dbaas.WorkerID]bool{}}}
	s.log = slog.New(slog.NewTextHandler(t.Output(), nil))
	for _, name := range names {
		m := &machine{name: name}
		m.Launcher = inproc.New(inproc.Config{
			Dir: t.TempDir(), Run: name, Log: slog.New(slog.DiscardHandler),
			Make: func(spec inproc.Spec) (inproc.Worker, error) {
				w := &stubWorker{spec: spec, client: c.Dial(), rig: s.rig, diesAt: m.diesAt.Load(), opened: make(chan coord.Session, 1)}
				w.silent.Store(m.silent.Load())
				m.starts.Add(1)
				s.mu.Lock()
				defer s.mu.Unlock()
				s.workers[spec.ID] = w
				return w, nil
			},
		})
		s.machines = append(s.machines, m)
	}
	return s
}

// RoundTrip implements http.RoundTripper for calls to all workers.
func (s *hostsRig) RoundTrip(r *http.Request) (*http.Response, error) {
	return s.machine(strings.Split(r.URL.Hostname(), "-")[1]).RoundTrip(r)
}

func (s *hostsRig) machine(name string) *machine {
	i := slices.IndexFunc(s.machines, func(m *machine) bool { return m.name == name })
	return s.machines[i]
}

// hosts returns an orchestrator's view of the hosts, and its end.
func (s *hostsRig) hosts() (*hosts.Launcher, func()) {
	var all []hosts.Host
	for _, m := range s.machines {
		all = append(all, hosts.Host{Name: m.name, Launcher: m})
	}
	l := hosts.New(s.log, all)
	return l, func() { _ = l.Close(context.Background()) } // has nothing to lose
}

// run runs an orchestrator until the returned function is called.
func (s *hostsRig) run(cfg control.Config) (*control.Loop, func()) {
	all, closeAll := s.hosts()
	cfg.Launcher = all
	if cfg.Coordinator == nil {
		cfg.Coordinator = s.coord
	}
	cfg.Log, cfg.Store, cfg.StartsPerMinute = s.log, s.store, 100
	cfg.Workers = &workerapi.Client{HTTP: &http.Client{Transport: s}}
	l := control.New(cfg)
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx) // ends with ctx's error
	}()
	return l, sync.OnceFunc(func() { cancel(); <-done; closeAll() })
}

// onHost calls do for the running workers of a host.
func (s *hostsRig) onHost(name string, do func(*stubWorker)) {
	list, _ := s.machine(name).Launcher.List(s.t.Context()) // never fails
	for _, in := range list {
		if in.Running {
			do(s.worker(in.ID))
		}
	}
}

// pause stops all processes of a host.
func (s *hostsRig) pause(name string) {
	s.machine(name).launcher.Store(paused)
	s.machine(name).worker.Store(paused)
	s.onHost(name, func(w *stubWorker) { w.client.Partition() })
}

// resume ends a pause. The launcher carries out the starts that it received meanwhile.
func (s *hostsRig) resume(name string) {
	m := s.machine(name)
	m.launcher.Store(present)
	m.worker.Store(present)
	s.onHost(name, func(w *stubWorker) { w.client.Heal() })
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range m.received {
		if _, err := m.Launcher.Start(s.t.Context(), id); err != nil {
			s.t.Error(err)
		}
	}
	m.received = nil
}

// kill ends all processes of a host.
func (s *hostsRig) kill(name string) {
	m := s.machine(name)
	m.launcher.Store(refuses)
	m.worker.Store(refuses)
	s.onHost(name, func(w *stubWorker) { _ = m.Launcher.Kill(s.t.Context(), w.spec.ID) })
}

// layout lists the members as "host role epoch", by host.
func layout(t *testing.T, l *control.Loop) []string {
	t.Helper()
	members, err := l.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range members {
		out = append(out, fmt.Sprintf("%s %s %d", m.Host, m.Role, m.Epoch))
	}
	slices.Sort(out)
	return out
}

func wantLayout(t *testing.T, l *control.Loop, want ...string) {
	t.Helper()
	if got := layout(t, l); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func (s *hostsRig) end() {
	for _, m := range s.machines {
		m.launcher.Store(present)
		s.onHost(m.name, func(w *stubWorker) { _ = m.Launcher.Kill(s.t.Context(), w.spec.ID) })
	}
}

// onHosts runs a test in fake time with an orchestrator for two slaves on the hosts a, b and c.
func onHosts(t *testing.T, story func(s *hostsRig, l *control.Loop)) {
	t.Helper()
	onHostsWith(t, control.Config{}, story)
}

// onHostsWith is onHosts with settings.
func onHostsWith(t *testing.T, cfg control.Config, story func(s *hostsRig, l *control.Loop)) {
	t.Helper()
	cfg.Name, cfg.Slaves = "o", 2
	synctest.Test(t, func(t *testing.T) {
		s := newHostsRig(t, "a", "b", "c")
		l, stop := s.run(cfg)
		defer s.end()
		defer stop()
		s.reconcile()
		wantLayout(t, l, "a master 1", "b slave 0", "c slave 0")
		story(s, l)
	})
}
