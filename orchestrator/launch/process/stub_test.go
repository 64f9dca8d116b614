package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"rideshare/internal/lifeline"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/launch/process"
)

// The test binary is the program that the tests start. What it is then is in these variables.
const (
	envRole  = "PROCESS_TEST_ROLE"
	envToken = "PROCESS_TEST_TOKEN" // of the test: its processes are found by it
	envChild = "PROCESS_TEST_CHILD" // the role of a parent's children
	envDir   = "PROCESS_TEST_DIR"   // the directory of a parent's launcher
)

// The roles.
const (
	roleWorker  = "worker"  // serves, and does what is requested
	roleDeaf    = "deaf"    // serves, and does nothing about its parent's end
	roleDoomed  = "doomed"  // writes something and ends immediately
	roleWordy   = "wordy"   // writes almost as much as a pipe holds and ends immediately
	roleParent  = "parent"  // starts two children, and waits for its end
	roleStarter = "starter" // starts children without end
)

// exitGone is the exit code of a worker whose parent is gone.
const exitGone = 9

func TestMain(m *testing.M) {
	roles := map[string]func() int{
		roleWorker: worker, roleDeaf: deaf, roleDoomed: victim, roleWordy: wordy, roleParent: parent, roleStarter: starter,
	}
	if role := roles[os.Getenv(envRole)]; role != nil {
		exit(role())
	}
	testenv.NoLeaksMain(m)
}

func exit(code int) {
	os.Exit(code) //nolint:forbidigo // the main function of a process of its own
}

// status is what a worker answers.
type status struct {
	PID     int
	Args    []string
	Files   []string // open at the start, by number
	Visible []string // variables of the parent that a grandchild would see

	Terminated int32 // how often it was asked to finish, being stubborn
}

// files returns what this process has open.
func files() []string {
	var open []string
	for fd := range 64 {
		if target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil {
			open = append(open, strconv.Itoa(fd)+" "+target)
		}
	}
	return open
}

func worker() int {
	s := status{PID: os.Getpid(), Args: os.Args[1:], Files: files()}
	if err := lifeline.Watch(context.Background(), func() { exit(exitGone) }); err != nil {
		return complain(err)
	}
	return serve(s)
}

func deaf() int {
	signal.Ignore(syscall.SIGHUP) // which a stopped and orphaned process would get
	return serve(status{PID: os.Getpid()})
}

// serve is a control API on the inherited listener.
func serve(s status) int {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	listener, err := lifeline.Listener()
	if err != nil {
		return complain(err)
	}
	for _, name := range []string{lifeline.EnvLine, lifeline.EnvListener} {
		if _, ok := os.LookupEnv(name); ok {
			s.Visible = append(s.Visible, name)
		}
	}
	var stubborn atomic.Bool
	var count atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		now := s
		now.Terminated = count.Load()
		_ = json.NewEncoder(w).Encode(now)
	})
	mux.HandleFunc("POST /stubborn", func(http.ResponseWriter, *http.Request) { stubborn.Store(true) })
	mux.HandleFunc("POST /exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		exit(code)
	})
	go func() { _ = http.Serve(listener, mux) }()
	for range terminated {
		if !stubborn.Load() {
			return 0
		}
		count.Add(1)
	}
	return 0
}

func victim() int {
	for n := range 50 {
		fmt.Printf(`{"line":%d}`+"\n", n) //nolint:forbidigo // what its parent reads
	}
	fmt.Print("cut") //nolint:forbidigo // what its parent reads
	fmt.Fprintln(os.Stderr, "no luck")
	return 3
}

// wordyText is what a wordy process writes: more than is read at once, and less than a pipe holds.
func wordyText() string { return strings.Repeat(strings.Repeat("x", 99)+"\n", 600) + "the end\n" }

func wordy() int {
	fmt.Print(wordyText()) //nolint:forbidigo // what its parent reads
	return 3
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// parentLauncher is that of a process between a test and its workers.
func parentLauncher() (*process.Launcher, error) {
	return process.New(process.Config{
		Dir: os.Getenv(envDir), Args: func(process.Spec) []string { return nil },
		Env: append(os.Environ(), envRole+"="+os.Getenv(envChild)),
	})
}

func parent() int {
	l, err := parentLauncher()
	if err != nil {
		return complain(err)
	}
	c, err := process.Supervise(process.ChildConfig{Name: "child", Env: append(os.Environ(), envRole+"="+os.Getenv(envChild))})
	if err != nil {
		return complain(err)
	}
	i, err := l.Start(context.Background(), "s1")
	if err != nil {
		return complain(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode([]string{i.Control, c.URL()})
	select {} // until it is killed
}

func starter() int {
	l, err := parentLauncher()
	for n := 0; err == nil; n++ {
		_, err = l.Start(context.Background(), strconv.Itoa(n))
		_, _ = fmt.Println(n) //nolint:forbidigo // what the test reads
	}
	return complain(errors.Join(err))
}
