package fault_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// The scaling period is short, and the load exceeds the reads per slave many times. Under writes, the number of slaves
// goes from one to three and back, and a process dies at the moment of each step. The number ends as it should, and
// nothing is lost.
func TestSystem_KilledDuringScaleSteps_EndsInTheRightNumber(t *testing.T) {
	t.Parallel()
	sys := startSystem(t, shared(t), 1, "SCALE_PERIOD=5s", "SCALE_MAX=3")
	l := startLoad(t, sys)
	sys.awaitDesired(t, 3)
	sys.killLowest(t, "slave") // while other slaves are being started
	sys.awaitWhole(t, 3)
	l.quiet.Store(true)
	sys.awaitDesired(t, 1)
	sys.killLowest(t, "slave") // the slave that was to stay, while the others are drained
	sys.awaitWhole(t, 1)
	l.quiet.Store(false)
	sys.awaitDesired(t, 3)
	sys.killLowest(t, "master")
	sys.awaitWhole(t, 3)
	l.quiet.Store(true)
	sys.awaitDesired(t, 1)
	l.await(t, 1)
}

// Scaling in fails no request: a drained slave finishes its reads and ends. A system that is only scaled, under writes
// and reads, answers neither 503 nor 504.
func TestSystem_ScaledOutAndIn_NoRequestFails(t *testing.T) {
	t.Parallel()
	sys := startSystem(t, shared(t), 1, "SCALE_PERIOD=5s", "SCALE_MAX=3", patient)
	l := startLoad(t, sys)
	sys.awaitWhole(t, 3)
	l.quiet.Store(true)
	sys.awaitWhole(t, 1)
	l.quiet.Store(false)
	sys.awaitWhole(t, 3)
	l.quiet.Store(true)
	sys.awaitWhole(t, 1)
	if w, r := l.writesRefused.Load(), l.readsFailed.Load(); w+r > 0 {
		t.Errorf("refused: got %d writes and %d reads, want none", w, r)
	}
	l.await(t, 1)
	sys.drained(t, 4)
}

// drained checks that at least that many slaves have ended, each with exit code 0.
func (s *system) drained(t *testing.T, least int) {
	t.Helper()
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		t.Fatal(err)
	}
	died := 0
	for line := range bytes.Lines(text) {
		var e struct {
			Msg, Change, Role string
			Code              int
		}
		if err = json.Unmarshal(line, &e); err != nil || e.Msg != "worker changed" || e.Change != "died" || e.Role != "slave" {
			continue // some lines are not JSON
		}
		if died++; e.Code != 0 {
			t.Errorf("a slave that was to finish ended with exit code %d, want 0", e.Code)
		}
	}
	if died < least {
		t.Errorf("slaves that ended: got %d, want %d at least", died, least)
	}
}

// If the coordinator stands still when a scaling period ends, the decision is delayed and not lost.
func TestSystem_CoordinatorStandsStillAtTheTick_DecisionIsCarriedOut(t *testing.T) {
	t.Parallel()
	const period = 10 * time.Second
	on := ownCoordinator(t)
	sys := startSystem(t, on, 1, "SCALE_PERIOD="+period.String(), "SCALE_MAX=2", "SCALE_READS_PER_SLAVE=50", slowSession)
	l := startLoad(t, sys)
	for try := 1; !l.standStillAtTick(t, period); try++ {
		if try == 4 {
			t.Fatal("the fault has not struck: no decision for two slaves was made while the coordinator stood still")
		}
	}
	l.await(t, 1)
}

// standStillAtTick stops the coordinator while the next period ends, which has enough reads for two slaves. It reports whether that was
// decided in this time. Then the decision is carried out.
func (l *load) standStillAtTick(t *testing.T, period time.Duration) bool {
	t.Helper()
	sys := l.sys
	l.quiet.Store(true)
	last := sys.awaitDecision(t, len(sys.decisions(t)), func(d decision) bool { return d.Wanted == 1 && d.Done })
	sys.awaitWhole(t, 1)
	l.quiet.Store(false)
	tick := sys.decisions(t)[last].At.Add(period)
	_ = pause(t.Context(), time.Until(tick)-4*time.Second)
	l.quiet.Store(true)
	sys.zoo.Pause(t)
	stood := time.Now()
	_ = pause(t.Context(), time.Until(tick)+4*time.Second) // shorter than a session, so that no worker is replaced
	n, err := sys.desired()
	went := time.Now()
	sys.zoo.Resume(t)
	next := last + 1
	sys.awaitDecision(t, next, func(decision) bool { return true })
	if d := sys.decisions(t)[next]; d.Wanted != 2 || d.At.Before(stood) || d.At.After(went) {
		t.Logf("got %+v, want two slaves at a time from %v to %v", d, stood, went)
		return false
	}
	if err != nil || n != 1 {
		t.Errorf("the fault has not struck: %d slaves are wanted while the coordinator stands still (%v), want 1", n, err)
	}
	testenv.Eventually(t, healLimit, func() error {
		if d := sys.decisions(t)[next]; !d.Done {
			return fmt.Errorf("got %+v, want it done", d)
		}
		return nil
	})
	return true
}

// awaitDecision waits for a decision of that number, or a later one, that fits, and returns its number.
func (s *system) awaitDecision(t *testing.T, least int, fits func(decision) bool) (number int) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		all := s.decisions(t)
		if number = len(all) - 1; number < least || !fits(all[number]) {
			return fmt.Errorf("got %+v, want another one after the first %d", all, least)
		}
		return nil
	})
	return number
}

// decision is an element of the answer to GET scaling/decisions.
type decision struct {
	At            time.Time
	Count, Wanted int
	Done          bool
	Why           string
}

func (s *system) decisions(t *testing.T) []decision {
	t.Helper()
	all, err := get[[]decision](s, "/api/v1/scaling/decisions")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (s *system) awaitDesired(t *testing.T, slaves int) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		n, err := s.desired()
		if err == nil && n != slaves {
			err = fmt.Errorf("wanted slaves: got %d, want %d", n, slaves)
		}
		return err
	})
}

// desired returns the wanted number of slaves.
func (s *system) desired() (int, error) {
	c, err := get[struct {
		Desired int `json:"desired_slaves"`
	}](s, "/api/v1/cluster")
	return c.Desired, err
}

// killLowest kills the worker with the lowest pid of those with that role. The worker may have ended by itself already.
func (s *system) killLowest(t *testing.T, role string) {
	t.Helper()
	pids := s.cluster(t).pids(role)
	if len(pids) == 0 {
		t.Fatalf("no %s to kill", role)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
}
