package fault_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/testkit/testenv"
)

const (
	// firstPIDs is the pid after which a namespace starts to count: every worker has a higher pid until the pids wrap around.
	firstPIDs = 20_000
	// longSession is longer than replacedLimit: if a new worker had to wait until the session of the dead one ends, the test would fail.
	longSession   = 20 * time.Second
	replacedLimit = 15 * time.Second
	// samePIDTries bounds how often a worker is killed until the next worker gets its pid. A thread may take the pid first.
	samePIDTries = 20
)

// startNamespaced is startSystem in a new pid namespace, whose first process is up. The system reports the pids that its workers have
// inside the namespace.
func startNamespaced(t *testing.T, on services, slaves int) *system {
	t.Helper()
	const lastPID = "/proc/sys/kernel/ns_last_pid"
	_, missing := exec.LookPath("nsenter")
	if file, err := os.OpenFile(lastPID, os.O_WRONLY, 0); err != nil {
		missing = errors.Join(missing, err)
	} else {
		_ = file.Close()
	}
	if os.Getuid() != 0 {
		missing = errors.Join(missing, errors.New("not root"))
	}
	if missing != nil {
		testenv.Cannot(t, false, "a pid namespace of its own needs root, nsenter and %s: %v", lastPID, missing)
	}
	s := newSystem(t, on, slaves)
	s.env = []string{"RIDESHARE_SESSION=" + longSession.String(), patient}
	s.prepare = func(cmd *exec.Cmd) {
		script := fmt.Sprintf(`echo %d > %s && exec "$0" "$@"`, firstPIDs, lastPID)
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", script}, cmd.Args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	}
	s.host = func(pid int) int { return s.rootNamespace(t, pid) }
	s.start(t)
	return s
}

// inNamespace runs a shell command in the system's namespace.
func (s *system) inNamespace(t *testing.T, command string) {
	t.Helper()
	args := []string{"--target", strconv.Itoa(s.cmd.Process.Pid), "--pid", "sh", "-c", command}
	if out, err := exec.CommandContext(t.Context(), "nsenter", args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// goOnAfter makes the namespace assign the free pids after pid next.
func (s *system) goOnAfter(t *testing.T, pid int) {
	t.Helper()
	s.inNamespace(t, fmt.Sprintf("echo %d > /proc/sys/kernel/ns_last_pid", pid))
}

var nsPID = regexp.MustCompile(`(?m)^NSpid:.*\s(\d+)$`)

// workersInside maps the pid that each worker has in the namespace to its pid outside.
func (s *system) workersInside() map[int]int {
	workers := map[int]int{}
	for _, pid := range s.processes() {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		status, statusErr := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		found := nsPID.FindSubmatch(status)
		if err != nil || statusErr != nil || found == nil || !strings.Contains(string(args), "\x00worker\x00") {
			continue // the process has ended, or is no worker
		}
		if inside, err := strconv.Atoi(string(found[1])); err == nil {
			workers[inside] = pid
		}
	}
	return workers
}

// rootNamespace returns the pid outside the namespace of the worker that has this pid inside it.
func (s *system) rootNamespace(t *testing.T, pid int) int {
	t.Helper()
	host, ok := s.workersInside()[pid]
	if !ok {
		t.Fatalf("there is no worker with pid %d", pid)
	}
	return host
}

// checkList checks that worker/list returns the pids of the workers that run.
func (s *system) checkList(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		var want []int
		for pid := range s.workersInside() {
			want = append(want, pid)
		}
		slices.Sort(want)
		if got, err := get[[]int](s, "/api/v1/worker/list"); err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("worker/list: got %v, %w, want %v", got, err, want)
		}
		return nil
	})
}

// Under load the pids wrap around, so that the newest worker has the lowest pid, and a dead worker's pid is given to the next worker
// while the dead one is still registered. Each worker still gets the right role, and nothing is lost or doubled.
func TestWorkers_PIDsWrapAndComeAgain_RolesAreRightAndNothingIsLost(t *testing.T) {
	t.Parallel()
	l := startLoad(t, startNamespaced(t, shared(t), 2))
	wrapPIDs(t, l)
	samePID(t, l, "slave")
	samePID(t, l, "master")
	l.await(t, 3)
}

// A new worker with the lowest pid changes nothing as long as the master lives, and becomes master when the master dies.
func wrapPIDs(t *testing.T, l *load) {
	t.Helper()
	before := l.sys.awaitWhole(t, 2)
	l.sys.inNamespace(t, `echo $(($(cat /proc/sys/kernel/pid_max) - 1)) > /proc/sys/kernel/ns_last_pid`)
	l.sys.wantSlaves(t, 3)
	grown := l.sys.awaitWhole(t, 3)
	newest := grown.all()[0]
	if newest >= before.all()[0] || before.all()[0] <= firstPIDs {
		t.Fatalf("the pids have not wrapped around: got %+v after %+v", grown, before)
	}
	if grown.Epoch != before.Epoch || !slices.Equal(grown.pids("master"), before.pids("master")) {
		t.Errorf("got %+v, want the master of %+v", grown, before)
	}
	l.sys.checkList(t)
	signal(t, l.sys.host(grown.pids("master")[0]), syscall.SIGKILL)
	l.awaitFailover(t)
	if after := l.sys.awaitSuccessor(t, grown); after.pids("master")[0] != newest {
		t.Errorf("got %+v, want %d for the new master, the lowest slave of %+v", after, newest, grown)
	}
	l.sys.checkList(t)
}

// A worker is killed and the next one gets its pid. While up is stopped, the dead worker keeps its pid and stays registered, and the
// namespace is set to assign this pid next.
func samePID(t *testing.T, l *load, role string) {
	t.Helper()
	up := l.sys.cmd.Process.Pid
	lead := 0 // how many pids threads took before the worker at the last try
	for range samePIDTries {
		before := l.sys.awaitWhole(t, 3)
		victim := before.pids(role)[0]
		dead := l.sys.registered(t, victim)
		host := l.sys.host(victim)
		signal(t, up, syscall.SIGSTOP)
		signal(t, host, syscall.SIGKILL)
		l.sys.goOnAfter(t, victim-1-lead)
		if got := l.sys.registered(t, victim); got.Worker != dead.Worker {
			t.Errorf("registered with pid %d after its death: got %+v, want %+v", victim, got, dead)
		}
		signal(t, up, syscall.SIGCONT)
		after, next := l.sys.awaitReplaced(t, before, dead)
		l.checkRoles(t, before, after, role)
		l.sys.checkList(t)
		l.awaitProgress(t)
		if next.PID == victim {
			if next.Role != "slave" {
				t.Errorf("the next worker with pid %d: got %+v, want a slave", victim, next)
			}
			return
		}
		t.Logf("pid %d was wanted for the next worker, it has %d", victim, next.PID)
		lead = max(0, lead+next.PID-victim)
	}
	t.Fatalf("in %d tries no worker got the pid of the dead %s", samePIDTries, role)
}

// checkRoles checks who is master after a worker of that role has died.
func (l *load) checkRoles(t *testing.T, before, after cluster, role string) {
	t.Helper()
	want, sameEpoch := before.pids("master")[0], true
	if role == "master" {
		want, sameEpoch = before.pids("slave")[0], false
	}
	if after.pids("master")[0] != want || (after.Epoch == before.Epoch) != sameEpoch {
		t.Errorf("after the death of a %s of %+v: got %+v, want master %d", role, before, after, want)
	}
}

// registered returns the registration of the worker with this pid.
func (s *system) registered(t *testing.T, pid int) (m coord.Member) {
	t.Helper()
	if err := s.inCoordinator(t, func(c coord.Session) error {
		members, err := c.Members(t.Context())
		if i := slices.IndexFunc(members, func(m coord.Member) bool { return m.PID == pid }); i >= 0 {
			m = members[i]
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return m
}

// awaitReplaced waits until a registered worker has replaced the dead one. It fails the test if that takes as long as a session, and
// returns both workers.
func (s *system) awaitReplaced(t *testing.T, before cluster, dead coord.Member) (after cluster, next member) {
	t.Helper()
	known := map[string]bool{}
	for _, m := range before.Members {
		known[m.Container] = true
	}
	testenv.Eventually(t, replacedLimit, func() error {
		var err error
		if after, err = get[cluster](s, "/api/v1/cluster"); err != nil {
			return err
		}
		i := slices.IndexFunc(after.Members, func(m member) bool { return !known[m.Container] && m.Ready })
		gone := !slices.ContainsFunc(after.Members, func(m member) bool { return m.Container == string(dead.Worker) })
		if i < 0 || !gone || len(after.Members) != len(before.Members) || len(after.pids("master")) != 1 {
			return fmt.Errorf("got %+v, want another one for %s of %+v", after, dead.Worker, before)
		}
		next = after.Members[i]
		return nil
	})
	if got := s.registered(t, next.PID); string(got.Worker) != next.Container {
		t.Errorf("registered with pid %d: got %+v, want %+v", next.PID, got, next)
	}
	return after, next
}
