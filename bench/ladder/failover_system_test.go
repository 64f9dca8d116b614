package ladder

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/bench/api"
	"rideshare/internal/progressbar"
)

// fakeSystem is the orchestrator's API over one table, right unless it has a fault with every tenth write.
type fakeSystem struct {
	fault  string
	master int // its pid

	mu      sync.Mutex // guards the fields below
	rows    []string
	writes  int
	faulty  int // writes with the fault
	epoch   int
	crashed int // calls of crash/master
	looks   int // calls of cluster; the second is the last thing before the kill
}

// The faults.
const (
	loses   = "loses it"
	doubles = "doubles it"
	refuses = "does it and answers 503"
	adds    = "adds one that was never sent"
	stops   = "refuses all writes from just before the kill on"
	silent  = "the same, and all reads at the end"
)

func (s *fakeSystem) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/api/v1/events" {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var answer any = map[string]any{}
	switch r.URL.Path {
	case "/api/v1/cluster":
		s.looks++
		answer = map[string]any{"epoch": s.epoch, "desired_slaves": 1, "members": []api.Member{{PID: s.master, Role: "master", Ready: true}, {PID: 1, Role: "slave", Ready: true}}}
	case "/api/v1/crash/master":
		s.crashed++
		s.epoch++
	case "/api/v1/master":
		s.epoch++
	case "/db/execute":
		text, _ := io.ReadAll(r.Body)
		var insert [][]string
		if json.Unmarshal(text, &insert) == nil && s.insert(insert[0][1]) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case "/db/query":
		if r.URL.RawQuery == "" {
			break // the load's: small, since it comes whether or not earlier ones are answered
		}
		if s.fault == silent {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		answer = map[string]any{"results": []any{map[string]any{"values": s.counts()}}}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// insert does a write, and reports whether it is to be refused all the same.
func (s *fakeSystem) insert(name string) (refused bool) {
	if s.fault == stops || s.fault == silent {
		return s.looks > 1
	}
	faulty := s.fault != "" && s.writes%10 == 0
	s.writes++
	if !faulty {
		s.rows = append(s.rows, name)
		return false
	}
	s.faulty++
	switch s.fault {
	case doubles:
		s.rows = append(s.rows, name, name)
	case refuses:
		s.rows = append(s.rows, name)
	case adds:
		s.rows = append(s.rows, name, name+"x")
	}
	return s.fault == refuses
}

func (s *fakeSystem) counts() (values [][]any) {
	counts := map[string]int{}
	for _, name := range s.rows {
		counts[name]++
	}
	for name, n := range counts {
		values = append(values, []any{name, n})
	}
	return values
}

// measure measures one fail-over of the system.
func (s *fakeSystem) measure(t *testing.T, mode FailoverMode) (*FailoverReport, error) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return Failover(t.Context(), FailoverConfig{Orchestrator: server.URL, Mode: mode, Kills: 1, Writes: 50, Reads: 20, Progress: progressbar.Output{Writer: io.Discard}})
}

// Every write that is lost or doubled, or is there unasked, is counted and makes the run fail; a correct system passes.
func TestFailover_WrongSystem_IsFound(t *testing.T) {
	for _, fault := range []string{"", loses, doubles, refuses, adds} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := &fakeSystem{fault: fault}
			r, err := s.measure(t, FailoverCrash)
			if wrong := fault != ""; errors.Is(err, ErrWrong) != wrong || !wrong && err != nil || wrong && s.faulty == 0 {
				t.Fatalf("got %v, want an error if the system is wrong", err)
			}
			want := FailoverReport{Writes: Calls{Sent: s.writes, OK: s.writes}}
			switch fault {
			case loses:
				want.Lost = s.faulty
			case doubles:
				want.Doubled = s.faulty
			case refuses:
				want.Unasked, want.Writes.Refused, want.Writes.OK = s.faulty, s.faulty, s.writes-s.faulty
			case adds:
				want.Unasked = s.faulty
			}
			got := FailoverReport{Lost: r.Lost, Doubled: r.Doubled, Unasked: r.Unasked, Writes: r.Writes}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// A system that is complete again and refuses all writes has not come back.
func TestFailover_WritesNeverBack_IsAnError(t *testing.T) {
	r, err := (&fakeSystem{fault: stops}).measure(t, FailoverCrash)
	if !errors.Is(err, ErrNotBack) || r == nil || r.Gap.Max == 0 || r.Writes.Refused == 0 {
		t.Errorf("got %+v and %v, want the report and that writes did not come back", r, err)
	}
	if _, err = (&fakeSystem{fault: silent}).measure(t, FailoverCrash); !errors.Is(err, ErrNotBack) || !errors.Is(err, ErrNotCompared) {
		t.Errorf("reads fail too: got %v, want that writes did not come back and were not compared", err)
	}
}

// startWorker starts a process that looks like a worker, and calls ended with the signal that ended it.
func startWorker(t *testing.T, command string, ended func(syscall.Signal)) (pid int) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, command), []byte("read forever\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", command)
	cmd.Dir = dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = cmd.Wait() // how it ended is in its state.
		ended(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT) // if it still runs, as it should
		_ = stdin.Close()                       // then it ends.
		<-over
	})
	return cmd.Process.Pid
}

// A kill is only a signal to the process; the system is not notified.
func TestFailover_Kill_IsASignalThatTheSystemHasToNotice(t *testing.T) {
	s := &fakeSystem{}
	var got syscall.Signal
	s.master = startWorker(t, "worker", func(signal syscall.Signal) {
		s.mu.Lock()
		defer s.mu.Unlock()
		got = signal
		s.epoch++ // the system noticed
	})
	r, err := s.measure(t, FailoverKill)
	if err != nil || r.Kills != 1 || got != syscall.SIGKILL || s.crashed != 0 {
		t.Errorf("got %v, signal %v, %d calls of crash/master, want SIGKILL alone", err, got, s.crashed)
	}
}

// A pid from another machine may be any process on this one: a process that is not a worker gets no signal.
func TestFailover_PidOfNoWorker_GetsNoSignal(t *testing.T) {
	for _, mode := range []FailoverMode{FailoverKill, FailoverPause} {
		t.Run(string(mode), func(t *testing.T) {
			s := &fakeSystem{}
			var got syscall.Signal
			ended := make(chan struct{})
			t.Cleanup(func() {
				if <-ended; got > 0 {
					t.Errorf("a process that is no worker got %v", got)
				}
			})
			s.master = startWorker(t, "innocent", func(signal syscall.Signal) { got = signal; close(ended) })
			if _, err := s.measure(t, mode); err == nil || !strings.Contains(err.Error(), "--mode crash") {
				t.Errorf("got %v, want what to do in its place", err)
			}
		})
	}
}

// A binary without failpoints cannot make a master hang while it answers, and says what can.
func TestFailover_Stuck_NeedsFailpoints(t *testing.T) {
	for _, mode := range []FailoverMode{FailoverStuck, FailoverSpin} {
		if _, err := (&fakeSystem{master: os.Getpid()}).measure(t, mode); err == nil || !strings.Contains(err.Error(), "-tags failpoint") {
			t.Errorf("%s: got %v, want an error that names the tag", mode, err)
		}
	}
}
