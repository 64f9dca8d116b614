package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

const (
	// startLimit bounds the time from exec to the ready file. It is long: the tests share two cores with each other and with
	// the compiler.
	startLimit = 60 * time.Second
	// stopLimit is what docs/OPERATIONS.md promises: exit within 10 s of SIGTERM.
	stopLimit = 10 * time.Second
	// answerLimit is when the answer of db/* is too late: the deadline of patientCalls, plus time for a busy machine.
	answerLimit = 20 * time.Second
	// callLimit bounds each HTTP call: longer than any deadline inside the system.
	callLimit = time.Minute
)

// againLimit bounds how long reads and writes may be refused after a worker's death. On a given system the workers may be
// containers, which start slowly, and only after the dead containers are removed.
var againLimit = func() time.Duration {
	if os.Getenv(givenEnv) != "" {
		return 3 * time.Minute
	}
	return 30 * time.Second
}()

// patientWorkers and patientCalls are settings for busy machines, where a worker may stand still for seconds: it must not be
// replaced, and calls must wait for it.
const (
	patientWorkers = "HUNG_AFTER=1m"
	patientCalls   = "CALL_TIMEOUT=12s"
)

// setup is how a test's system differs from a plain `rideshare up`.
type setup struct {
	env   []string // NAME=value
	flags []string
	// owned says that the test ends the system, or looks at its process or its files.
	owned bool
	// tls is the directory of the certificate that it serves with, "" for plain HTTP; see withTLS.
	tls string
}

// ready is the content of the ready file.
type ready struct {
	Gateway      string `json:"gateway"`
	Users        string `json:"users"`
	Rides        string `json:"rides"`
	Orchestrator string `json:"orchestrator"`
	PID          int    `json:"pid"`
}

// system is one data directory and, while it runs, the `rideshare up` on it. Its
// addresses change with every start. The calls are safe for concurrent use, start
// and end are not.
type system struct {
	ready
	dir    string
	id     string
	setup  setup
	given  bool     // it already ran: the tests neither start nor end it
	proc   *process // nil while it does not run, and when it is given
	client *http.Client
}

// systems numbers the systems of a run, for unique names.
var systems atomic.Int64

// errExitZero is the error of a process that should still run but has exited with 0.
var errExitZero = errors.New("exit status 0")

func newSystem(dir string, s setup) *system {
	sys := &system{
		dir:   dir,
		id:    fmt.Sprintf("e2e-%d-%d", os.Getpid(), systems.Add(1)),
		setup: s,
	}
	sys.client = &http.Client{
		Timeout:       callLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     sys.documented(&http.Transport{MaxIdleConnsPerHost: 1100, DisableCompression: true}),
	}
	return sys
}

// start runs a system for this test alone, which ends gracefully with the test. If there is a given system, start returns
// that.
func start(t *testing.T, s setup) *system {
	t.Helper()
	if sys := onGiven(t, s); sys != nil {
		return sys
	}
	sys := newSystem(t.TempDir(), s)
	t.Cleanup(func() {
		if err := sys.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		sys.showLog(t)
	})
	sys.Start(t)
	return sys
}

func (s *system) dataDir() string   { return filepath.Join(s.dir, "data") }
func (s *system) readyFile() string { return filepath.Join(s.dir, "ready.json") }
func (s *system) logFile() string   { return filepath.Join(s.dir, "up.log") }

// upArgs is the command line of this system.
func (s *system) upArgs() []string {
	args := []string{
		"up", "--data", s.dataDir(), "--ready-file", s.readyFile(),
		"--gateway", "127.0.0.1:0", "--users", "127.0.0.1:0", "--rides", "127.0.0.1:0", "--orchestrator", "127.0.0.1:0",
	}
	args = append(args, s.setup.flags...)
	extra := strings.ReplaceAll(os.Getenv("RIDESHARE_E2E_FLAGS"), "{id}", s.id)
	return append(args, strings.Fields(extra)...)
}

// Start runs the process and waits until the ready file is there.
func (s *system) Start(t *testing.T) {
	t.Helper()
	if err := s.launch(); err != nil {
		s.printLog(t)
		t.Fatalf("start: %v", err)
	}
}

func (s *system) launch() error {
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return err
	}
	proc, err := startProcess(s.logFile(), append([]string{patientWorkers, patientCalls, markerEnv + "=" + s.id}, s.setup.env...), s.upArgs()...)
	if err != nil {
		return err
	}
	s.proc = proc
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(startLimit)
	for {
		select {
		case <-proc.done:
			s.proc = nil
			return fmt.Errorf("ended before it was ready: %w", cmp.Or(proc.err, errExitZero))
		case <-limit:
			_ = s.kill()
			return fmt.Errorf("not ready after %v", startLimit)
		case <-tick.C:
		}
		err = s.readReady()
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// readReady reads the ready file. The file is written atomically, so it is always complete. A file of an earlier process,
// which was killed, does not count.
func (s *system) readReady() error {
	text, err := os.ReadFile(s.readyFile())
	if err != nil {
		return err
	}
	if err = json.Unmarshal(text, &s.ready); err != nil {
		return fmt.Errorf("ready file %s: %w", text, err)
	}
	if s.PID != s.proc.pid() {
		return fmt.Errorf("ready file names pid %d, the process has %d: %w", s.PID, s.proc.pid(), fs.ErrNotExist)
	}
	for _, base := range []string{s.Gateway, s.Users, s.Rides, s.Orchestrator} {
		if !strings.HasPrefix(base, s.scheme()+"127.0.0.1:") || strings.HasSuffix(base, ":0") {
			return fmt.Errorf("ready file: %q is not where it listens", base)
		}
	}
	return nil
}

// Stop sends SIGTERM and checks what docs/OPERATIONS.md promises: exit code 0 within 10 s. It also checks that no
// process, ready file or open port is left.
func (s *system) Stop(t *testing.T) {
	t.Helper()
	if err := s.stop(); err != nil {
		s.printLog(t)
		t.Fatalf("stop: %v", err)
	}
}

func (s *system) stop() error {
	if s.proc == nil {
		return nil
	}
	proc := s.proc
	s.client.CloseIdleConnections()
	if err := proc.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if !testenv.Within(stopLimit, proc.done) {
		return errors.Join(fmt.Errorf("still runs %v after SIGTERM", stopLimit), s.kill())
	}
	s.proc = nil
	if proc.err != nil {
		return fmt.Errorf("after SIGTERM: %w", proc.err)
	}
	return s.nothingLeft()
}

// nothingLeft reports what a graceful end left behind.
func (s *system) nothingLeft() error {
	if _, err := os.Stat(s.readyFile()); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errors.New("the ready file is left behind"), err)
	}
	if left := processesOf(s.id); len(left) > 0 {
		return fmt.Errorf("left behind: processes %v", left)
	}
	for _, base := range []string{s.Gateway, s.Users, s.Rides, s.Orchestrator} {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(base, s.scheme()), time.Second)
		if err == nil {
			_ = conn.Close()
			return fmt.Errorf("%s still listens", base)
		}
	}
	return nil
}

// Kill sends SIGKILL and waits for the end of the process and of its children, which must notice by themselves.
func (s *system) Kill(t *testing.T) {
	t.Helper()
	if err := s.kill(); err != nil {
		t.Fatalf("kill: %v", err)
	}
	eventually(t, 20*time.Second, func() error {
		if left := processesOf(s.id); len(left) > 0 {
			return fmt.Errorf("children %v live on", left)
		}
		return nil
	})
}

func (s *system) kill() error {
	if s.proc == nil {
		return nil
	}
	proc := s.proc
	s.proc = nil
	if err := proc.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-proc.done
	s.client.CloseIdleConnections()
	return nil
}

// Restart stops the system gracefully and starts it again on the same data.
func (s *system) Restart(t *testing.T) {
	t.Helper()
	s.Stop(t)
	s.Start(t)
}
