package fault_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// networks are proxies between the parts of a system and the services that they need. The system's parts are separate
// processes.
type networks struct {
	broker, coordinator, persdb *testenv.Network
}

// startNetworked runs a system over networks that the test can break: persdb, and an orchestrator that starts workers.
func startNetworked(t *testing.T, slaves int, env ...string) (*system, networks) {
	t.Helper()
	on := shared(t)
	var n networks
	n.broker, on.rabbit = behind(t, on.rabbit)
	n.coordinator, on.zoo = behind(t, on.zoo)
	s := newSystem(t, on, slaves)
	s.env = env
	var persdb *testenv.Service
	n.persdb, persdb = behind(t, &testenv.Service{URL: s.startPersdb(t)})
	s.persdbURL = persdb.URL
	s.start(t)
	return s, n
}

// behind puts a network before a service.
func behind(t *testing.T, service *testenv.Service) (*testenv.Network, *testenv.Service) {
	t.Helper()
	u, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	network := testenv.NewNetwork(t, service.URL)
	u.Host = network.Addr()
	return network, &testenv.Service{URL: u.String()}
}

// partStarted matches the line that a part logs when it listens.
var partStarted = regexp.MustCompile(`"part started".*"addr":"([^"]+)"`)

// startPersdb runs persdb as a separate process until the test ends, and returns its URL.
func (s *system) startPersdb(t *testing.T) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	logFile := filepath.Join(s.dir, "persdb.log")
	out, err := os.Create(logFile)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "persdb", "--listen", "127.0.0.1:0", "--data", filepath.Join(s.dir, "data")) // The cleanup ends it.
	cmd.Stdout, cmd.Stderr = out, out
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.endPersdb = sync.OnceFunc(func() {
		if endErr := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait(), out.Close()); endErr != nil {
			t.Errorf("end persdb: %v", endErr)
		}
	})
	t.Cleanup(s.endPersdb)
	var address string
	testenv.Eventually(t, startLimit, func() error {
		text, readErr := os.ReadFile(logFile)
		if m := partStarted.FindSubmatch(text); m != nil {
			address = string(m[1])
			return nil
		}
		return fmt.Errorf("persdb has not started: %s, %w", text, readErr)
	})
	return "http://" + address
}

// Only the master loses a service, for longer than its session: another worker becomes master meanwhile, no acknowledged write is
// lost or doubled, and when the network is back the system becomes whole.
func TestNetwork_MasterCutOff_NoSplitWrite(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(networks) *testenv.Network{
		"FromCoordinator": func(n networks) *testenv.Network { return n.coordinator },
		"FromPersdb":      func(n networks) *testenv.Network { return n.persdb },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sys, n := startNetworked(t, 2)
			l := startLoad(t, sys)
			before := sys.awaitWhole(t, 2)
			network := cut(n)
			network.Only(before.pids("master")[0])
			network.Cut()
			outlast(t, 2*session)
			awaitStruck(t, sys.newEpochSince(before))
			network.Heal()
			l.await(t, 2)
		})
	}
}

// A slave that is cut off from the coordinator or persdb is replaced or goes on. Reads are answered all the time, and each
// sees every write that was acknowledged before it.
func TestNetwork_SlaveCutOff_ReadsGoOn(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]struct {
		from  func(networks) *testenv.Network
		shows func(s *system, slave int) sign
	}{
		"FromCoordinator": {func(n networks) *testenv.Network { return n.coordinator }, (*system).unregistered},
		"FromPersdb":      {func(n networks) *testenv.Network { return n.persdb }, (*system).withoutLog},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sys, n := startNetworked(t, 2)
			l := startLoad(t, sys)
			slave := sys.awaitWhole(t, 2).pids("slave")[0]
			network, struck := cut.from(n), cut.shows(sys, slave)
			network.Only(slave)
			network.Cut()
			n.broker.Reset() // entries are lost with the connections, so that the slaves need persdb
			outlast(t, session)
			awaitStruck(t, struck)
			l.awaitProgress(t)
			network.Heal()
			l.await(t, 2)
		})
	}
}

// newEpochSince is the sign that another worker is master, or the same one again.
func (s *system) newEpochSince(before cluster) sign {
	return func() error {
		c, err := get[cluster](s, "/api/v1/cluster")
		if err == nil && c.Epoch <= before.Epoch {
			err = fmt.Errorf("got %+v, want a later epoch than in %+v", c, before)
		}
		return err
	}
}

// unregistered is the sign that a worker is no longer registered with the coordinator.
func (s *system) unregistered(pid int) sign {
	return func() error {
		c, err := get[cluster](s, "/api/v1/cluster")
		if err == nil && slices.ContainsFunc(c.Members, func(m member) bool { return m.PID == pid && m.Ready }) {
			err = fmt.Errorf("worker %d is registered", pid)
		}
		return err
	}
}

// withoutLog is the sign that a slave has asked persdb for its log and had no answer.
func (s *system) withoutLog(pid int) sign {
	return func() error {
		head, err := s.event(pid, "head_errors")
		read, readErr := s.event(pid, "read_errors")
		if head+read == 0 {
			return errors.Join(fmt.Errorf("worker %d had all that it wanted of persdb", pid), err, readErr)
		}
		return nil
	}
}

// A worker that loses only the broker is replaced while it is cut off. This holds for a master, so that writes succeed
// again, and for a slave.
func TestNetwork_CutOffFromBroker_Replaced(t *testing.T) {
	t.Parallel()
	sys, n := startNetworked(t, 2)
	l := startLoad(t, sys)
	for _, role := range []string{"master", "slave"} {
		t.Run(role, func(t *testing.T) {
			victim := sys.awaitWhole(t, 2).pids(role)[0]
			n.broker.Only(victim)
			n.broker.Cut()
			testenv.Eventually(t, healLimit, func() error {
				c, err := get[cluster](sys, "/api/v1/cluster")
				if err == nil && slices.Contains(slices.Concat(c.pids("master"), c.pids("slave")), victim) {
					err = fmt.Errorf("got %+v, want %d replaced", c, victim)
				}
				return err
			})
			sys.awaitWhole(t, 2)
			l.awaitProgress(t)
			n.broker.Heal()
		})
	}
	l.await(t, 2)
}

// persdb's answers to the master are lost, from the start or in the middle of an answer. A write that was committed without
// an answer gets its answer on the next try, and is executed once.
func TestNetwork_PersdbAnswersLost_UnknownOutcomeIsResolved(t *testing.T) {
	t.Parallel()
	sys, n := startNetworked(t, 2)
	l := startLoad(t, sys)
	for name, lose := range map[string]func(n *testenv.Network, master int){
		"Stalled": func(n *testenv.Network, master int) {
			n.Only(master)
			n.Stall(testenv.ToClient)
		},
		"InTheMiddle": func(n *testenv.Network, _ int) { n.Limit(testenv.ToClient, 100) },
	} {
		t.Run(name, func(t *testing.T) {
			lose(n.persdb, sys.awaitWhole(t, 2).pids("master")[0])
			awaitMore(t, "refused writes", &l.writesRefused, 4)
			n.persdb.Heal()
			sys.awaitWhole(t, 2)
			l.awaitProgress(t)
		})
	}
	l.await(t, 2)
}

// wantSlowReads fails the test unless each read that a worker answers takes at least that long: otherwise the fault had no
// effect.
func (s *system) wantSlowReads(t *testing.T, least time.Duration) {
	t.Helper()
	for i := range 5 { // a few reads may be slow because the machine is busy
		began := time.Now()
		if _, err := s.query(fmt.Sprintf("SELECT %d, random()", i)); err != nil { // neither the cache nor another read in flight can answer it
			t.Fatal(err)
		}
		if took := time.Since(began); took < least {
			t.Errorf("a read took %v on a slow network, want at least %v", took, least)
		}
	}
}

// A network with a long and varying delay that delivers a few bytes at a time makes the system slow; no call is refused,
// and no write is doubled. A TCP connection sees lost packets as a varying delay.
func TestNetwork_SlowAndUnsteady_NothingRefused(t *testing.T) {
	t.Parallel()
	sys, n := startNetworked(t, 2, patient)
	l := startLoad(t, sys)
	sys.awaitWhole(t, 2)
	const latency = 100 * time.Millisecond
	n.broker.Slow(testenv.Slowness{Latency: latency, Jitter: 50 * time.Millisecond, Slice: 100})
	n.persdb.Slow(testenv.Slowness{Latency: latency, Jitter: 200 * time.Millisecond, Slice: 1000})
	n.coordinator.Slow(testenv.Slowness{Latency: 250 * time.Millisecond, Jitter: 250 * time.Millisecond, Slice: 10})
	refused := l.writesRefused.Load() + l.readsFailed.Load()
	l.awaitProgress(t)
	outlast(t, session)
	l.awaitProgress(t)
	sys.wantSlowReads(t, 2*latency)
	if more := l.writesRefused.Load() + l.readsFailed.Load() - refused; more > 0 {
		t.Errorf("%d calls were refused, want none", more)
	}
	for _, network := range []*testenv.Network{n.broker, n.persdb, n.coordinator} {
		network.Heal()
	}
	l.await(t, 2)
}
