package fault_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// split is a system whose parts are separate processes, as they are in containers: persdb, a launcher with the workers
// as its children, and orchestrators that come and go.
type split struct {
	*system
	persdbURL, launcherURL string
	persdbCmd, launcherCmd *exec.Cmd
	program                string // binary of the launcher and so of its workers; empty: the same binary as the other parts
	store                  string // binary of persdb; empty: the same binary as the other parts
}

// startSplit starts persdb and the launcher. The test starts orchestrators.
func startSplit(t *testing.T, on services, slaves int) *split {
	t.Helper()
	s := newSplit(t, on, slaves)
	s.startPersdb(t)
	s.startLauncher(t)
	return s
}

// newSplit returns a split. The caller starts persdb and the launcher.
func newSplit(t *testing.T, on services, slaves int) *split {
	t.Helper()
	s := &split{system: newSystem(t, on, slaves)}
	s.persdbURL, s.launcherURL = "http://"+testenv.FreeAddress(t), "http://"+testenv.FreeAddress(t)
	return s
}

// startPersdb starts persdb. Called again, it uses the same address.
func (s *split) startPersdb(t *testing.T) {
	t.Helper()
	s.persdbCmd = s.part(t, "persdb", "--listen", strings.TrimPrefix(s.persdbURL, "http://"), "--data", filepath.Join(s.dir, "data"))
}

// startLauncher starts the launcher. Called again, it uses the same address.
func (s *split) startLauncher(t *testing.T) {
	t.Helper()
	s.launcherCmd = s.part(t, "launcher", append(s.stack(), "--listen", strings.TrimPrefix(s.launcherURL, "http://"),
		"--data", filepath.Join(s.dir, "launcher"))...)
}

func (s *split) stack() []string {
	return []string{"--bus", s.rabbit.URL, "--coordinator", s.zoo.URL + "/" + s.id, "--prefix", s.prefix, "--persdb-url", s.persdbURL}
}

// part starts a process of the system. At the end of the test SIGTERM ends the processes, the last one started first.
func (s *split) part(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	switch name {
	case "launcher":
		path = cmp.Or(s.program, path)
	case "persdb":
		path = cmp.Or(s.store, path)
	}
	out, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }() // The child has its own copy.
	cmd := exec.Command(path, append([]string{name}, args...)...)
	cmd.Env = append(os.Environ(), markerEnv+"="+s.id, "CALL_TIMEOUT="+callTimeout.String(), "HUNG_AFTER=1m", "SCALE_PERIOD=24h", "LOG_LEVEL=info")
	cmd.Env = append(cmd.Env, s.env...) // the last one of a name counts
	cmd.Stdout, cmd.Stderr = out, out
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endPart(t, name, cmd) })
	return cmd
}

// endPart ends a process with SIGTERM, unless the test has killed it.
func endPart(t *testing.T, name string, cmd *exec.Cmd) {
	t.Helper()
	if cmd.ProcessState != nil {
		return
	}
	err, ended := cmd.Process.Signal(syscall.SIGTERM), make(chan struct{})
	go func() {
		err = errors.Join(err, cmd.Wait())
		close(ended)
	}()
	if !testenv.Within(stopLimit, ended) {
		t.Errorf("the %s still runs %v after SIGTERM", name, stopLimit)
	}
	if <-ended; err != nil {
		t.Errorf("how the %s ended: got %v, want exit status 0", name, err)
	}
}

// orchestrator is one of a system's orchestrators.
type orchestrator struct {
	*system // the system, whose API calls go to this orchestrator
	cmd     *exec.Cmd
}

// startOrchestrator starts an orchestrator and waits until it answers that it is ready.
func (s *split) startOrchestrator(t *testing.T) orchestrator {
	t.Helper()
	addr := testenv.FreeAddress(t)
	seen := *s.system
	seen.orchestrator = "http://" + addr
	o := orchestrator{system: &seen}
	o.cmd = s.part(t, "orchestrator", append(s.stack(), "--listen", addr, "--launcher", s.launcherURL,
		"--data", s.dir, "--slaves", fmt.Sprint(s.slaves))...)
	o.awaitWhole(t, s.slaves)
	return o
}

// kill ends the orchestrator with SIGKILL.
func (o orchestrator) kill(t *testing.T) {
	t.Helper()
	killPart(t, o.cmd)
}

func killPart(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the error says that the process was killed
}

// awaitLeader waits until this orchestrator runs the control loop.
func (o orchestrator) awaitLeader(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		if !o.cluster(t).Leader {
			return errors.New("it does not lead")
		}
		return nil
	})
}

// check ends the load, waits until the system is whole, and checks the invariants.
func (o orchestrator) check(t *testing.T, l *load) {
	t.Helper()
	o.awaitWhole(t, o.slaves)
	l.awaitProgress(t)
	l.endWell(t)
	l.checkEffects(t)
	o.checkReplicas(t, o.slaves)
}

// The leading orchestrator is killed under a load that goes through the other one: no request fails, no worker and no
// epoch changes, and the other orchestrator takes the lead and elects masters. The first orchestrator is started again
// and adopts the workers, and both give the same answers.
func TestOrchestrators_LeaderKilled_OtherServesOnAndLeads(t *testing.T) {
	t.Parallel()
	s := startSplit(t, shared(t), 2)
	s.env = []string{patient}
	first := s.startOrchestrator(t)
	first.awaitLeader(t)
	second := s.startOrchestrator(t)
	l := startLoad(t, second.system)
	before := second.cluster(t)
	first.kill(t)
	second.awaitLeader(t)
	l.awaitProgress(t)
	if after := second.awaitWhole(t, 2); after.Epoch != before.Epoch || !slices.Equal(after.all(), before.all()) {
		t.Errorf("after the take-over: got %+v, want nothing changed since %+v", after, before)
	}
	if writes, reads := l.writesRefused.Load(), l.readsFailed.Load(); writes+reads > 0 {
		t.Errorf("%d writes and %d reads failed, want none", writes, reads)
	}
	third := s.startOrchestrator(t)
	if got := third.cluster(t); got.Leader || !slices.Equal(got.all(), before.all()) {
		t.Errorf("a new orchestrator: got %+v, want a standby that has adopted %v", got, before.all())
	}
	handOver(t, third.system) // the request goes to an orchestrator that does not lead
	before = third.awaitWhole(t, 2)
	killed := third.crash(t, "master")
	second.awaitSuccessor(t, before)
	if lists := [2][]int{second.workerList(t), third.workerList(t)}; !slices.Equal(lists[0], lists[1]) || slices.Contains(lists[0], killed) {
		t.Errorf("the orchestrators list %v, want the same, without %d", lists, killed)
	}
	second.check(t, l)
}

// crash kills a worker through the API and returns its pid.
func (o orchestrator) crash(t *testing.T, role string) int {
	t.Helper()
	a, err := o.try(t.Context(), http.MethodPost, "/api/v1/crash/"+role, nil)
	var pids []int
	if err = errors.Join(err, json.Unmarshal(a.body, &pids)); err != nil || a.status != http.StatusOK || len(pids) != 1 {
		t.Fatalf("crash %s: got %d %s, %v, want 200 and a pid", role, a.status, a.body, err)
	}
	return pids[0]
}

func (o orchestrator) workerList(t *testing.T) []int {
	t.Helper()
	o.awaitWhole(t, o.slaves)
	pids, err := get[[]int](o.system, "/api/v1/worker/list")
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// The master and the only orchestrator are killed together. The next orchestrator elects a master among the slaves that
// it finds, and starts one worker, not a second set.
func TestOrchestrators_KilledWithTheMaster_RestartFinishesTheElection(t *testing.T) {
	t.Parallel()
	s := startSplit(t, shared(t), 2)
	first := s.startOrchestrator(t)
	l := startLoad(t, first.system)
	before := first.cluster(t)
	l.endWell(t)
	signal(t, before.pids("master")[0], syscall.SIGKILL)
	first.kill(t)
	second := s.startOrchestrator(t)
	after := second.awaitSuccessor(t, before)
	kept := slices.DeleteFunc(before.pids("slave"), func(pid int) bool { return !slices.Contains(after.all(), pid) })
	if after.pids("master")[0] != before.pids("slave")[0] || len(kept) != 2 || len(after.all()) != 3 {
		t.Errorf("got %+v, want the lowest slave of %+v as master, and one new worker", after, before)
	}
	l.sys = second.system
	l.checkEffects(t)
	second.checkReplicas(t, 2)
}

// A write that one orchestrator acknowledged a second ago is in every answer of the other orchestrator, even if the
// only slave has not applied it yet: the slave was stopped, and gets the writes and the read together when it goes on.
func TestOrchestrators_WritesThroughOne_ReadThroughTheOtherSeesThem(t *testing.T) {
	t.Parallel()
	s := newSplit(t, shared(t), 1)
	s.env = []string{slowSession, patient} // so that the slave is not replaced while it stands still
	s.startPersdb(t)
	s.startLauncher(t)
	first, second := s.startOrchestrator(t), s.startOrchestrator(t)
	first.exec(t, "CREATE TABLE t(n)")
	testenv.Eventually(t, healLimit, func() error { // for up to a second the other orchestrator may not know the table
		_, err := second.query("SELECT count(*) FROM t")
		return err
	})
	slave := second.cluster(t).pids("slave")[0]
	signal(t, slave, syscall.SIGSTOP)
	const writes, rows = 4, 10_000
	for range writes {
		first.exec(t, fmt.Sprintf("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n < %d) INSERT INTO t SELECT n FROM c", rows))
	}
	outlast(t, 2*time.Second) // One second is promised; the other one is for a busy machine.
	sent := second.readMessages(t)
	answer := make(chan answer, 1)
	go func() { // ends with the answer, at the latest at the client's limit
		a, err := second.try(context.Background(), http.MethodPost, "/db/query", []string{"SELECT count(*) FROM t"})
		if err != nil {
			a.body = []byte(err.Error())
		}
		answer <- a
	}()
	testenv.Eventually(t, healLimit, func() error {
		if second.readMessages(t) == sent {
			return errors.New("the read has not been sent")
		}
		return nil
	})
	signal(t, slave, syscall.SIGCONT)
	if a := <-answer; a.status != http.StatusOK || !strings.Contains(string(a.body), fmt.Sprintf("[[%d]]", rows*writes)) {
		t.Errorf("the read: got %d %.200s, want %d rows", a.status, a.body, rows*writes)
	}
}

// readMessages returns how many messages of reads this orchestrator has sent.
func (o orchestrator) readMessages(t *testing.T) (sum float64) {
	t.Helper()
	for _, lane := range []string{"point", "range"} {
		n, err := o.metric(o.orchestrator, "rideshare_rpc_batch_requests_count", `lane="`+lane+`"`)
		if err == nil { // a lane without a message has no metric
			sum += n
		}
	}
	return sum
}
