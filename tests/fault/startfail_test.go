package fault_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

const (
	// startsPerMinute is so low that workers that die at once reach the limit. startEvery is the time between two starts at the
	// limit.
	startsPerMinute = 30
	startEvery      = time.Minute / startsPerMinute
)

// All workers die, and the workers' program is missing, as an image can be, or ends at once. The system reports this, and
// starts workers no faster than allowed. When the program is back, the system becomes whole by itself and nothing is lost or
// doubled.
func TestLauncher_WorkersCannotRun_ToldNotHurriedAndWholeAgain(t *testing.T) {
	t.Parallel()
	on := shared(t)
	for name, fault := range map[string]struct {
		spoil func(path string) error
		shows func(orchestrator) error
		told  string // the message that must be in the log once
		alert string
	}{
		"ProgramMissing": {os.Remove, orchestrator.startsFail, "worker not started", "RideshareStartsFail"},
		"CrashLoop":      {endAtOnce, orchestrator.startsHeldBack, "starts held back", "RideshareStartsHeldBack"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSplit(t, on, 2)
			s.env = []string{fmt.Sprintf("STARTS_PER_MINUTE=%d", startsPerMinute)}
			s.program = filepath.Join(s.dir, "program")
			s.putProgram(t)
			s.startPersdb(t)
			s.startLauncher(t)
			o := s.startOrchestrator(t)
			l := startLoad(t, o.system)
			alerts := o.watchAlerts(t)

			before, began := o.starts(), time.Now()
			if err := fault.spoil(s.program); err != nil {
				t.Fatal(err)
			}
			for _, pid := range o.cluster(t).all() {
				signal(t, pid, syscall.SIGKILL)
			}
			testenv.Eventually(t, healLimit, func() error { return fault.shows(o) })
			l.awaitRefusal(t)
			o.unreadyWithoutWorkers(t)
			outlast(t, 2*startEvery) // in which any excess starts would happen
			n, took := o.starts()-before, time.Since(began)
			t.Logf("%v starts in %v", n, took)
			if most := startsPerMinute + 1 + int(took/startEvery); n > float64(most) {
				t.Errorf("got %v starts in %v, want %d at most", n, took, most)
			}
			s.toldOnce(t, fault.told)
			o.deadLetter(t)
			alerts.Await(t, fault.alert, "RideshareNoMaster", "RideshareNoSlave", "RideshareSlavesMissing", "RideshareErrors", "RideshareDeadLetters")

			s.putProgram(t)
			o.check(t, l)
		})
	}
}

// putProgram replaces the workers' program by a copy of the binary.
func (s *split) putProgram(t *testing.T) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	// Another process makes the copy: children that this process forks for other tests could inherit the open file, and a file
	// that is open for writing cannot be executed.
	out, err := exec.CommandContext(t.Context(), "cp", path, s.program+".new").CombinedOutput()
	if err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	if err = os.Rename(s.program+".new", s.program); err != nil {
		t.Fatal(err)
	}
}

// endAtOnce replaces a program by one that ends as soon as it is started.
func endAtOnce(path string) error {
	return errors.Join(os.Symlink("/bin/false", path+".new"), os.Rename(path+".new", path))
}

// starts returns how many starts of workers the orchestrator has counted, failed ones included.
func (o orchestrator) starts() float64 { return o.startsThat("ok") + o.startsThat("failed") }

func (o orchestrator) startsThat(result string) float64 {
	n, err := o.metric(o.orchestrator, "rideshare_worker_starts_total", `result="`+result+`"`)
	if err != nil {
		return 0 // a result that did not occur has no metric
	}
	return n
}

// startsFail returns an error until the orchestrator has counted a failed start.
func (o orchestrator) startsFail() error {
	if n := o.startsThat("failed"); n < 2 {
		return fmt.Errorf("got %v starts that failed, want 2 at least", n)
	}
	return nil
}

// startsHeldBack returns an error until the orchestrator reports that starts are held back.
func (o orchestrator) startsHeldBack() error {
	c, err := get[struct {
		Held int `json:"starts_held_back"`
	}](o.system, "/api/v1/cluster")
	if err != nil {
		return err
	}
	total, err := o.metric(o.orchestrator, "rideshare_worker_starts_held_back_total", "")
	if err == nil && (c.Held == 0 || total == 0) {
		err = fmt.Errorf("starts held back: got %d now and %v ever, want some", c.Held, total)
	}
	return err
}

// unreadyWithoutWorkers checks that the orchestrator is not ready and names the missing workers as the reason.
func (o orchestrator) unreadyWithoutWorkers(t *testing.T) {
	t.Helper()
	a, err := o.try(t.Context(), http.MethodGet, "/readyz", nil)
	if err != nil || a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "missing: master, caught-up slave") {
		t.Errorf("GET readyz: got %d %.300s, %v, want 503 and that master and slave are missing", a.status, a.body, err)
	}
}

// toldOnce checks that the log has one line with a message.
func (s *split) toldOnce(t *testing.T, message string) {
	t.Helper()
	text, err := os.ReadFile(s.logFile())
	if n := bytes.Count(text, []byte(`"msg":"`+message+`"`)); err != nil || n != 1 {
		t.Errorf("lines of %q: got %d, %v, want 1", message, n, err)
	}
}
