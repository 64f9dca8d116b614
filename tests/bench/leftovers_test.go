package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rideshare/internal/testkit/testenv"
)

// services are a RabbitMQ for this test alone, which can list its queues, and a node of the shared ZooKeeper.
type services struct {
	rabbit      *testenv.Service
	coordinator string
	nodes       func(t *testing.T) []string // below the node
}

func startServices(t *testing.T) services {
	t.Helper()
	coordinator, nodes := ownNode(t)
	return services{rabbit: testenv.StartRabbitMQ(t), coordinator: coordinator, nodes: nodes}
}

// ownNode makes a node in the shared ZooKeeper, which is removed when the test ends. It returns the node's URL, and a function
// that lists the nodes below it.
func ownNode(t *testing.T) (address string, nodes func(*testing.T) []string) {
	t.Helper()
	u, err := url.Parse(testenv.ZooKeeper(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, events, err := zk.Connect([]string{u.Host}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = fmt.Sprintf("/bench-%d", time.Now().UnixNano())
	if _, err = conn.Create(u.Path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Delete(u.Path, -1); err != nil {
			t.Errorf("remove %s: %v", u.Path, err)
		}
		conn.Close()
		for range events { // closed when the library is done
		}
	})
	return u.String(), func(t *testing.T) []string {
		t.Helper()
		names, _, err := conn.Children(u.Path)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
}

// queues returns the names of the queues, and of the exchanges that are not the broker's own. It asks for both at once: a call
// of rabbitmqctl takes a second of processor time.
func (s services) queues(t *testing.T) []string {
	t.Helper()
	text := s.rabbit.Ctl(t, "eval", "[{K, N} || {resource, _, K, N} <- rabbit_amqqueue:list_names() ++ rabbit_exchange:list_names()].")
	if !strings.Contains(text, `{exchange,<<"amq.fanout">>}`) {
		t.Fatalf("the broker names none of its own exchanges: %s", text)
	}
	var names []string
	for _, entry := range entries.FindAllStringSubmatch(text, -1) {
		if kind, name := entry[1], entry[2]; kind == "queue" || name != "" && !strings.HasPrefix(name, "amq.") {
			names = append(names, name)
		}
	}
	return names
}

var entries = regexp.MustCompile(`\{(queue|exchange),<<"?([^">]*)"?>>\}`)

// children returns the processes that a process has started.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // a process that has ended has none.
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && strings.Contains(string(text), fmt.Sprintf("\nPPid:\t%d\n", pid)) {
			pids = append(pids, child)
		}
	}
	return pids
}

// ending is a benchmark and how it ends.
type ending struct {
	args []string
	from string // the line of the progress after which it is ended; empty if it ends by itself
	end  func(t *testing.T, pid int)
	code int
}

func interrupt(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

// killChildren kills the processes that a benchmark measures.
func killChildren(t *testing.T, pid int) {
	t.Helper()
	for _, child := range children(t, pid) {
		if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// The services of a run stay: whatever the end of the ladder or the join, it leaves no queue, exchange or node there.
func TestLadder_AnyEnd_LeavesNothingAtTheServices(t *testing.T) {
	ladder := []string{"--works", "point-read,write", "--paths", "batched,tutorial", "--clients", "2", "--rows", "1000", "--rounds", "1000"}
	leaveNothing(t, map[string]ending{
		"Interrupted":     {ladder, "2 clients", interrupt, 1},
		"Starting":        {append(slices.Clip(ladder), "--rows", "100000"), "seed", interrupt, 1},
		"PathsKilled":     {ladder, "2 clients", killChildren, 1},
		"JoinInterrupted": {[]string{"join", "--mib", "4"}, "after the slave died", interrupt, 1},
	})
}

// The same is true of the fail-overs.
func TestFailover_AnyEnd_LeavesNothingAtTheServices(t *testing.T) {
	failover := []string{"failover", "--launcher", "process", "--writes", "20", "--reads", "20", "--kills"}
	leaveNothing(t, map[string]ending{
		"Done":        {append(slices.Clip(failover), "5"), "", nil, 0},
		"Interrupted": {append(slices.Clip(failover), "1000"), "of 1000", interrupt, 1},
	})
}

func leaveNothing(t *testing.T, endings map[string]ending) {
	t.Helper()
	s := startServices(t)
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range endings {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, append([]string{"bench"}, test.args...)...)
			cmd.Env = append(os.Environ(), "BENCH_BUS="+s.rabbit.URL, "BENCH_COORDINATOR="+s.coordinator, "TMPDIR="+t.TempDir())
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err = cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			ended := test.from == ""
			for lines := bufio.NewScanner(stderr); lines.Scan(); {
				out.WriteString(lines.Text() + "\n")
				if !ended && strings.Contains(lines.Text(), test.from) {
					ended = true
					testenv.Eventually(t, limit, func() error {
						if len(s.nodes(t)) == 0 || len(s.queues(t)) == 0 {
							return errors.New("got no queue or no node of the run, want what it has to remove")
						}
						return nil
					})
					test.end(t, cmd.Process.Pid)
				}
			}
			_ = cmd.Wait() // ProcessState has how it ended.
			if code := cmd.ProcessState.ExitCode(); !ended || code != test.code {
				t.Errorf("got exit code %d, want %d:\n%s", code, test.code, &out)
			}
			if left := append(s.queues(t), s.nodes(t)...); len(left) > 0 {
				t.Errorf("got %q left behind, want nothing:\n%s", left, &out)
			}
		})
	}
}
