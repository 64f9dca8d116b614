package fault_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/launch/remote"
	"rideshare/persdb/client"
)

// launcherGate is a proxy between the orchestrators of a system and its launcher. It can refuse calls and delay starts.
type launcherGate struct {
	mu      sync.Mutex // guards the fields below
	refused map[string]bool
	calls   map[string]int // by path
	turns   chan struct{}  // each start waits for a turn; nil: no start waits
	over    chan struct{}  // closed when the test ends
}

// guardLauncher puts a gate before the launcher. Orchestrators that are started afterwards call the gate.
func (s *split) guardLauncher(t *testing.T) *launcherGate {
	t.Helper()
	target, err := url.Parse(s.launcherURL)
	if err != nil {
		t.Fatal(err)
	}
	g := &launcherGate{refused: map[string]bool{}, calls: map[string]int{}, over: make(chan struct{})}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		// The end of the test cuts calls that are still running.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.admits(r) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(g.over)
		server.Close()
	})
	s.launcherURL = server.URL
	return g
}

// admits counts a call, lets it wait for its turn, and reports whether it may pass.
func (g *launcherGate) admits(r *http.Request) bool {
	g.mu.Lock()
	g.calls[r.URL.Path]++
	refused, turns := g.refused[r.URL.Path], g.turns
	g.mu.Unlock()
	if r.URL.Path == remote.PathStart && turns != nil {
		select {
		case <-turns:
		case <-g.over:
			return false
		}
	}
	return !refused
}

// refuse makes the gate answer calls of these paths, and of no others, with 500.
func (g *launcherGate) refuse(paths ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.refused)
	for _, path := range paths {
		g.refused[path] = true
	}
}

// holdStarts makes each start wait until the test sends a turn on the channel or closes it.
func (g *launcherGate) holdStarts() chan<- struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns = make(chan struct{})
	return g.turns
}

func (g *launcherGate) count(path string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[path]
}

// The master stands still while its commit is under way, and the launcher cannot kill it. Another worker becomes master all
// the same, and writes succeed again. The late commit is refused because of its epoch. The old master ends by itself when it
// wakes up.
func TestLauncher_StoppedMasterCannotBeKilled_FencedAndWritesComeBack(t *testing.T) {
	t.Parallel()
	s := newSplit(t, shared(t), 2)
	s.env = []string{hanging}
	s.startPersdb(t)
	network, persdb := behind(t, &testenv.Service{URL: s.persdbURL})
	s.persdbURL = persdb.URL
	s.startLauncher(t)
	gate := s.guardLauncher(t)
	o := s.startOrchestrator(t)
	l := startLoad(t, o.system)
	before := o.awaitWhole(t, 2)
	old := before.pids("master")[0]
	network.Only(old)
	network.Stall(testenv.ToServer)
	testenv.Eventually(t, healLimit, func() error {
		if !network.Holds(client.PathCommit) {
			return errors.New("no commit is on its way")
		}
		return nil
	})
	gate.refuse(remote.PathKill, remote.PathStop)
	signal(t, old, syscall.SIGSTOP)
	stopped := time.Now()
	o.awaitNewMaster(t, before)
	elected := time.Since(stopped)
	l.awaitProgress(t)
	t.Logf("a new master %v after the stop, writes after %v, %d kills tried", elected.Round(time.Millisecond),
		time.Since(stopped).Round(time.Millisecond), gate.count(remote.PathKill))
	network.Heal()
	testenv.Eventually(t, healLimit, func() error {
		_, err := o.metric(s.persdbURL, "rideshare_persdb_commit_seconds_count", `outcome="stale_epoch"`)
		return err
	})
	signal(t, old, syscall.SIGCONT)
	o.awaitGone(t, []int{old})
	tried, longest := gate.count(remote.PathKill), 2*int(time.Since(stopped)/time.Second)
	if tried == 0 || tried > longest {
		t.Errorf("kills tried: got %d, want 1 to %d, at most two a second", tried, longest)
	}
	gate.refuse()
	o.check(t, l)
}

// awaitNewMaster waits until another worker is a serving master in a later epoch. The old master may still run.
func (s *system) awaitNewMaster(t *testing.T, before cluster) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		c, err := get[cluster](s, "/api/v1/cluster")
		if err != nil {
			return err
		}
		for _, m := range c.Members {
			if m.Role == "master" && m.Ready && m.PID != before.pids("master")[0] && c.Epoch > before.Epoch {
				return nil
			}
		}
		return fmt.Errorf("got %+v, want another master than in %+v", c, before)
	})
}

// All slaves die, and new ones cannot be started yet. After the grace period reads are refused with 503 and Retry-After, and
// writes go on. Only reads that were already sent to a slave may end with 504. Reads are answered as soon as one slave
// serves, and all slaves come back.
func TestLauncher_AllSlavesKilled_ReadsRefusedOnlyWhileNoneServes(t *testing.T) {
	t.Parallel()
	s := startSplit(t, shared(t), 2)
	s.env = []string{unhurried}
	gate := s.guardLauncher(t)
	o := s.startOrchestrator(t)
	l := startLoad(t, o.system)
	before := o.awaitWhole(t, 2)
	turns := gate.holdStarts()
	killed := time.Now()
	for _, slave := range before.pids("slave") {
		signal(t, slave, syscall.SIGKILL)
	}
	testenv.Eventually(t, healLimit, o.refusedRead)
	if took := time.Since(killed); took < readGrace {
		t.Errorf("a read was refused %v after the slaves' death, want none for %v", took, readGrace)
	}
	awaitMore(t, "refused reads", &l.readsFailed, 8)
	awaitMore(t, "acknowledged writes", &l.acked, 20)
	turns <- struct{}{}
	o.awaitReadySlaves(t, 1)
	for range 20 {
		if _, err := o.query("SELECT count(*) FROM effects"); err != nil {
			t.Fatal(err)
		}
	}
	o.awaitReadySlaves(t, 1) // the other start still waits
	close(turns)
	after := o.awaitWhole(t, 2)
	if after.Epoch != before.Epoch || after.pids("master")[0] != before.pids("master")[0] {
		t.Errorf("got %+v, want the master of %+v", after, before)
	}
	o.check(t, l)
	writes, reads, unknown := l.writesRefused.Load(), l.readsFailed.Load(), l.unknown.Load()
	t.Logf("%d reads refused, %d of them with 504", reads, unknown)
	if writes > 0 || unknown > int64(len(queries)) {
		t.Errorf("%d writes were refused, and %d reads ended with 504, want none, and one for each of %d readers", writes, unknown, len(queries))
	}
}

// readGrace is how long a read waits for a slave while there is none.
const readGrace = time.Second

// refusedRead sends one read, which must be refused with 503.
func (s *system) refusedRead() error {
	a, err := s.try(context.Background(), http.MethodPost, "/db/query", []string{queries[1]})
	if err != nil || a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		return fmt.Errorf("a read without a slave: got %d %v %.200s, want 503 with Retry-After: %w", a.status, a.header, a.body, err)
	}
	return nil
}

// awaitReadySlaves waits until exactly that many slaves serve.
func (s *system) awaitReadySlaves(t *testing.T, want int) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		c, err := get[cluster](s, "/api/v1/cluster")
		if err != nil {
			return err
		}
		ready := 0
		for _, m := range c.Members {
			if m.Role == "slave" && m.Ready {
				ready++
			}
		}
		if ready != want {
			return fmt.Errorf("got %+v, want %d slaves that serve", c, want)
		}
		return nil
	})
}
