package hosts_test

import (
	"context"
	"errors"
	"hash/fnv"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/testkit/launchtest"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/hosts"
	"rideshare/orchestrator/launch/inproc"
	"rideshare/orchestrator/launch/process"
)

// envWorker makes the test binary a worker.
const envWorker = "HOSTS_TEST_WORKER"

func TestMain(m *testing.M) { launchtest.Main(m, envWorker) }

// spread starts each worker on the host that the hash of its start id selects.
type spread struct{ *hosts.Launcher }

func (s spread) Start(ctx context.Context, startID string) (launch.Instance, error) {
	sum := fnv.New32()
	_, _ = sum.Write([]byte(startID))
	in, err := s.Launcher.Start(ctx, string('a'+rune(sum.Sum32()%2))+"."+startID)
	return bare(in), err
}

func (s spread) List(ctx context.Context) ([]launch.Instance, error) {
	list, err := s.Launcher.List(ctx)
	for i := range list {
		list[i] = bare(list[i])
	}
	return list, err
}

func bare(in launch.Instance) launch.Instance {
	_, in.StartID, _ = strings.Cut(in.StartID, ".")
	return in
}

// The launchers of two hosts keep every promise of launch.Launcher together.
func TestConformance(t *testing.T) {
	t.Parallel()
	launchtest.Run(t, launchtest.Features{}, func(tb testing.TB) launchtest.World {
		tb.Helper()
		var all []hosts.Host
		for _, name := range []string{"b", "a"} {
			workers, err := process.New(process.Config{
				Dir: tb.TempDir(), Args: func(process.Spec) []string { return nil }, Env: append(os.Environ(), envWorker+"=1"),
			})
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { closed(tb, workers.Close) })
			all = append(all, hosts.Host{Name: name, Launcher: workers})
		}
		l := hosts.NewPatient(nil, all, 30*time.Second) // a slow machine's list is still a new one, and no silence
		tb.Cleanup(func() { closed(tb, l.Close) })
		return launchtest.StubWorld{Launcher: spread{l}}
	})
}

func closed(tb testing.TB, closes func(context.Context) error) {
	tb.Helper()
	if err := closes(context.Background()); err != nil {
		tb.Errorf("close: %v", err)
	}
}

// machine is a host's launcher, which does not answer while it is paused.
type machine struct {
	*inproc.Launcher
	paused atomic.Bool
	slow   atomic.Int64 // how long a list takes
}

func (m *machine) answers(ctx context.Context) error {
	if m.paused.Load() {
		<-ctx.Done()
		return launch.ErrUnavailable
	}
	return nil
}

func (m *machine) List(ctx context.Context) ([]launch.Instance, error) {
	if err := m.answers(ctx); err != nil {
		return nil, err
	}
	list, err := m.Launcher.List(ctx)
	time.Sleep(time.Duration(m.slow.Load()))
	return list, err
}

func (m *machine) Start(ctx context.Context, startID string) (launch.Instance, error) {
	if err := m.answers(ctx); err != nil {
		return launch.Instance{}, err
	}
	return m.Launcher.Start(ctx, startID)
}

func (m *machine) Kill(ctx context.Context, id workerID) error {
	if err := m.answers(ctx); err != nil {
		return err
	}
	return m.Launcher.Kill(ctx, id)
}

// world is a launcher of two hosts, a and b.
type world struct {
	*hosts.Launcher
	t    *testing.T
	a, b *machine
}

// fleet runs a test in fake time.
func fleet(t *testing.T, story func(w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var machines []*machine
		var all []hosts.Host
		for _, name := range []string{"a", "b"} {
			m := &machine{Launcher: inproc.New(inproc.Config{Dir: t.TempDir(), Run: name, Make: newIdle})}
			machines, all = append(machines, m), append(all, hosts.Host{Name: name, Launcher: m})
		}
		l := hosts.New(nil, all)
		defer closed(t, l.Close)
		story(world{l, t, machines[0], machines[1]})
		for _, m := range machines {
			list, _ := m.Launcher.List(t.Context())
			for _, in := range list {
				_ = m.Launcher.Kill(t.Context(), in.ID)
			}
		}
	})
}

func (w world) start(id string) launch.Instance {
	w.t.Helper()
	in, err := w.Start(w.t.Context(), id)
	if err != nil {
		w.t.Fatalf("start %s: %v", id, err)
	}
	return in
}

// A paused host costs one short wait. Then it is silent: its workers are those of its last list, calls for it fail
// immediately, and calls for other hosts are as fast as before.
func TestLauncher_PausedHost_DelaysNoOtherHost(t *testing.T) {
	t.Parallel()
	fleet(t, func(w world) {
		onA, onB := w.start("a.1"), w.start("b.1")
		if onA.Host != "a" || onB.Host != "b" || onA.PID != onB.PID {
			w.t.Fatalf("got %+v and %+v, want workers of a and b with the same pid", onA, onB)
		}
		w.b.paused.Store(true)
		began := time.Now()
		w.Look(w.t.Context())
		if took := time.Since(began); took > 500*time.Millisecond {
			w.t.Errorf("the first look took %v, want at most 500ms", took)
		}
		time.Sleep(2 * time.Second)
		began = time.Now()
		list, states := w.Look(w.t.Context())
		if took := time.Since(began); took != 0 {
			w.t.Errorf("a later look took %v, want no wait", took)
		}
		if len(list) != 2 || !list[1].Running || !states[0].Answers() || states[1].Answers() || time.Since(states[1].SilentSince) < time.Second {
			w.t.Errorf("got %+v and %+v, want both workers, and b silent", list, states)
		}
		for what, err := range map[string]error{"kill": w.Kill(w.t.Context(), onB.ID), "stop": w.Stop(w.t.Context(), onB.ID, time.Minute), "unknown": w.Kill(w.t.Context(), "w-x")} {
			if !errors.Is(err, launch.ErrUnavailable) || errors.Is(err, launch.ErrNoWorker) {
				w.t.Errorf("%s: got %v, want %v", what, err, launch.ErrUnavailable)
			}
		}
		if err := w.Kill(w.t.Context(), onA.ID); err != nil || time.Since(began) != 0 {
			w.t.Errorf("kill on the other host: got %v after %v, want none, immediately", err, time.Since(began))
		}
	})
}

// A call to a host that falls silent ends with the host, not with its own limit.
func TestLauncher_HostFallsSilent_EndsItsCalls(t *testing.T) {
	t.Parallel()
	fleet(t, func(w world) {
		w.Look(w.t.Context())
		w.b.paused.Store(true)
		began := time.Now()
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		if _, err := w.Start(ctx, "b.1"); !errors.Is(err, launch.ErrUnavailable) {
			w.t.Errorf("got %v, want %v", err, launch.ErrUnavailable)
		}
		if took := time.Since(began); took > 2*time.Second {
			w.t.Errorf("took %v, want at most 2s", took)
		}
		synctest.Wait() // until the token of the silence is there
		for len(w.Events()) > 0 {
			<-w.Events()
		}
		w.b.paused.Store(false)
		<-w.Events() // it answers again
		if _, states := w.Look(w.t.Context()); !states[1].Answers() || time.Since(states[1].AnswersSince) > time.Second {
			w.t.Errorf("got %+v, want b to answer again", states)
		}
		w.start("b.2")
	})
}

// A worker is listed from the moment when its start returns, also by a list that was requested before.
func TestLauncher_StartDuringAList_IsListed(t *testing.T) {
	t.Parallel()
	fleet(t, func(w world) {
		w.a.slow.Store(int64(800 * time.Millisecond))
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			in := w.start("a." + time.Now().String())
			for range 3 {
				if list, _ := w.Look(w.t.Context()); len(list) == 0 || list[len(list)-1].ID != in.ID {
					w.t.Fatalf("got %+v, want %s as the newest", list, in.ID)
				}
			}
		}
	})
}

// A start id belongs to the host that it names.
func TestLauncher_StartOfNoHost_IsRefused(t *testing.T) {
	t.Parallel()
	fleet(t, func(w world) {
		for _, id := range []string{"c.1", "1", "", ".1"} {
			if _, err := w.Start(w.t.Context(), id); err == nil || errors.Is(err, launch.ErrUnavailable) {
				w.t.Errorf("start %q: got %v, want a refusal", id, err)
			}
		}
	})
}

func TestCheckNames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		names []string
		ok    bool
	}{
		{[]string{"a", "b-2"}, true},
		{[]string{"a", "a"}, false},
		{[]string{""}, false},
		{[]string{"A"}, false},
		{[]string{"a.b"}, false},
		{[]string{"a_b"}, false},
		{[]string{"-a"}, false},
		{[]string{strings.Repeat("a", 33)}, false},
	} {
		if err := hosts.CheckNames(tc.names); (err == nil) != tc.ok {
			t.Errorf("%q: got %v, want ok=%t", tc.names, err, tc.ok)
		}
	}
}
